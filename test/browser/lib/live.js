// What tests of pages on a real stack have in common.
import { expect } from '@playwright/test';
import { tabTo } from './check.js';

// Machines under load take long for what takes seconds.
export const patient = { timeout: 240_000 };

/** command gives a command by the keyboard alone, by a key of its own or by its button, and confirms it where it asks. */
export async function command(page, name, { reason, key, asks = false } = {}) {
  if (key) {
    await page.keyboard.press(key);
  } else {
    await tabTo(page, page.locator(`button[data-command="${name}"]`).first());
    await page.keyboard.press('Enter');
  }
  if (asks) {
    const dialog = page.locator('dialog[open]');
    await expect(dialog).toBeVisible();
    if (reason) {
      await tabTo(page, dialog.locator('textarea[name="reason"]'));
      await page.keyboard.type(reason);
    }
    await tabTo(page, dialog.locator('[data-confirm]'));
    await page.keyboard.press('Enter');
    await expect(dialog).toBeHidden();
  }
  await expect(page.locator('[role="status"] > *').first()).toBeVisible();
  await expect(page.locator('[role="status"] .s-failed'), 'no answer says that it failed').toHaveCount(0);
}

/** marks a page so that a reload would be noticed. */
export async function marked(page) {
  await page.evaluate(() => { window.__sameDocument = true; });
  return async () => expect(await page.evaluate(() => window.__sameDocument === true), 'the page was not loaded again').toBe(true);
}
