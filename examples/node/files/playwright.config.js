import { defineConfig } from '@playwright/test';

export default defineConfig({
  testDir: './tests',
  webServer: { command: 'node server.js', url: 'http://127.0.0.1:4173/' },
  use: {
    baseURL: 'http://127.0.0.1:4173/',
    screenshot: 'on',
    trace: 'on',
    launchOptions: {
      executablePath: process.env.RGPT_CHROMIUM,
      args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
    },
  },
});
