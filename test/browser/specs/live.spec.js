// A real stack under the page: scripted runs with heals, switches of models,
// questions to people, a replay. browser_test.go starts it and says by RGPT_LIVE
// where the repository lies and which goals the scenario answers.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { test, expect } from '../lib/fixtures.js';
import { tabTo } from '../lib/check.js';
import { command, marked, patient } from '../lib/live.js';
import { wire } from '../lib/wire.js';

const live = JSON.parse(process.env.RGPT_LIVE ?? 'null');

// What the pages offer to these tests:
//   [data-run="42"][data-state="queued|running|waiting|paused|healing|done|failed|stopped"]  a run, in lists and on its page
//   button[data-command="pause|stop|resume|approve|reject|replay|switch-model|heal"]
//   dialog[open] [data-confirm]     the question before a command, and its yes
//   [role="status"]                 the place of answers
//   nav[aria-label="Run"] a         the tabs
//   a[data-download="zip"], .d2h-ins, [data-live="on|reconnecting"]

test.setTimeout(600_000);
test.skip(live === null, 'needs a stack');

/** create makes a run as any client does. */
async function create(request, goal, more = {}) {
  const answer = await request.post('/api/runs', { data: { repo: live.repo, goal: live.goals[goal], ...more } });
  expect(answer.status(), await answer.text()).toBe(201);
  return (await answer.json()).runId;
}

/** details is the whole run as the API has it. */
async function details(request, id) {
  return (await request.get(`/api/runs/${id}`)).json();
}

/** becomes waits until the API says that a run is like that. */
async function becomes(request, id, ...statuses) {
  await expect.poll(async () => (await details(request, id)).status, patient).toMatch(new RegExp(`^(${statuses.join('|')})$`));
}

const row = (page, id) => page.locator(`[data-run="${id}"]`).first();

/** state waits until the page shows a run in a state. */
async function state(page, id, ...states) {
  await expect(row(page, id)).toHaveAttribute('data-state', new RegExp(`^(${states.join('|')})$`), patient);
}

/** states notes the states that a page shows of a run, however short, from now on. */
async function states(page, id) {
  const seen = [];
  await page.exposeFunction(`saw${id}`, (s) => seen.push(s));
  await page.evaluate((id) => {
    const look = () => {
      for (const e of document.querySelectorAll(`[data-run="${id}"]`)) window[`saw${id}`](e.dataset.state);
    };
    new MutationObserver(look).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ['data-state'] });
    look();
  }, id);
  return seen;
}

/** unpacks requires that a file is a zip that holds a file of a name. */
function unpacks(file, name) {
  execFileSync('unzip', ['-tq', file]);
  expect(execFileSync('unzip', ['-Z1', file]).toString().split('\n')).toContain(name);
}

test('a run is healed, approved, and packed', async ({ request }, info) => {
  const id = await create(request, 'heals', { approve_release: true });
  await becomes(request, id, 'waiting_for_approval');
  const waits = await details(request, id);
  expect(waits.self_heal_events.map((h) => `${h.error_type} ${h.heal_action} ${h.status}`)).toEqual(['ASSERTION_ERROR repair success']);
  expect((await request.post(`/api/runs/${id}/approve`, { data: { by: 'ann' } })).status()).toBe(200);
  await becomes(request, id, 'done');
  const zip = await request.get(`/api/runs/${id}/zip`);
  const file = info.outputPath('run.zip');
  fs.writeFileSync(file, await zip.body());
  unpacks(file, 'report.md');
});

test('the list follows a run from its creation to its end without a reload', async ({ page, request, context }) => {
  await page.goto('/runs');
  await expect(page.locator('[data-live="on"]')).toBeVisible();
  const same = await marked(page);
  const id = await create(request, 'heals', { approve_release: true });
  const seen = await states(page, id);
  await state(page, id, 'waiting');
  const answer = await context.newPage();
  await answer.goto(`/runs/${id}`);
  await command(answer, 'approve', { asks: true });
  await answer.close();
  await state(page, id, 'done');
  await same();
  expect(seen).toEqual(expect.arrayContaining(['running', 'healing', 'waiting', 'done']));
});

test('the page of a run shows its states and its question as they come', async ({ page, request }) => {
  const id = await create(request, 'heals', { approve_release: true });
  await page.goto(`/runs/${id}`);
  const same = await marked(page);
  await state(page, id, 'waiting');
  await command(page, 'approve', { asks: true, reason: 'looked at it' });
  await state(page, id, 'done');
  await same();
  const run = await details(request, id);
  expect(run.approvals.map((a) => `${a.kind} ${a.status} ${a.reason}`)).toEqual(['release granted looked at it']);
});

test('a switch of the model takes effect with the next call', async ({ page, request }) => {
  const id = await create(request, 'slow');
  const calls = async () => Object.fromEntries((await details(request, id)).model_usage.filter((u) => u.agent === 'builder').map((u) => [u.model, u.calls]));
  await page.goto(`/runs/${id}/models`);
  await expect.poll(async () => Object.keys(await calls()), patient).toEqual(['scripted']);
  await tabTo(page, page.locator('#switch-builder [name="model"]'));
  await page.keyboard.type('scripted/other');
  await tabTo(page, page.locator('#switch-builder button[data-command="switch-model"]'));
  await page.keyboard.press('Enter');
  await expect(page.locator('[role="status"] > *').first()).toBeVisible();
  const { scripted: before } = await calls();
  await expect.poll(async () => (await calls()).other ?? 0, patient).toBeGreaterThan(1);
  expect((await calls()).scripted, 'calls of the model before: none after the one that was under way').toBeLessThanOrEqual(before + 1);
  await expect(page.locator('#agent-builder')).toContainText('scripted/other', patient);
  expect((await request.post(`/api/runs/${id}/stop`, { data: {} })).status()).toBe(200);
  await becomes(request, id, 'cancelled');
});

test('pause, resume and stop do what they say', async ({ page, request }) => {
  const id = await create(request, 'slow');
  await page.goto(`/runs/${id}`);
  await state(page, id, 'running');
  await command(page, 'pause');
  await state(page, id, 'paused');
  expect((await details(request, id)).status).toBe('paused');
  await command(page, 'resume');
  await state(page, id, 'running');
  await command(page, 'stop', { asks: true, reason: 'enough' });
  await state(page, id, 'stopped');
  expect((await details(request, id)).status).toBe('cancelled');
});

test('a plan that is rejected ends its run', async ({ page, request }) => {
  const id = await create(request, 'quick', { approve_plan: true });
  await page.goto(`/runs/${id}`);
  await state(page, id, 'waiting');
  await command(page, 'reject', { asks: true, reason: 'not this way' });
  await state(page, id, 'failed');
  const run = await details(request, id);
  expect(run.status).toBe('failed');
  expect(run.failure.error_message).toContain('not this way');
});

test('the files of a run are downloaded as one', async ({ page, request }, info) => {
  const id = await create(request, 'quick');
  await becomes(request, id, 'done');
  await page.goto(`/runs/${id}`);
  const [download] = await Promise.all([page.waitForEvent('download'), page.locator('a[data-download="zip"]').click()]);
  const file = info.outputPath('run.zip');
  await download.saveAs(file);
  unpacks(file, 'report.md');
});

test('a page that lost the server says so and catches up', async ({ page, request, baseURL, complaints }) => {
  const line = await wire(baseURL);
  try {
    complaints.allow(new RegExp(`^outside request: GET ${line.address}/`));
    complaints.allow(/ERR_(CONNECTION|EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING|SOCKET)/);
    await page.goto(`${line.address}/runs`);
    await expect(page.locator('[data-live="on"]')).toBeVisible();
    const same = await marked(page);
    line.cut();
    await expect(page.locator('[data-live="reconnecting"]')).toBeVisible(patient);
    const id = await create(request, 'heals');
    await becomes(request, id, 'done');
    await expect(row(page, id)).toHaveCount(0);
    line.mend();
    await expect(page.locator('[data-live="on"]')).toBeVisible(patient);
    await state(page, id, 'done');
    await same();
  } finally {
    line.close();
  }
});

test('a plan is approved with the key of its own', async ({ page, request }) => {
  const id = await create(request, 'quick', { approve_plan: true });
  await page.goto(`/runs/${id}`);
  await state(page, id, 'waiting');
  const same = await marked(page);
  await expect(page.locator('#ask')).toContainText('step-001');
  await command(page, 'approve', { key: 'a', asks: true, reason: 'as I would do it' });
  await state(page, id, 'done');
  await same();
  expect((await details(request, id)).approvals.map((a) => `${a.kind} ${a.status} ${a.reason}`)).toEqual(['plan granted as I would do it']);
});

test('a plan that is edited is the one that is built', async ({ page, request }) => {
  const id = await create(request, 'quick', { approve_plan: true });
  await page.goto(`/runs/${id}`);
  await state(page, id, 'waiting');
  const fold = page.locator('details', { has: page.locator('#edit-plan') });
  await tabTo(page, fold.locator('summary'));
  await page.keyboard.press('Enter');
  const text = fold.locator('textarea[name="plan"]');
  await tabTo(page, text);
  const plan = JSON.parse(await text.inputValue());
  plan.steps[0].name = 'Do it another way';
  await page.keyboard.press('Control+A');
  await page.keyboard.insertText(JSON.stringify(plan));
  await command(page, 'approve-edited', { asks: true });
  await state(page, id, 'done');
  await page.goto(`/runs/${id}/plan`);
  await expect(page.locator('#tab')).toContainText('Do it another way');
  expect((await details(request, id)).approvals.map((a) => `${a.kind} ${a.status}`)).toEqual(['plan granted']);
});

test('the tabs of a healed run show what changed, and it is done again from a phase while one watches', async ({ page, request }) => {
  const id = await create(request, 'heals');
  await becomes(request, id, 'done');
  await page.goto(`/runs/${id}`);
  for (const tab of ['Heals', 'Changes']) {
    await tabTo(page, page.locator('nav[aria-label="Run"] a', { hasText: tab }));
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/${tab.toLowerCase()}`);
    await expect(page.locator('.d2h-ins').first()).toBeVisible();
    await expect(page.locator('.d2h-ins', { hasText: 'made' }).first()).toBeVisible();
  }

  await page.goto(`/runs/${id}/replay`);
  const attempts = async () => (await details(request, id)).phases.filter((p) => p.phase === 'tester').length;
  const before = await attempts();
  await tabTo(page, page.locator('nav[aria-label="Replay from"] a', { hasText: 'tester' }));
  await page.keyboard.press('Enter');
  await page.waitForURL('**/replay?from=tester');
  const same = await marked(page);
  const seen = await states(page, id);
  await expect(page.locator('[data-live="on"]')).toBeVisible();
  await tabTo(page, page.locator('#replay-order textarea[name="reason"]'));
  await page.keyboard.type('once more');
  await command(page, 'replay', { asks: true });
  await expect(page.locator('#replays')).toContainText('once more', patient);
  await expect.poll(attempts, patient).toBe(before + 1);
  await becomes(request, id, 'done');
  await state(page, id, 'done');
  // The console begins anew with the replay, and shows how it ends.
  await expect(page.locator('#console')).toContainText('releaser.completed', patient);
  await same();
  expect(seen).toContain('running');
});

test('two runs are compared', async ({ page, request }) => {
  const first = await create(request, 'quick');
  const second = await create(request, 'heals');
  await becomes(request, first, 'done');
  await becomes(request, second, 'done');
  await page.goto(`/runs/${first}/diff/${second}`);
  await expect(page.locator('h1').first()).toContainText(`#${first} with #${second}`);
  // What the repair wrote, and what the other run had.
  await expect(page.locator('.d2h-ins', { hasText: 'made' }).first()).toBeVisible();
  await expect(page.locator('.d2h-del', { hasText: 'quick' }).first()).toBeVisible();
});
