// Driven by browser_test.go, which starts what is looked at and says where.
import { defineConfig } from '@playwright/test';

export default defineConfig({
  testDir: './specs',
  outputDir: process.env.RGPT_BROWSER_OUT,
  fullyParallel: true,
  workers: 2,
  retries: 0,
  forbidOnly: true,
  // Other work on the machine makes browsers slow.
  timeout: 120_000,
  expect: { timeout: 30_000 },
  reporter: [['list'], ['json', { outputFile: process.env.RGPT_BROWSER_REPORT }]],
  use: {
    baseURL: process.env.RGPT_BROWSER_URL,
    headless: true,
    navigationTimeout: 60_000,
    actionTimeout: 30_000,
    trace: 'retain-on-failure',
    screenshot: 'only-on-failure',
    launchOptions: {
      executablePath: process.env.RGPT_CHROMIUM,
      // Its own sandbox needs rights that containers and root do not have. Pages
      // are ours, and come from the loopback.
      args: ['--no-sandbox', '--disable-gpu', '--hide-scrollbars'],
    },
  },
});
