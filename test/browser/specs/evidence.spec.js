// What a failed browser test left, on the way from the page of its run.
import { test, expect } from '../lib/fixtures.js';
import { shoot, shots } from '../lib/check.js';

const run = process.env.RGPT_EVIDENCE;
const failed = (page) => page.locator('#tester tr', { hasText: 'logs in with a right password' });

test('the run shows the screenshot of a failed test, which opens', async ({ page }, info) => {
  await page.goto(`/runs/${run}`);
  const picture = failed(page).locator('img');
  await picture.scrollIntoViewIfNeeded();
  await expect.poll(() => picture.evaluate((i) => i.naturalWidth)).toBeGreaterThan(0);
  if (shots) await page.screenshot({ path: `${shots}/evidence-run.png`, fullPage: true });
  await picture.click();
  await expect.poll(() => page.locator('#shown img').evaluate((i) => i.naturalWidth)).toBeGreaterThan(0);
  if (shots) await page.screenshot({ path: `${shots}/evidence-screenshot.png` });
});

test('its video plays one click away, from any position', async ({ page }) => {
  const parts = [];
  page.on('response', (r) => {
    if (r.url().endsWith('/content') && r.request().resourceType() === 'media') parts.push(r);
  });
  await page.goto(`/runs/${run}`);
  await failed(page).getByRole('link', { name: 'video' }).click();
  const video = page.locator('#shown video');
  await expect(video).toHaveAttribute('controls', '');
  await video.evaluate((v) => {
    v.muted = true;
    return v.play();
  });
  await expect.poll(() => video.evaluate((v) => v.currentTime)).toBeGreaterThan(0);
  await video.evaluate((v) => {
    v.pause();
    v.currentTime = 0.01;
  });
  await expect.poll(() => video.evaluate((v) => !v.seeking && v.readyState >= 2)).toBe(true);
  expect(parts.length).toBeGreaterThan(0);
  for (const part of parts) {
    expect(part.status()).toBe(206);
    expect(part.headers()).toMatchObject({ 'content-type': 'video/webm', 'x-content-type-options': 'nosniff' });
    expect(part.headers()['content-security-policy']).toContain('sandbox');
  }
  if (shots) await page.screenshot({ path: `${shots}/evidence-video.png` });
});

test('its trace is one click away, with the command that opens it', async ({ page }) => {
  await page.goto(`/runs/${run}`);
  await failed(page).getByRole('link', { name: 'trace' }).click();
  await expect(page.getByText('npx playwright show-trace')).toBeVisible();
  if (shots) await page.screenshot({ path: `${shots}/evidence-trace.png` });
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download' }).click()]);
  const command = await page.locator('code', { hasText: 'show-trace' }).textContent();
  expect(command).toBe(`npx playwright show-trace ${download.suggestedFilename()}`);
});
