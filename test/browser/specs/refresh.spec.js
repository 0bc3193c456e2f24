// What a page does as it is drawn anew: it never loses what somebody wrote, nor
// what it was about, and catches up when it failed once.
import { test, expect } from '../lib/fixtures.js';

/** anew draws the page anew, as an event would. */
const anew = (page) => page.evaluate(async () => {
  const app = await import(document.querySelector('script[type=module]').src);
  await app.refresh();
});

test('a refresh that failed is tried again', async ({ page, complaints }) => {
  complaints.allow(/503/);
  await page.goto('/runs');
  const dot = page.locator('[data-live]').first();
  await expect(dot).toHaveAttribute('data-live', 'on');
  let asked = 0;
  await page.route('**/runs', (route) => {
    asked++;
    return asked === 1 ? route.fulfill({ status: 503, body: '' }) : route.continue();
  });
  await anew(page);
  await expect(dot).toHaveAttribute('data-live', 'reconnecting');
  await expect(dot).toHaveAttribute('data-live', 'on', { timeout: 30_000 });
  expect(asked).toBeGreaterThan(1);
});

test('an answer stays with the question that somebody wrote it for', async ({ page, request }) => {
  const { runs } = await (await request.get('/api/runs?waiting=true')).json();
  let asks = null;
  for (const run of runs) {
    await page.goto(`/runs/${run.id ?? run.runId}`);
    if (await page.locator('#help textarea').count()) {
      asks = run;
      break;
    }
  }
  expect(asks, 'a run that asks for help').not.toBeNull();
  const button = page.locator('#help [data-command=approve]');
  const seen = await button.getAttribute('data-body');
  await page.route('**/runs/*', async (route) => {
    const answer = await route.fetch();
    return route.fulfill({ response: answer, body: (await answer.text()).replaceAll(/intervention\/\d+/g, 'intervention/99') });
  });
  await anew(page);
  await expect(button).toHaveAttribute('data-body', /intervention\/99/); // nobody wrote anything yet
  await page.locator('#help textarea').fill('I restarted it');
  await page.unroute('**/runs/*');
  await page.locator('h1').first().click();
  await anew(page);
  await expect(page.locator('#help textarea')).toHaveValue('I restarted it');
  await expect(button).toHaveAttribute('data-body', /intervention\/99/);
  expect(seen).not.toContain('intervention/99');
});

test('a list that somebody scrolled down stays as long as it was', async ({ page }) => {
  const more = (hidden) => `<p><a class="button" rel="next" href="/runs?cursor=later" data-more ${hidden}>Older runs</a></p>`;
  let short = false;
  await page.route(/\/runs(\?cursor=later)?$/, async (route) => {
    const answer = await route.fetch({ url: new URL('/runs', route.request().url()).href });
    let body = await answer.text();
    if (short && !route.request().url().includes('cursor')) {
      const rows = body.match(/<tr id="run-\d+".*?<\/tr>/gs);
      for (const row of rows.slice(10)) body = body.replace(row, '');
    }
    return route.fulfill({ response: answer, body: body.replace('</main>', more(short ? '' : 'hidden') + '</main>') });
  });
  await page.goto('/runs');
  const rows = page.locator('tbody[data-chunk] > tr');
  const many = await rows.count();
  expect(many).toBeGreaterThan(25);
  await rows.nth(20).evaluate((row) => { window.seen = row; });
  short = true;
  await anew(page);
  expect(await page.evaluate(() => window.seen.isConnected), 'the row is still the same one').toBe(true);
  expect(await rows.count()).toBe(many);
});

test('what somebody closed stays closed', async ({ page, request }) => {
  const { runs } = await (await request.get('/api/runs?limit=100')).json();
  const folds = page.locator('details.diff[open]');
  for (const run of runs) {
    await page.goto(`/runs/${run.id ?? run.runId}/changes`);
    if (await folds.count()) break;
  }
  const fold = page.locator(`#${await folds.first().getAttribute('id')}`);
  await fold.locator('summary').click();
  await expect(fold).not.toHaveAttribute('open');
  for (let i = 0; i < 3; i++) await anew(page);
  await expect(fold).not.toHaveAttribute('open');
});

test('a rejected form keeps what was entered when the page is refreshed', async ({ page, complaints }) => {
  complaints.allow(/422/);
  await page.goto('/runs');
  await page.keyboard.press('n');
  await page.waitForURL('**/runs/new');
  await page.getByLabel('Repository').fill('/no/such/repository');
  await page.getByLabel('Goal').fill('Add dark mode');
  await page.getByLabel('A person approves the plan').check();
  await page.getByRole('button', { name: 'Create run' }).click();
  const repo = page.getByLabel('Repository');
  await expect(repo).toHaveAttribute('aria-invalid', 'true');
  await expect(repo).toBeFocused();
  for (let i = 0; i < 2; i++) {
    await expect(repo).toHaveValue('/no/such/repository');
    await expect(page.getByLabel('Goal')).toHaveValue('Add dark mode');
    await expect(page.getByLabel('A person approves the plan')).toBeChecked();
    await expect(page.locator('#repo-problem')).toContainText('does not exist');
    await anew(page);
  }
});
