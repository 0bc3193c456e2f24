// Runs whose every text tries to become more than text. Nothing of them may run,
// load, point or hide.
import fs from 'node:fs';
import path from 'node:path';
import { test, expect } from '../lib/fixtures.js';

const { tabs, beside } = JSON.parse(fs.readFileSync(path.join(__dirname, '..', 'pages.json'), 'utf8'));
const runs = Number(process.env.RGPT_HOSTILE_RUNS);

/** intrusions lists what stands in a document that only a hostile text puts there. */
function intrusions() {
  const found = [];
  const tell = (e, why) => found.push(`${why}: ${e.outerHTML.slice(0, 200)}`);
  if (window.__xss !== undefined) found.push(`a hostile text ran: ${window.__xss}`);
  if ({}.polluted !== undefined) found.push('the prototype of all objects is polluted');
  for (const e of document.querySelectorAll('*')) {
    for (const a of e.attributes) {
      if (/^on/i.test(a.name)) tell(e, `the attribute ${a.name}`);
      // Browsers take white space and control characters out of addresses before they read the scheme.
      // eslint-disable-next-line no-control-regex
      const value = a.value.replace(/[\u0000-\u0020\u007f-\u00a0]/g, '');
      if (['href', 'src', 'action', 'formaction', 'xlink:href', 'data', 'poster', 'hx-get', 'hx-post'].includes(a.name) && /^(javascript|vbscript|data):/i.test(value) && !(e.tagName === 'LINK' && a.name === 'href' && value.startsWith('data:image/'))) tell(e, `an address in ${a.name}`);
      if (['href', 'src', 'action', 'formaction'].includes(a.name) && /evil\.example/.test(new URL(a.value, location.href).host)) tell(e, `an address of the hostile host in ${a.name}`);
    }
    if (['IFRAME', 'OBJECT', 'EMBED', 'BASE', 'MARQUEE', 'MATH', 'MGLYPH', 'XMP', 'PLAINTEXT'].includes(e.tagName.toUpperCase())) tell(e, 'an element that no page has');
    if (e.tagName === 'META' && /refresh/i.test(e.httpEquiv)) tell(e, 'a page that leads elsewhere');
    if (e.tagName === 'SCRIPT' && !e.src && !/json/.test(e.type)) tell(e, 'a script in the page');
    if (/window\.__xss/.test(e.className?.baseVal ?? e.className ?? '')) tell(e, 'a hostile class');
    if (getComputedStyle(e).zIndex === '99999') tell(e, 'an element that lies over the page');
  }
  return found;
}

/** harmless requires that nothing hostile is in the page. */
async function harmless(page, where) {
  expect(await page.evaluate(intrusions), where).toEqual([]);
  expect(page.frames().length, `frames of ${where}`).toBe(1);
  await expect(page.locator('h1').first(), where).toBeVisible();
}

/** provoke opens, hovers and focuses what can be. */
async function provoke(page, where) {
  await page.evaluate(() => {
    for (const d of document.querySelectorAll('details')) d.open = true;
  });
  await page.evaluate(() => {
    for (const e of document.querySelectorAll('body *')) {
      for (const type of ['pointerover', 'mouseover', 'mouseenter', 'focus', 'toggle', 'load', 'error', 'animationstart']) e.dispatchEvent(new Event(type));
    }
  });
  for (let i = 0; i < 8; i++) await page.keyboard.press('Tab');
  await harmless(page, `${where}, with all opened and touched`);
}

/** visit looks at a page, as it came and with all of it touched. What ran before stays to be seen after. */
async function visit(page, where) {
  expect((await page.goto(where)).status(), where).toBe(200);
  await provoke(page, where);
}

const address = (id, tab) => (tab ? `/runs/${id}/${tab}` : `/runs/${id}`);

for (const where of beside) {
  test(`${where} takes nothing hostile for more than text`, async ({ page }) => {
    await visit(page, where);
  });
}

// Tabs whose texts scripts take into their hands are looked at for every text, the
// others for every third, by turns: the server draws those, and its own tests
// hold each of them to each text.
const scripted = ['', 'timeline', 'plan', 'changes', 'heals', 'logs', 'replay'];
const turns = 3;
const drawn = tabs.filter((tab) => !scripted.includes(tab));

// A screenshot that is none is refused, which browsers complain of.
const noPicture = /\/artifacts\/\d+\/content/;

for (let id = 1; id <= runs; id++) {
  test(`run ${id} takes nothing hostile for more than text`, async ({ page, complaints }) => {
    complaints.allow(noPicture);
    for (const tab of [...scripted, ...drawn.filter((_, i) => (i + id) % turns === 0)]) await visit(page, address(id, tab));
  });
}

// Each text has a pipeline that failed, and one that recovers it.
for (let id = 1; id <= 2 * runs; id++) {
  test(`pipeline ${id} takes nothing hostile for more than text`, async ({ page }) => {
    await visit(page, `/pipelines/${id}`);
  });
}

test('a long text of a hostile pipeline is shown as text, in its place and on a page of its own', async ({ page }) => {
  await page.goto('/pipelines/1');
  const link = page.locator('a[data-whole]').first();
  const whole = await link.getAttribute('href');
  await link.click();
  await expect(page.locator('[data-lines]').first()).toContainText('<script>');
  await harmless(page, 'a long text in its place');
  await visit(page, whole);
});

test('files of a hostile run are shown as text', async ({ page, request }) => {
  const { artifacts } = await (await request.get('/api/runs/1/artifacts')).json();
  const first = new Map(artifacts.map((a) => [a.type, a]).reverse()); // one of each type
  expect(first.size).toBeGreaterThan(2);
  for (const a of first.values()) await visit(page, `/runs/1/artifacts/${a.id}`);
});

test('every tab is one that is looked at', async ({ page }) => {
  await page.goto('/runs/1');
  const all = await page.locator('nav[aria-label="Run"] a').evaluateAll((links) => links.map((a) => a.getAttribute('href')));
  expect(all.sort()).toEqual(tabs.map((tab) => address(1, tab)).sort());
});

test('what a hostile text would put into a page is noticed', async ({ page, complaints }) => {
  complaints.allow(/./); // all that follows is what pages must never do
  await page.goto('/runs');
  expect(await page.evaluate(intrusions)).toEqual([]);
  await page.evaluate(() => {
    document.body.insertAdjacentHTML('beforeend', '<a href="java\tscript:1" onclick="1">x</a><iframe></iframe><a href="//evil.example/">y</a><p style="z-index:1">z</p><script>1</scr' + 'ipt>');
    window.__xss = 'here';
  });
  const found = (await page.evaluate(intrusions)).map((f) => f.split(':')[0]).sort();
  expect(found).toEqual([
    'a hostile text ran', 'a script in the page', 'an address in href', 'an address of the hostile host in href', 'an element that no page has', 'the attribute onclick',
  ]);
});

test('a hostile goal is shown as it was written', async ({ page, request }) => {
  const { goal_title: goal } = await (await request.get('/api/runs/1')).json();
  expect(goal).toContain('<script>');
  await page.goto('/runs/1');
  await expect(page.locator('h1').first()).toContainText(goal);
  expect(await page.title()).toContain('<script>');
});

test('no file of a hostile run is shown by the browser', async ({ request }) => {
  const { artifacts } = await (await request.get('/api/runs/1/artifacts')).json();
  expect(artifacts.length).toBeGreaterThan(4);
  for (const a of artifacts) {
    const answer = await request.get(`/api/runs/1/artifacts/${a.id}`);
    expect(answer.status(), a.name).toBe(200);
    const { 'content-disposition': disposition, 'x-content-type-options': sniff, 'content-type': type, 'content-security-policy': policy } = answer.headers();
    if (/^image\/(png|jpeg|webp|gif)$/.test(type)) continue; // can be looked at, and nothing more
    expect(disposition, a.name).toMatch(/^attachment/);
    expect(sniff, a.name).toBe('nosniff');
    expect(policy, a.name).toContain("default-src 'none'");
  }
});
