// Each page of pages.json on a system full of work. A new page is a line there.
import fs from 'node:fs';
import path from 'node:path';
import { test, expect } from '../lib/fixtures.js';
import { accessible, contrasts, fits, focusShows, keys, shoot, shots, tabTo } from '../lib/check.js';

const { pages, tabs } = JSON.parse(fs.readFileSync(path.join(__dirname, '..', 'pages.json'), 'utf8'));
const themes = ['light', 'dark'];
const widths = [390, 1280, 1920];
const phone = { width: 360, height: 740 };
const desk = { width: 1280, height: 1000 };

// All scripts of a page together, as they are sent.
const scriptBytes = 150_000;

/** address is where a page is; one that shows a file names it. */
async function address(request, entry) {
  if (!entry.artifact) return entry.path;
  const { artifacts } = await (await request.get(`/api${entry.path.replace(/\/$/, '')}`)).json();
  const file = artifacts.find((a) => a.name === entry.artifact);
  expect(file, `${entry.path} has a file ${entry.artifact}`).toBeTruthy();
  return entry.path + file.id;
}

/** open goes to a page and requires its status. */
async function open(page, complaints, entry) {
  const where = await address(page.request, entry);
  const status = entry.status ?? 200;
  if (status !== 200) {
    complaints.allow(new RegExp(`status of ${status} `));
    complaints.allow(new RegExp(`^answer ${status}: GET .*${where}$`));
  }
  const answer = await page.goto(where, { waitUntil: 'load' });
  expect(answer.status(), where).toBe(status);
  await expect(page.locator('h1').first()).toBeVisible();
}

/** cost is what a page that has just been loaded made the browser fetch, and when it painted. */
async function cost(page) {
  return page.evaluate(() => {
    const scripts = performance.getEntriesByType('resource').filter((e) => /\.js$/.test(new URL(e.name).pathname));
    const paint = performance.getEntriesByName('first-contentful-paint')[0];
    return { bytes: scripts.reduce((sum, e) => sum + e.encodedBodySize, 0), scripts: scripts.length, paint: paint?.startTime };
  });
}

const paints = [];

test.afterAll(() => {
  if (paints.length === 0) return;
  const at = (share) => Math.round(paints[Math.min(paints.length - 1, Math.floor(paints.length * share))]);
  paints.sort((a, b) => a - b);
  console.log(`first paint of ${paints.length} pages: median ${at(0.5)} ms, p95 ${at(0.95)} ms, slowest ${at(1)} ms`);
});

for (const entry of pages) {
  test(`${entry.name} is accessible, fits a phone and is small`, async ({ page, complaints }, info) => {
    await page.setViewportSize(desk);
    await page.emulateMedia({ colorScheme: 'light' });
    await open(page, complaints, entry);
    await accessible(page, info);
    const { bytes, scripts, paint } = await cost(page);
    expect(scripts, 'scripts that the page loaded').toBeGreaterThan(0);
    expect(bytes, 'bytes of script').toBeLessThan(scriptBytes);
    if (paint) paints.push(paint);
    await page.emulateMedia({ colorScheme: 'dark' });
    await contrasts(page);
    for (let i = 0; i < 5; i++) {
      await page.keyboard.press('Tab');
      await focusShows(page);
    }
    await page.setViewportSize(phone);
    await page.reload({ waitUntil: 'load' });
    await fits(page);
    const tab = page.locator('nav[aria-label="Run"] a[aria-current]');
    if (await tab.count()) await expect(tab, 'the tab that is shown').toBeInViewport({ ratio: 0.9 });
  });

  // Twelve pictures of each page, for whoever looks at them.
  if (shots) {
    test(`${entry.name} is photographed`, async ({ page, complaints }) => {
      for (const theme of themes) {
        await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' });
        for (const width of widths) {
          await page.setViewportSize({ width, height: width < 720 ? 844 : 1000 });
          await open(page, complaints, entry);
          await shoot(page, `${entry.name}-${width}-${theme}`);
        }
      }
    });
  }
}

test('every tab of a run is a page that is looked at', async ({ page }) => {
  await page.goto('/runs/23');
  const all = await page.locator('nav[aria-label="Run"] a').evaluateAll((links) => links.map((a) => a.getAttribute('href')));
  expect(all.sort()).toEqual(tabs.map((tab) => (tab ? `/runs/23/${tab}` : '/runs/23')).sort());
  expect(pages.map((p) => p.path)).toEqual(expect.arrayContaining(all));
});

test('by keys alone one finds a run, opens it, goes through its tabs and elsewhere', async ({ page }) => {
  await page.goto('/runs');
  const link = (n) => page.locator('[data-rows] tbody tr').nth(n).locator('a[data-open]');
  await keys(page, 'j');
  await expect(link(0)).toBeFocused();
  await keys(page, 'j', 'j', 'k');
  await expect(link(1)).toBeFocused();
  const href = await link(1).getAttribute('href');
  await keys(page, 'Enter');
  await page.waitForURL(`**${href}`);

  for (const [key, tab] of [[']', 'environment'], [']', 'timeline'], ['[', 'environment'], ['[', '']]) {
    await keys(page, key);
    await page.waitForURL(`**${href}${tab && `/${tab}`}`);
    await expect(page.locator('nav[aria-label="Run"] a[aria-current="page"]')).toHaveAttribute('href', `${href}${tab && `/${tab}`}`);
  }
  await keys(page, 'g', 'a');
  await page.waitForURL('**/agents');
  await expect(page.locator('h1')).toHaveText('Agents');
  await keys(page, 'g', 'p');
  await page.waitForURL('**/pipelines');
  await keys(page, 'j', 'Enter');
  await page.waitForURL('**/pipelines/*');
  await keys(page, 'g', 'm');
  await page.waitForURL('**/settings/models');
  await keys(page, 'g', 'r');
  await page.waitForURL('**/runs');

  await keys(page, '?');
  await expect(page.locator('dialog#keys[open]')).toBeVisible();
  await keys(page, 'Escape');
  await expect(page.locator('dialog#keys')).toBeHidden();

  await keys(page, '/');
  await expect(page.locator('[data-search]')).toBeFocused();
  await page.keyboard.type('pgx');
  await keys(page, 'Enter');
  await page.waitForURL('**/runs?*text=pgx*');
  const found = page.locator('[data-rows] tbody tr');
  expect(await found.count()).toBeGreaterThan(0);
  for (const goal of await found.allInnerTexts()) expect(goal.toLowerCase()).toContain('pgx');
});

test('the theme is chosen by keys, at once, and stays', async ({ page }) => {
  await page.emulateMedia({ colorScheme: 'light' });
  await page.goto('/runs');
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const before = await ground();
  await tabTo(page, page.locator('[data-theme-switch]'));
  await keys(page, 'Enter');
  await expect.poll(ground).not.toBe(before);
  const dark = await ground();
  await page.goto('/agents');
  expect(await ground()).toBe(dark);
});

test('a model is chosen and reset by keyboard, and someone who saw an older choice is told', async ({ page, complaints }, info) => {
  await page.setViewportSize(phone);
  await page.goto('/settings/models');
  const row = page.locator('#agent-beta');
  const before = (await row.locator('.mono').first().innerText()).trim();
  const summary = row.locator('summary');
  await summary.focus();
  await keys(page, 'Enter');
  const model = row.getByLabel('Model for the beta', { exact: true });
  await expect(model).toHaveAttribute('placeholder', before);
  await model.fill('anthropic/claude-sonnet-4-5');
  const temperature = row.getByLabel('Temperature for the beta');
  await temperature.fill('0.3');
  await fits(page);
  await accessible(page, info);
  if (shots) await shoot(page, 'choose-model');
  await row.getByRole('button', { name: 'Save' }).focus();
  await keys(page, 'Enter');
  await expect(row).toContainText('anthropic/claude-sonnet-4-5 (temperature 0.3)');
  await expect(row).toContainText('settings page, by dashboard at ');
  await expect(page.locator('#model-changes tbody tr').first()).toContainText('claude-sonnet-4-5');

  await expect(model).toHaveValue('');
  const fixed = await page.locator('#models option[data-fixed-temperature]').first().getAttribute('value');
  await model.fill(fixed);
  await expect(temperature, `${fixed} takes no temperature`).toBeDisabled();
  await model.fill('');
  await expect(temperature, 'the model that it has takes one').toBeEnabled();
  await model.fill('openai/gpt-5-mini');
  await expect(page.locator('#agent-gamma .mono').first()).not.toContainText('claude-sonnet-4-5');

  const other = await page.request.put('/api/models/agents/beta', { data: { model: 'openai/gpt-5-mini', by: 'ana' } });
  expect(other.ok()).toBeTruthy();
  complaints.allow(/status of 409 |answer 409: PUT /);
  await row.getByRole('button', { name: 'Save' }).click();
  await expect(page.locator('.toast')).toContainText(['ana set the model of the beta to openai/gpt-5-mini']);

  await page.reload();
  await summary.click();
  await row.getByRole('button', { name: 'Reset' }).click();
  await page.locator('dialog#confirm [data-confirm]').click();
  await expect(row.locator('.mono').first()).toHaveText(before);
});

test('the catalogue is searched by keyboard, and loaded in parts', async ({ page }, info) => {
  await page.setViewportSize(phone);
  await page.goto('/settings/models');
  const rows = page.locator('#catalogue tbody tr');
  const first = await rows.count();
  expect(first).toBeLessThanOrEqual(50);
  await page.locator('#catalogue a[rel=next]').scrollIntoViewIfNeeded();
  await expect.poll(() => rows.count(), 'the next part is loaded').toBeGreaterThan(first);
  await keys(page, '/');
  await expect(page.getByLabel('Search models')).toBeFocused();
  await page.keyboard.type('gpt-5-mini');
  await keys(page, 'Enter');
  await page.waitForURL('**/settings/models?*text=gpt-5-mini*');
  for (const row of await rows.allInnerTexts()) expect(row).toContain('gpt-5-mini');
  await page.getByLabel('Provider', { exact: true }).selectOption('all');
  await page.waitForURL('**/settings/models?*provider=all*');
  expect(await rows.count()).toBeGreaterThan(1);
  await fits(page);
  await accessible(page, info);
});

for (const [strategy, agent] of [['cheapest', 'planner'], ['balanced', 'builder']]) {
  test(`the page of a call of the ${agent} compares the models that ${strategy} chose among`, async ({ page, request }, info) => {
    const { calls } = await (await request.get('/api/runs/23/calls')).json();
    const call = calls.find((c) => c.agent === agent && c.route.strategy === strategy && c.route.considered);
    await page.goto(`/runs/23/timeline?span=call-${call.id}`);
    const why = page.locator('#route');
    await expect(why).toContainText(strategy);
    await expect(why.locator('li,p').first()).toContainText(call.route.reasons[0]);
    await expect(why.locator('tbody tr')).toHaveCount(call.route.considered.length);
    await expect(why.locator('tbody tr').first()).toContainText('used');
    await why.scrollIntoViewIfNeeded();
    if (shots) await shoot(page, `call-${strategy}`);
    await fits(page);
    await accessible(page, info);
    await page.setViewportSize(phone);
    await page.reload();
    await why.scrollIntoViewIfNeeded();
    await fits(page);
    if (shots) await shoot(page, `call-${strategy}-phone`);
  });
}
