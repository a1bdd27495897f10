import { defineConfig } from '@playwright/test';
import { SESSION, URL } from './tests/place.ts';

export default defineConfig({
  testDir: 'tests',
  globalSetup: './tests/setup.ts',
  // All tests look at one fleet.
  workers: 1,
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: 'list',
  use: {
    baseURL: URL,
    storageState: SESSION,
    viewport: { width: 1280, height: 800 },
    launchOptions: {
      // Debian's Chromium. Nothing is downloaded.
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: ['--no-sandbox'],
    },
  },
});
