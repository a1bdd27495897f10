// Files to hosts, the doctor and the beacons: before the manager with three agents, and before a fleet that is not there.

import { existsSync, mkdirSync, readFileSync, readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@playwright/test';
import { beaconCheck, delivery, doctorCheck, fleet, mock, watch } from './mock.ts';
import { STATE } from './place.ts';

const hosts = fleet(60);

test.beforeEach(({ page }) => watch(page));

test('files of this computer go to hosts, into a folder that each names', async ({ page }) => {
  test.setTimeout(120_000);
  const folder = join(STATE, 'chosen');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'map.bin'), Buffer.alloc(3_000_000, 7));
  writeFileSync(join(folder, 'legend.txt'), 'blue: water');
  await page.goto('/#/files');
  await expect(page.getByRole('button', { name: /^Deliver/ })).toHaveAccessibleDescription('Choose at least one file.');
  await page.getByLabel('Files', { exact: true }).setInputFiles([join(folder, 'map.bin'), join(folder, 'legend.txt')]);
  await expect(page.getByText('2 files, 2.86 MiB.')).toBeVisible();
  await page.getByLabel("Folder below the host's own").fill('../../etc');
  await page.getByRole('button', { name: 'Deliver to 3 hosts' }).click();
  await expect(page.getByText(/is no path of a file or folder below/)).toBeVisible();
  await page.getByLabel("Folder below the host's own").fill('maps');
  await page.getByRole('button', { name: 'Deliver to 3 hosts' }).click();
  await expect(page).toHaveURL(/#\/files\/\d+$/);
  await expect(page.locator('[data-says=done]')).toHaveText('It is over: 3 of 3 hosts have all files.', { timeout: 90_000 });
  for (const name of ['h1', 'h2', 'h3']) {
    const came = join(STATE, name, 'received', 'maps');
    expect(readFileSync(join(came, 'map.bin')).equals(readFileSync(join(folder, 'map.bin')))).toBe(true);
    expect(readFileSync(join(came, 'legend.txt'), 'utf8')).toBe('blue: water');
  }
  // The manager keeps nothing of it, and nothing of the delivery that it has refused.
  expect(readdirSync(join(STATE, 'manager', 'uploads'))).toEqual([]);
  await expect(page.getByRole('button', { name: 'Abort' })).toHaveAccessibleDescription('It is done.');
});

test('files that are too large are not uploaded', async ({ page }) => {
  const large = join(STATE, 'large');
  // It has no bytes on the disk.
  writeFileSync(large, '');
  truncateSync(large, 9 * 2 ** 30);
  await page.goto('/#/files');
  await page.getByLabel('Files', { exact: true }).setInputFiles(large);
  await expect(page.getByRole('button', { name: /^Deliver/ })).toHaveAccessibleDescription(/At most 8 GiB in 1000 files are uploaded at once/);
});

test("files of the manager's host that are not there are told at once", async ({ page }) => {
  await page.goto('/#/files');
  await page.getByLabel("On the manager's host").check();
  await page.getByLabel('Paths, one a line').fill('/nowhere/map.bin');
  await page.getByRole('button', { name: 'Deliver to 3 hosts' }).click();
  await expect(page.getByText('/nowhere/map.bin: No such file or directory')).toBeVisible();
});

test('a delivery shows how far each host is, who lacks what, and is ended', async ({ page }) => {
  await mock(page, { hosts, deliveries: [delivery(2, hosts)] });
  await page.goto('/#/files/2');
  await expect(page.getByRole('row', { name: /oslo-1/ }).getByText(/^refused/)).toBeVisible();
  await page.getByRole('button', { name: 'failed 1' }).click();
  await expect(page.getByRole('region', { name: 'Hosts' })).toContainText('1048576 bytes of room');
  await expect(page.getByRole('region', { name: 'Hosts' }).getByRole('row')).toHaveCount(2);
  await page.getByRole('button', { name: 'working' }).click();
  await expect(page.getByRole('progressbar', { name: 'kiel-2 has' })).toBeVisible();
  const asked = page.waitForRequest((request) => request.url().endsWith('/api/deliveries/2/abort'));
  await page.getByRole('button', { name: 'Abort' }).click();
  await asked;
});

test('hosts that lack files are the selection of the next delivery', async ({ page }) => {
  await mock(page, { hosts, deliveries: [delivery(2, hosts, { state: 'done' })] });
  await page.goto('/#/files/2');
  await page.getByRole('link', { name: 'Deliver to the 2 hosts without them' }).click();
  await expect(page.getByLabel('Hosts', { exact: true })).toHaveValue('pisa-1, bonn-2');
  await expect(page.getByLabel("Folder below the host's own")).toHaveValue('maps');
});

test('an operator delivers files of its own computer, and none of the manager', async ({ page }) => {
  await mock(page, { hosts, me: { name: 'op', role: 'operator' } });
  await page.goto('/#/files');
  await expect(page.getByRole('button', { name: /^Deliver/ })).toHaveAccessibleDescription('Choose at least one file.');
  await page.getByLabel("On the manager's host").check();
  await expect(page.getByRole('button', { name: /^Deliver/ })).toHaveAccessibleDescription(/needs the role administrator/);
});

test('doctors look at hosts', async ({ page }) => {
  test.setTimeout(120_000);
  await page.goto('/#/doctor');
  await page.getByRole('button', { name: 'Look at 3 hosts' }).click();
  await expect(page).toHaveURL(/#\/doctor\/\d+$/);
  await expect(page.locator('[data-check=over]')).toContainText('3 of 3 hosts told', { timeout: 90_000 });
  await expect(page.getByRole('heading', { name: 'Earlier checks' })).toBeVisible();
});

test('findings are joined, with the hosts that have them', async ({ page }) => {
  await mock(page, { hosts, checks: [doctorCheck(4, hosts)] });
  await page.goto('/#/doctor/4');
  await expect(page.getByRole('heading', { name: /no querier, at 3 hosts/ })).toBeVisible();
  await expect(page.getByRole('heading', { name: /small limit/ })).toHaveCount(0);
  await page.getByRole('button', { name: 'remarks 1' }).click();
  await expect(page.getByRole('heading', { name: /small limit, at/ })).toBeVisible();
  await expect(page.getByText('the host is away')).toBeVisible();
});

test('beacons of the hosts hear each other, and the matrix says so', async ({ page }) => {
  test.setTimeout(120_000);
  await page.goto('/#/beacons');
  await page.getByLabel('Seconds').fill('3');
  await page.getByRole('button', { name: 'Listen at 3 hosts' }).click();
  await expect(page).toHaveURL(/#\/beacons\/\d+$/);
  await expect(page.locator('[data-check=over]')).toContainText('6 pairs well, 0 not', { timeout: 90_000 });
  await page.getByRole('gridcell', { name: /^h2 hears h1:/ }).click();
  // One clock serves all three, so the corrected delay is next to nothing.
  await expect(page.locator('[data-told]')).toHaveText(/^h2 hears h1: 0 % lost, −?0\.\d\d ± \d\.\d\d ms, 0 routers on the way\.$/);
  expect(existsSync(join(STATE, 'h1', 'work'))).toBe(true);
});

test('the matrix is read with the keyboard alone', async ({ page }) => {
  await mock(page, { hosts, checks: [beaconCheck(5, hosts)] });
  await page.goto('/#/beacons/5');
  const grid = page.getByRole('grid', { name: /Who hears whom/ });
  await grid.locator('[tabindex="0"]').focus();
  const told = page.locator('[data-told]');
  await expect(told).toContainText('bonn-1 hears bonn-2:');
  await page.keyboard.press('ArrowDown');
  await expect(told).toHaveText('bonn-2 itself.');
  await page.keyboard.press('End');
  await expect(told).toContainText('bonn-2 hears');
  await page.getByRole('button', { name: 'delay in ms' }).focus();
  await page.keyboard.press('Enter');
  await expect(grid.getByRole('gridcell', { name: /^bonn-2 hears bonn-1:/ })).toHaveText(/^\d/);
  await expect(page.getByRole('heading', { name: 'Pairs to look at' })).toBeVisible();
  await expect(page.getByText(/hears nothing of/).first()).toBeVisible();
});
