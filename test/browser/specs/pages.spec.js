// Each page of pages.json on a system full of work. A new page is a line there.
import fs from 'node:fs';
import path from 'node:path';
import { test, expect } from '../lib/fixtures.js';
import { accessible, fits, focusShows, shoot, shots } from '../lib/check.js';

const { pages } = JSON.parse(fs.readFileSync(path.join(__dirname, '..', 'pages.json'), 'utf8'));
const themes = ['light', 'dark'];
const widths = [390, 1280, 1920];

/** open goes to a page and requires its status. */
async function open(page, complaints, entry) {
  const status = entry.status ?? 200;
  if (status !== 200) {
    complaints.allow(new RegExp(`status of ${status} `));
    complaints.allow(new RegExp(`^answer ${status}: GET .*${entry.path}$`));
  }
  const answer = await page.goto(entry.path, { waitUntil: 'load' });
  expect(answer.status(), entry.path).toBe(status);
  await expect(page.locator('h1').first()).toBeVisible();
}

for (const entry of pages) {
  test.describe(entry.name, () => {
    for (const theme of themes) {
      test(`is accessible in ${theme}`, async ({ page, complaints }, info) => {
        await page.emulateMedia({ colorScheme: theme });
        await open(page, complaints, entry);
        await accessible(page, info);
      });
    }

    test('fits a narrow phone', async ({ page, complaints }) => {
      await page.setViewportSize({ width: 360, height: 740 });
      await open(page, complaints, entry);
      await fits(page);
    });

    test('can be walked with Tab', async ({ page, complaints }) => {
      await open(page, complaints, entry);
      for (let i = 0; i < 5; i++) {
        await page.keyboard.press('Tab');
        await focusShows(page);
      }
    });

    // Twelve pictures of each page, for whoever looks at them.
    if (shots) {
      test('is photographed', async ({ page, complaints }) => {
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
  });
}
