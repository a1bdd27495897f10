// Each page in light and dark, at a desk and on a phone: no violation that axe finds, nothing wider than the screen, and a picture of it
// in the folder `screenshots`.

import AxeBuilder from '@axe-core/playwright';
import { expect, test } from '@playwright/test';
import { beaconCheck, delivery, doctorCheck, fleet, mock, pastRun, releases, rollout, watch } from './mock.ts';

const hosts = fleet(60);
const groups = [
  { name: 'kiel', selection: 'site=kiel', hosts: 10 },
  { name: 'north', selection: 'group:kiel, site=oslo', hosts: 20 },
  { name: 'ring-1', selection: 'kiel-1, bonn-1, lyon-2', hosts: 3 },
];
const audit = Array.from({ length: 40 }, (_, index) => ({
  at_ms: Date.now() - index * 47_000,
  who: index % 3 ? 'admin' : 'night-job',
  what: index % 5 ? 'ask hosts' : 'abort a run',
  about: index % 5 ? 'site=kiel: uname -a' : '17',
  is_refused: index % 11 === 4,
}));
const answers = ['kiel-1', 'kiel-2', 'kiel-3', 'kiel-4'].map((host, index) => ({
  host,
  lines: index < 3 ? ['Linux 6.12.0 x86_64', `up ${index + 2} days, load 0.0${index}`] : [],
  end: index < 3 ? { code: index === 2 ? 1 : 0, signal: null, user_ns: 0, system_ns: 0, peak_memory_bytes: 0, last: null, errors: index === 2 ? 'df: /srv: No such file or directory' : '' } : undefined,
  failure: index === 3 ? 'the host is away' : undefined,
  is_over: true,
}));
const under = {
  ...pastRun(9), name: 'under way', state: 'running' as const, ended_ms: null, reason: null, results: undefined,
  events: pastRun(9).events?.slice(0, 7),
};

const rollouts = [
  rollout(4, hosts, { state: 'approval', hosts: [], sent: [], reason: null }), rollout(3, hosts),
  rollout(2, hosts, { release: 1, version: '1.0', state: 'done', reason: null }),
];

const deliveries = [delivery(2, hosts), delivery(1, hosts, { state: 'done', files: [{ name: 'motd', size_bytes: 411 }], into: '' })];
const checks = [beaconCheck(5, hosts), doctorCheck(4, hosts)];

const PAGES: [name: string, path: string, title: string][] = [
  ['overview', 'overview', 'Overview'],
  ['hosts', 'hosts', 'Hosts'],
  ['network', 'network', 'Network'],
  ['groups', 'groups/north', 'Groups'],
  ['runs', 'runs', 'Runs'],
  ['new-run', 'runs/new', 'New run'],
  ['run', 'runs/7', 'nightly-7'],
  ['running', 'runs/9', 'under way'],
  ['compare', 'runs/compare?a=7&b=8', 'Two runs compared'],
  ['rollouts', 'rollouts', 'Rollouts'],
  ['rollout', 'rollouts/3', 'app 1.1'],
  ['files', 'files', 'Files'],
  ['delivery', 'files/2', 'Delivery 2'],
  ['doctor', 'doctor/4', 'Doctor'],
  ['beacons', 'beacons/5', 'Beacons'],
  ['ask', 'ask?select=site%3Dkiel', 'Ask'],
  ['host', 'hosts/kiel-1', 'kiel-1'],
  ['audit', 'audit', 'Audit'],
];

test.beforeEach(({ page }) => watch(page));

for (const colorScheme of ['light', 'dark'] as const) {
  for (const width of [1280, 390]) {
    test.describe(`${colorScheme}, ${width} pixels`, () => {
      test.use({ colorScheme, viewport: { width, height: width > 500 ? 800 : 844 } });

      for (const [name, path, title] of PAGES) {
        test(name, async ({ page }) => {
          await mock(page, { hosts, groups, audit, answers, releases, rollouts, deliveries, checks, runs: [under, pastRun(8, 0.8), pastRun(7)] });
          await page.goto(`/#/${path}`);
          await expect(page.getByRole('heading', { level: 1, name: title })).toBeVisible();
          await expect(page.getByText('Loading…')).toHaveCount(0);
          await expect(page.getByText('Looking…')).toHaveCount(0);
          if (name === 'ask') {
            await page.getByLabel('Command', { exact: true }).fill('uptime');
            await page.getByRole('button', { name: 'Ask', exact: true }).click();
            await expect(page.locator('[data-asked=over]')).toBeVisible();
          }
          if (name === 'new-run') await expect(page.locator('[data-plan=current]')).toBeVisible();
          if (name === 'host') await expect(page.locator('.plot canvas')).toBeVisible();
          if (name === 'beacons') await page.getByRole('gridcell', { name: /^kiel-1 hears bonn-1:/ }).click();
          if (name === 'hosts') {
            await page.getByRole('row', { name: 'graz-2' }).click();
            await page.getByRole('row', { name: 'graz-3' }).click();
            await page.getByRole('button', { name: 'Add to group' }).click();
          }
          const found = await new AxeBuilder({ page }).analyze();
          expect(found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' | ')}`)).toEqual([]);
          const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          expect(wide).toBeLessThanOrEqual(0);
          const inner = await page.locator('main').evaluate((main) => main.scrollWidth - main.clientWidth);
          expect(inner).toBeLessThanOrEqual(0);
          await page.screenshot({ path: `screenshots/${name}-${width}-${colorScheme}.png` });
        });
      }

      test('login', async ({ page }) => {
        await page.route('**/api/me', (route) => route.fulfill({ status: 401, json: { error: 'log in first' } }));
        await page.goto('/');
        await expect(page.getByRole('heading', { name: 'Log in to treecast' })).toBeVisible();
        const found = await new AxeBuilder({ page }).analyze();
        expect(found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' | ')}`)).toEqual([]);
        await page.screenshot({ path: `screenshots/login-${width}-${colorScheme}.png` });
      });
    });
  }
}
