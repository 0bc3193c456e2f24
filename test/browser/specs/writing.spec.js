// What models write, on the page of their run. The Go test shows the texts, as a worker would.
import { test, expect } from '../lib/fixtures.js';
import { patient } from '../lib/live.js';
import { accessible, fits, shoot, shots } from '../lib/check.js';

const writing = JSON.parse(process.env.RGPT_WRITING ?? 'null');
test.skip(writing === null, 'needs a run that is being built');

/** show shows a text, and repeats it until the page is there to see it. */
async function show(request, text) {
  await expect.poll(async () => (await (await request.post(writing.show, { data: text })).json()).watched, patient).toBe(true);
}

for (const tab of ['', '/logs']) {
  test(`the page${tab} of a run shows texts until their calls end`, async ({ page, request }) => {
    await page.goto(`/runs/${writing.run}${tab}`);
    const place = page.locator('[data-writing]');
    await expect(place).toBeHidden();
    await show(request, { text: 'I write <img src=x onerror=alert(1)>\n<script>alert(2)</script>' });
    await expect(place.locator('strong')).toHaveText('builder step-001');
    await expect(place.locator('pre')).toHaveText('I write <img src=x onerror=alert(1)>\n<script>alert(2)</script>');
    await expect(place.locator('img,script')).toHaveCount(0);
    await show(request, { text: 'I write', tool: 'edit_file', path: '<b>.go', characters: 1234 });
    await expect(place.locator('header span')).toHaveText('writing edit_file <b>.go (1234 characters)…');
    await show(request, { execution_id: 2, thinking: true });
    await expect(place.locator('article')).toHaveCount(2);
    await expect(place.getByText('thinking…')).toBeVisible();

    await show(request, { try: 2, text: 'The second try' });
    await show(request, { try: 1, over: true }); // late
    await show(request, { try: 1, text: 'The first try' }); // late
    await expect(place.locator('pre').first()).toHaveText('The second try');
    await show(request, { try: 2, over: true });
    await expect(place.locator('article')).toHaveCount(1);
    await show(request, { execution_id: 2, over: true });
    await expect(place).toBeHidden();
  });
}

test('a text that is not renewed disappears', async ({ page, request }) => {
  await page.clock.install();
  await page.goto(`/runs/${writing.run}`);
  const place = page.locator('[data-writing]');
  await show(request, { text: 'A worker that dies' });
  await expect(place).toBeVisible();
  await page.clock.fastForward('00:20');
  await expect(place).toBeHidden();
});

test('the page of a pipeline shows what its members write until they are done', async ({ page, request }, info) => {
  const member = { run_id: writing.account, agent: 'alpha', step: '' };
  await page.goto(`/pipelines/${writing.pipeline}`);
  const place = page.locator('[data-writing]');
  await expect(place).toBeHidden();
  await show(request, { ...member, text: '{"moves": [{"move": "propose", "text": "<b>Keep it' });
  await expect(place.locator('strong')).toHaveText('alpha');
  await expect(place.locator('pre')).toHaveText('{"moves": [{"move": "propose", "text": "<b>Keep it');
  await show(request, { ...member, agent: 'planner', execution_id: 3, text: 'not of the pipeline' });
  await show(request, { ...member, agent: 'beta', execution_id: 2, thinking: true });
  await expect(place.locator('article')).toHaveCount(2);
  await accessible(page, info);
  await fits(page);
  if (shots) await shoot(page, 'pipeline-writes');
  await show(request, { ...member, over: true });
  await show(request, { ...member, agent: 'beta', execution_id: 2, over: true });
  await expect(place).toBeHidden();
});
