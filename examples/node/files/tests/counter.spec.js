import { test, expect } from '@playwright/test';

test('the button counts up', async ({ page }) => {
  await page.goto('/');
  await page.getByRole('button', { name: 'One more' }).click();
  await expect(page.locator('#count')).toHaveText('1');
});
