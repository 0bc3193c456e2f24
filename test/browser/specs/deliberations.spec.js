// Real deliberations under their pages: continued, stopped, recovered. browser_test.go
// starts the stack and says by RGPT_DELIBERATIONS which objectives the scenario answers.
import fs from 'node:fs';
import { test, expect } from '../lib/fixtures.js';
import { accessible } from '../lib/check.js';
import { command, marked, patient } from '../lib/live.js';

const deliberations = JSON.parse(process.env.RGPT_DELIBERATIONS ?? 'null');

// What the pages offer to these tests, beside what live.spec.js names:
//   [data-pipeline="7"][data-status="REPORT"][data-state]  a pipeline, in lists and on its page
//   button[data-command="continue|stop|revoke"]
//   #ask, #consensus, #gamma, #blackboard, #votes, #messages, #metrics, #reports, #recovery
//   [data-ballot="key v1"], [data-member="ALPHA"][data-member-status]
//   a[data-download="handoff"]

test.setTimeout(600_000);
test.skip(deliberations === null, 'needs a stack');

/** spawn makes a pipeline as any client does. */
async function spawn(request, objective, more = {}) {
  const answer = await request.post('/api/spawn', { data: { objective: deliberations[objective], ...more } });
  expect(answer.status(), await answer.text()).toBe(201);
  return (await answer.json()).pipeline_id;
}

/** details is the pipeline as the API has it. */
async function details(request, id) {
  return (await request.get(`/api/pipelines/${id}`)).json();
}

const shown = (page, id) => page.locator(`[data-pipeline="${id}"]`).first();

/** status waits until the page shows a pipeline in a status. */
async function status(page, id, wanted) {
  await expect(shown(page, id)).toHaveAttribute('data-status', wanted, patient);
}

/** statuses notes what statuses a page shows of a pipeline, however short, from now on. */
async function statuses(page, id) {
  const seen = [];
  await page.exposeFunction(`saw${id}`, (s) => seen.includes(s) || seen.push(s));
  await page.evaluate((id) => {
    const look = () => {
      for (const e of document.querySelectorAll(`[data-pipeline="${id}"]`)) window[`saw${id}`](e.dataset.status);
    };
    new MutationObserver(look).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ['data-status'] });
    look();
  }, id);
  return seen;
}

test('a pipeline that waits is continued on its page, which follows it to the consensus', async ({ page, request }, info) => {
  const id = await spawn(request, 'caching', { auto_continue: false });
  await page.goto(`/pipelines/${id}`);
  const same = await marked(page);
  const seen = await statuses(page, id);
  await status(page, id, 'REPORT');
  await expect(shown(page, id)).toHaveAttribute('data-state', 'waiting', patient);
  await expect(page.locator('#ask')).toContainText('Start the discussion?');
  await expect(page.locator('#reports')).toContainText('Checkpoint');
  await expect(page.locator('#section-solutions')).toContainText('A read-through cache in front of the database');
  await expect(page.locator('#section-problem'), 'what was found out').toContainText('complexity 0.90');
  await expect(page.locator('#gamma'), 'GAMMA is there, and why').toContainText('COMPLEXITY');
  await accessible(page, info);
  await command(page, 'continue', { key: 'a' });
  await status(page, id, 'COMPLETED');
  await expect(page.locator('#ask')).toHaveCount(0);
  await expect(page.locator('#consensus')).toContainText('Read through, invalidate on write, and 60 s as the bound');
  await expect(page.locator('#consensus')).toContainText('cache v1 by votes');
  await expect(page.locator('#entry-synthesis-cache')).toHaveAttribute('data-entry-state', 'accepted');
  await expect(page.locator('[data-ballot="cache v1"] .s-done'), 'both accept').toHaveCount(2);
  await expect(page.locator('#messages')).toContainText('What happens when the feed is late?');
  await expect(page.locator('#gamma')).toContainText('the complexity exceeded 0.80');
  await expect(page.locator('#reports')).toContainText('Final');
  await expect(page.locator('button[data-command]'), 'nothing can be done to what is over').toHaveCount(0);
  await same();
  expect(seen).toEqual(expect.arrayContaining(['REPORT', 'ORCHESTRATING', 'COMPLETED']));
  expect((await details(request, id)).status).toBe('COMPLETED');
  await accessible(page, info);
});

test('the list of pipelines follows them without a reload, and says what waits', async ({ page, request }) => {
  await page.goto('/pipelines');
  await expect(page.locator('[data-live="on"]')).toBeVisible(patient);
  const same = await marked(page);
  const id = await spawn(request, 'caching', { auto_continue: false });
  await expect(page.locator(`#ask-${id}`), 'it is among what waits').toBeVisible(patient);
  await status(page, id, 'REPORT');
  const answer = await request.post('/api/pipeline/continue', { data: { pipeline_id: id } });
  expect(answer.status(), await answer.text()).toBe(200);
  await status(page, id, 'COMPLETED');
  await expect(page.locator(`#ask-${id}`)).toHaveCount(0);
  await expect(page.locator(`#pipeline-${id}`)).toContainText('reached');
  await same();
});

test('an agent is revoked and the pipeline stopped on its page, and what was found is kept', async ({ page, request }, info) => {
  const id = await spawn(request, 'sluggish', { auto_continue: true });
  await page.goto(`/pipelines/${id}`);
  const same = await marked(page);
  await status(page, id, 'ORCHESTRATING');
  const beta = page.locator('#beta [data-member-status]');
  await expect(beta).toHaveAttribute('data-member-status', 'thinking', patient);
  await page.locator('#beta button[data-command="revoke"]').focus();
  await page.keyboard.press('Enter');
  await expect(page.locator('dialog[open]')).toContainText('Revoke BETA');
  await page.locator('dialog[open] [data-confirm]').focus();
  await page.keyboard.press('Enter');
  await expect(beta).toHaveAttribute('data-member-status', 'revoked', patient);
  await expect(page.locator('#beta button[data-command="revoke"]')).toHaveCount(0);
  await command(page, 'stop', { asks: true, reason: 'enough of this' });
  await status(page, id, 'STOPPED');
  await expect(page.locator('main')).toContainText('Stopped pipelines are not recovered.');
  await expect(page.locator('main')).toContainText('enough of this');
  await expect(page.locator('#reports')).toContainText('Partial');
  await expect(page.locator('#section-solutions'), 'what was found').toContainText('Another way.');
  await expect(page.locator('button[data-command]')).toHaveCount(0);
  await same();
  const { status: ended, members } = await details(request, id);
  expect(ended).toBe('STOPPED');
  expect(members.map((m) => m.status)).not.toContain('thinking');
  await accessible(page, info);
});

test('a pipeline that is given up leads to its recovery, and back', async ({ page, request }, info) => {
  const id = await spawn(request, 'rounds', { auto_continue: true });
  await page.goto(`/pipelines/${id}`);
  const same = await marked(page);
  await status(page, id, 'ORCHESTRATION_FAILED');
  const link = page.locator('#recovery a');
  await expect(link).toHaveCount(1, patient);
  await expect(page.locator('#recovery')).toContainText('Recovered by');
  await expect(page.locator('#failure-context')).toContainText('4');
  await expect(page.locator('main')).toContainText('no consensus after 4 rounds of exchange');
  await expect(page.locator('#metrics'), 'the analysis').toContainText('conflicts (threshold 3)');
  const [download] = await Promise.all([page.waitForEvent('download'), page.locator('a[data-download="handoff"]').click()]);
  const file = info.outputPath('handoff.json');
  await download.saveAs(file);
  const handoff = JSON.parse(fs.readFileSync(file, 'utf8'));
  expect([handoff.pipeline_id, handoff.abort_reason, handoff.proposals.map((e) => e.key)]).toEqual([id, 'iteration_limit', ['p1']]);
  await same();

  await link.click();
  const { recovered_by: next } = await details(request, id);
  await page.waitForURL(`**/pipelines/${next}`);
  await status(page, next, 'COMPLETED');
  await expect(page.locator('#recovery .badge')).toContainText('Recovery');
  await expect(page.locator('#gamma')).toContainText('an earlier attempt had failed');
  await expect(page.locator('#section-solutions')).toContainText('from attempt 1');
  await expect(page.locator('#consensus')).toContainText('One queue, and a share of it for each tenant.');
  await accessible(page, info);
  await page.locator('#recovery a').click();
  await page.waitForURL(`**/pipelines/${id}`);
  await expect(page.locator('#recovery')).toContainText('completed');
});
