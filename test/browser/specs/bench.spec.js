// How long it takes from an event's row to the page that shows it. A measurement,
// not a test of time: it fails only where an event is never shown.
// browser_test.go says by RGPT_EVENTS where the next event of a run is asked for.
import { test, expect } from '../lib/fixtures.js';

const source = JSON.parse(process.env.RGPT_EVENTS ?? 'null');
const count = 100;

// Milliseconds between two events: alone, or one on the heels of the other.
const rhythms = { 'one by one': () => 700 + 600 * Math.random(), 'in bursts': () => (Math.random() < 0.8 ? 30 + 150 * Math.random() : 600) };

test.describe.configure({ mode: 'default' });
test.setTimeout(600_000);
test.skip(source === null, 'needs events');

/** noting notes from now on when the page shows which event of the run. */
async function noting(page) {
  await page.evaluate((run) => {
    window.__shown = {};
    let last = Number(document.querySelector(`[data-run="${run}"]`).dataset.seq);
    new MutationObserver(() => {
      const seq = Number(document.querySelector(`[data-run="${run}"]`)?.dataset.seq ?? last);
      const now = performance.timeOrigin + performance.now();
      while (last < seq) window.__shown[++last] = now;
    }).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ['data-seq'] });
  }, source.run);
}

for (const where of ['/runs', `/runs/${source?.run}`]) {
  for (const [rhythm, pause] of Object.entries(rhythms)) {
    test(`${where} shows events that come ${rhythm}`, async ({ page, request }) => {
      await page.goto(where);
      await expect(page.locator('[data-live="on"]')).toBeVisible();
      await noting(page);
      const seqs = [];
      for (let i = 0; i < count; i++) {
        await new Promise((done) => setTimeout(done, pause()));
        const answer = await request.post(source.next);
        expect(answer.status(), await answer.text()).toBe(200);
        seqs.push((await answer.json()).seq);
      }
      await expect.poll(() => page.evaluate((seq) => window.__shown[seq] ?? 0, seqs.at(-1))).toBeGreaterThan(0);
      const shown = await page.evaluate(() => window.__shown);
      const { events } = await (await request.get(`/api/runs/${source.run}/events?after=${seqs[0] - 1}&limit=${count}`)).json();
      const took = events.map((e) => shown[e.seq] - Date.parse(e.created_at)).sort((a, b) => a - b);
      expect(took).toHaveLength(count);
      const at = (share) => Math.round(took[Math.min(count - 1, Math.floor(count * share))]);
      console.log(`${where}, ${count} events ${rhythm}: from the row to the page p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, longest ${at(1)} ms`);
    });
  }
}
