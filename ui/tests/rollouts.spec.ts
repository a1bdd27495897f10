// Rollouts, releases, tags of agents and runs that are made again, before a fleet that is not there.

import AxeBuilder from '@axe-core/playwright';
import { expect, test } from '@playwright/test';
import { fleet, mock, pastRun, releases, rollout, watch } from './mock.ts';

const hosts = fleet(60);

test.beforeEach(({ page }) => watch(page));

test('a rollout is ordered ring by ring, and the form says how many hosts each gets', async ({ page }) => {
  await mock(page, { hosts, releases, rollouts: [rollout(3, hosts)] });
  await page.goto('/#/rollouts');
  const begin = page.getByRole('button', { name: 'Begin' });
  await expect(begin).toHaveAccessibleDescription('Choose a release.');
  // One that is withdrawn is not offered.
  await expect(page.getByLabel('Release', { exact: true }).getByRole('option')).toHaveCount(2);
  await page.getByLabel('Release', { exact: true }).selectOption('2');
  await page.getByLabel('Ring 1', { exact: true }).fill('site=kiel');
  await page.getByLabel('At most').first().fill('3');
  await expect(page.locator('[data-ring="1"]')).toHaveText('3 hosts in this ring, 7 over its limit.');
  await expect(page.locator('[data-ring="2"]')).toHaveText('57 hosts in this ring, 3 in a ring before.');
  await page.getByLabel('Ring 2', { exact: true }).fill('site=nowhere');
  await expect(begin).toHaveAccessibleDescription('Ring 2 selects no host.');
  await page.getByLabel('Ring 2', { exact: true }).fill('site=oslo');
  await page.getByRole('button', { name: 'Add a ring' }).click();
  await expect(page.locator('[data-ring="3"]')).toHaveText('47 hosts in this ring, 13 in a ring before.');
  await page.getByRole('button', { name: 'Add a ring' }).click();
  await page.getByRole('button', { name: 'Remove ring 4' }).click();
  await page.getByLabel('Failures allowed').fill('2');
  await page.getByLabel('A second person has to approve').check();
  const sent = page.waitForRequest((request) => request.method() === 'POST');
  await page.getByRole('button', { name: 'Ask for approval' }).click();
  expect((await sent).postDataJSON()).toEqual({
    release: 2, errors: 2, approval: true,
    rings: [{ select: 'site=kiel', most: 3 }, { select: 'site=oslo', most: null }, { select: 'all', most: null }],
  });
  await expect(page).toHaveURL(/rollouts\/3$/);
});

test('what cannot be done with a rollout says why, and what is hard to undo asks first', async ({ page }) => {
  const mine = rollout(4, hosts, { who: 'admin', state: 'approval', hosts: [], sent: [], reason: null });
  await mock(page, { hosts, releases, rollouts: [mine, rollout(3, hosts)] });
  const button = (name: string) => page.getByRole('button', { name, exact: true });
  await page.goto('/#/rollouts/4');
  await expect(button('Approve')).toHaveAccessibleDescription('You have ordered it: a second person approves.');
  await expect(button('Go back')).toHaveAccessibleDescription('No host has this version from it.');
  await page.goto('/#/rollouts/3');
  await expect(page.locator('[data-says]')).toHaveText('It stopped by itself: 2 failed, and at most 1 may. No further ring begins.');
  await expect(button('Pause')).toHaveAccessibleDescription('It is stopped.');
  await expect(button('Go on')).toHaveAccessibleDescription(/would stop again at once/);
  await page.getByRole('button', { name: 'failed 2' }).click();
  await expect(page.getByRole('region', { name: 'Hosts' }).getByRole('row')).toHaveCount(3);
  const asked = (change: string) => page.waitForRequest((request) => request.url().endsWith(`/api/rollouts/3/${change}`));
  const again = asked('retry');
  await button('Try again').click();
  await again;
  for (const [name, change] of [['Go back', 'back'], ['Abort', 'abort']] as const) {
    await button(name).click();
    const dialog = page.getByRole('dialog');
    await expect(dialog).toContainText('14 hosts');
    expect((await new AxeBuilder({ page }).analyze()).violations).toEqual([]);
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await expect(dialog).toBeHidden();
    await button(name).click();
    const done = asked(change);
    await dialog.getByRole('button', { name, exact: true }).click();
    await done;
    await expect(dialog).toBeHidden();
  }
});

test('an operator sees rollouts and may not change them', async ({ page }) => {
  await mock(page, { hosts, releases, rollouts: [rollout(3, hosts)], me: { name: 'op', role: 'operator' } });
  await page.goto('/#/rollouts/3');
  for (const name of ['Approve', 'Pause', 'Go on', 'Try again', 'Go back', 'Abort']) {
    await expect(page.getByRole('button', { name, exact: true })).toHaveAccessibleDescription(/needs the role release-manager/);
  }
  await page.goto('/#/rollouts');
  await expect(page.getByRole('button', { name: 'Begin' })).toHaveAccessibleDescription(/needs the role release-manager/);
  await expect(page.getByRole('button', { name: /Withdraw/ })).toHaveCount(0);
});

test('a tag of agent.toml cannot be removed, and a run that is over is made again', async ({ page }) => {
  await mock(page, { hosts, groups: [], runs: [pastRun(7)] });
  await page.goto('/#/hosts/kiel-1');
  await expect(page.getByText('of agent.toml', { exact: true })).toBeVisible();
  await expect(page.getByRole('button', { name: 'Remove the tag site' })).toHaveCount(0);
  await expect(page.getByRole('button', { name: 'Remove the tag role' })).toBeVisible();
  await page.goto('/#/runs/7');
  await page.getByRole('link', { name: 'Run again' }).click();
  await expect(page.getByLabel('Text of the experiment')).toHaveValue('title = "nightly"\n');
  await expect(page.getByLabel('Name', { exact: true })).toHaveValue('nightly-7');
  await expect(page.getByLabel('Hosts', { exact: true })).toHaveValue('site=kiel');
  await expect(page.getByLabel(/^Settings/)).toHaveValue('repeats=1');
  await expect(page.getByLabel(/^Folder at the manager/)).toHaveValue('/srv/nightly');
});
