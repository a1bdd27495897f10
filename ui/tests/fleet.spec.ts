// The console before a manager with three agents: h1 and h2 at kiel, which permit commands, and h3 at bonn, which does not.

import { expect, test, type APIRequestContext, type Page } from '@playwright/test';
import { watch } from './mock.ts';
import { URL as PAGES } from './place.ts';

const change = { headers: { 'x-treecast': '1' } };

/** Returns the row of a host. */
const row = (page: Page, name: string) => page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) });
const rows = (page: Page) => page.getByRole('grid', { name: 'Hosts' }).getByRole('row', { selected: undefined }).filter({ has: page.getByRole('link') });

async function saveGroup(request: APIRequestContext, name: string, selection: string) {
  const saved = await request.put(`/api/groups/${name}`, { ...change, data: { selection } });
  expect(saved.ok()).toBe(true);
}

async function selectionOf(request: APIRequestContext, name: string): Promise<string | undefined> {
  const groups = (await (await request.get('/api/groups')).json()) as { name: string; selection: string }[];
  return groups.find((group) => group.name === name)?.selection;
}

test.beforeEach(({ page }) => watch(page));

test.describe('somebody who is not logged in', () => {
  test.use({ storageState: { cookies: [], origins: [] } });

  test('logs in by a link, once', async ({ page, playwright }) => {
    const admin = await playwright.request.newContext({ baseURL: PAGES, storageState: undefined, extraHTTPHeaders: { cookie: process.env.CONSOLE_COOKIE ?? '' } });
    const { path } = (await (await admin.post('/api/links', change)).json()) as { path: string };
    await admin.dispose();
    await page.goto('/');
    await expect(page.getByRole('heading', { name: 'Log in to treecast' })).toBeVisible();
    await page.goto(path);
    await expect(page.getByRole('heading', { name: 'Overview' })).toBeVisible();
    await page.getByRole('button', { name: 'Log out' }).click();
    await expect(page.getByRole('heading', { name: 'Log in to treecast' })).toBeVisible();
    const again = await page.goto(path);
    expect(again?.status()).toBe(400);
  });

  test('logs in by a token, and is told what a viewer may not do', async ({ page, playwright }) => {
    const admin = await playwright.request.newContext({ baseURL: PAGES, extraHTTPHeaders: { cookie: process.env.CONSOLE_COOKIE ?? '' } });
    const { token } = (await (await admin.post('/api/tokens/looker', { ...change, data: { role: 'viewer' } })).json()) as { token: string };
    await admin.dispose();
    await page.goto('/');
    await page.getByLabel('Token').fill('wrong');
    await page.getByRole('button', { name: 'Log in' }).click();
    await expect(page.getByRole('alert')).toContainText('Log in first');
    await page.getByLabel('Token').fill(token);
    await page.getByRole('button', { name: 'Log in' }).click();
    const make = page.getByRole('button', { name: 'Make a join line' });
    await expect(make).toHaveAttribute('aria-disabled', 'true');
    await expect(make).toHaveAccessibleDescription('This needs the role administrator. You are viewer.');
    await page.goto('/#/ask');
    await expect(page.getByRole('button', { name: 'Ask for facts' })).toHaveAccessibleDescription(/needs the role operator/);
  });
});

test('the overview counts hosts and makes a join line', async ({ page }) => {
  await page.goto('/');
  await expect(page.locator('.tiles div', { hasText: 'Hosts here' })).toContainText('3of 3');
  await page.getByRole('button', { name: 'Make a join line' }).click();
  await expect(page.locator('[data-join]')).toContainText(/^treecast agent --join \S{20,}/);
});

test('the list of hosts is filtered by a selection and sorted by a column', async ({ page }) => {
  await page.goto('/#/hosts');
  await expect(rows(page)).toHaveCount(3);
  const filter = page.getByLabel('Filter');
  await filter.fill('site=kiel');
  await expect(rows(page)).toHaveCount(2);
  await expect(page).toHaveURL(/select=site%3Dkiel/);
  await filter.fill('site=');
  await expect(page.getByText('The selection ends where a value is expected: site=')).toBeVisible();
  await filter.fill('not h2');
  await expect(rows(page)).toHaveCount(2);
  await page.getByRole('button', { name: 'Name' }).click();
  await expect(page.getByRole('columnheader', { name: 'Name' })).toHaveAttribute('aria-sort', 'descending');
  await expect(rows(page).first()).toContainText('h3');
});

test('hosts are dragged onto a group', async ({ page, request }) => {
  await saveGroup(request, 'dragged', 'not all');
  await page.goto('/#/hosts');
  const target = page.locator('[data-group=dragged]');
  await row(page, 'h1').dragTo(target);
  await expect(page.getByText('Added h1 to the group dragged.')).toBeVisible();
  expect(await selectionOf(request, 'dragged')).toBe('h1');
  await row(page, 'h2').click();
  await row(page, 'h3').click();
  await row(page, 'h3').dragTo(target);
  await expect(page.getByText('Added 2 hosts to the group dragged.')).toBeVisible();
  expect(await selectionOf(request, 'dragged')).toBe('h1, h2, h3');
  await page.locator('.notice', { hasText: 'Added 2 hosts' }).getByRole('button', { name: 'Undo' }).click();
  await expect(target.locator('small')).toHaveText('1');
});

test('hosts are added to a group with the keyboard alone', async ({ page, request }) => {
  await saveGroup(request, 'typed', 'site=bonn');
  await page.goto('/#/hosts');
  await expect(rows(page)).toHaveCount(3);
  await page.getByRole('grid', { name: 'Hosts' }).focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('Space');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Space');
  await expect(row(page, 'h1')).toHaveAttribute('aria-selected', 'true');
  await expect(row(page, 'h2')).toHaveAttribute('aria-selected', 'true');
  await page.getByRole('button', { name: 'Add to group' }).focus();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('menu')).toBeVisible();
  const item = page.getByRole('menuitem', { name: 'typed' });
  for (let step = 0; step < 20 && !(await item.evaluate((of) => of === document.activeElement)); step += 1) await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await expect(page.getByText('Added 2 hosts to the group typed.')).toBeVisible();
  expect(await selectionOf(request, 'typed')).toBe('site=bonn, h1, h2');
});

test('a group becomes a subgroup by drag and by menu, and cannot contain itself', async ({ page, request }) => {
  await saveGroup(request, 'inner', 'h1');
  await saveGroup(request, 'outer', 'h2');
  await page.goto('/#/groups/outer');
  await page.locator('[data-group=inner]').dragTo(page.locator('[data-group=outer]'));
  await expect(page.getByText('Put the group inner into outer.')).toBeVisible();
  expect(await selectionOf(request, 'outer')).toBe('h2, group:inner');
  await page.goto('/#/groups/outer');
  await page.getByRole('button', { name: 'Put into group' }).click();
  await page.getByRole('menuitem', { name: 'inner' }).click();
  await expect(page.getByText(/The group \w+ contains itself/)).toBeVisible();
  await page.getByRole('button', { name: 'Take h2 out of the group' }).click();
  await expect(page.getByText('Took h2 out of the group outer.')).toBeVisible();
  expect(await selectionOf(request, 'outer')).toBe('group:inner');
});

test('a command to many hosts is answered side by side', async ({ page }) => {
  await page.goto('/#/ask?select=all');
  await page.getByLabel('Command', { exact: true }).fill("sh -c 'echo on $0; echo fault >&2; exit 3' here");
  await expect(page.getByText('h3 does not permit commands, and will refuse')).toBeVisible();
  await page.getByRole('button', { name: 'Ask', exact: true }).click();
  await expect(page.locator('[data-asked=over]')).toContainText('3 of 3 hosts answered');
  for (const name of ['h1', 'h2']) {
    const pane = page.locator(`.pane[data-host=${name}]`);
    await expect(pane).toContainText('on here');
    await expect(pane).toContainText('exit code 3');
    await expect(pane).toContainText('fault');
  }
  await expect(page.locator('.pane[data-host=h3]')).toContainText('run_commands');
  await page.getByRole('button', { name: 'failed 2' }).click();
  await expect(page.locator('.pane')).toHaveCount(2);
});

test('a host has facts, tags and a window for commands', async ({ page, request }) => {
  await page.goto('/#/hosts/h1');
  await expect(page.locator('.facts')).toContainText('Kernel');
  await page.getByLabel('Tag', { exact: true }).fill('rack');
  await page.getByLabel('Value').fill('7');
  await page.getByRole('button', { name: 'Set', exact: true }).click();
  await expect(page.locator('.tags')).toContainText(['rack=7', 'None.'].slice(0, 1));
  const found = (await (await request.get('/api/hosts?select=rack%3D7')).json()) as unknown[];
  expect(found).toHaveLength(1);
  await page.getByRole('button', { name: 'Remove the tag rack' }).click();
  await expect(page.locator('.tags').first()).not.toContainText('rack');
  await expect(page.getByText('Tags of agent.toml cannot be removed here')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Remove the tag site' })).toHaveCount(0);
  await page.getByLabel('Command').fill('echo hello');
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await expect(page.locator('.pane')).toContainText('hello');
  await page.goto('/#/hosts/h3');
  await page.getByLabel('Command').fill('echo hello');
  await expect(page.getByRole('button', { name: 'Run', exact: true })).toHaveAccessibleDescription(/does not permit commands: set run_commands = true/);
});

test('the form and the text of a run change each other', async ({ page }) => {
  await page.goto('/#/runs/new');
  const text = page.getByLabel('Text of the experiment');
  await page.getByLabel('Repeats').fill('3');
  await expect(text).toHaveValue(/\nrepeats = 3\n/);
  await page.getByRole('checkbox', { name: 'auto' }).check();
  await expect(text).toHaveValue(/fanout = \["multicast", "unicast", "auto"\]/);
  await text.fill((await text.inputValue()).replace('repeats = 3', 'repeats = 5 # many'));
  await expect(page.getByLabel('Repeats')).toHaveValue('5');
  await text.fill('title = 3');
  await expect(page.locator('[data-plan=wrong]')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Start the run' })).toHaveAccessibleDescription('The plan says what is wrong.');
});

test('a run is planned, started, followed to its end, and compared', async ({ page }) => {
  test.setTimeout(180_000);
  const ids: string[] = [];
  for (const name of ['one', 'two']) {
    await page.goto('/#/runs/new');
    await page.getByLabel('Name', { exact: true }).fill(name);
    await page.getByLabel('Sizes').fill('256K');
    await page.getByLabel('Sizes').blur();
    await page.getByRole('checkbox', { name: 'multicast' }).uncheck();
    await expect(page.locator('[data-plan=current]')).toContainText('1 run, about');
    await page.getByRole('button', { name: 'Start the run' }).click();
    await expect(page).toHaveURL(/#\/runs\/\d+$/);
    await expect(page.getByRole('heading', { name, exact: true })).toBeVisible();
    await expect(page.locator('main .bar .state').first()).toHaveText('done', { timeout: 60_000 });
    await expect(page.getByRole('region', { name: 'Measures' })).toContainText('fleet');
    await expect(page.getByRole('region', { name: 'Receivers' }).locator('tbody tr')).toHaveCount(2);
    ids.push(page.url().split('/').at(-1) ?? '');
  }
  const downloads = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Download results' }).click();
  expect((await downloads).suggestedFilename()).toBe('two.sqlite');
  await page.goto('/#/runs');
  for (const id of ids) await page.getByRole('checkbox', { name: `Compare run ${id}` }).check();
  await page.getByRole('button', { name: 'Compare' }).click();
  const table = page.getByRole('region', { name: 'Measures of two runs' });
  await expect(table.locator('tbody tr').first()).toBeVisible();
  await expect(table).toContainText('duration');
});

test('a run is aborted', async ({ page }) => {
  await page.goto('/#/runs/new');
  await page.getByLabel('Name', { exact: true }).fill('long');
  await page.getByLabel('Sizes').fill('64M');
  await page.getByLabel('Sizes').blur();
  await page.getByLabel('Sending rate').fill('1M');
  await page.getByLabel('Time limit').fill('10m');
  await expect(page.locator('[data-plan=current]')).toBeVisible();
  await page.getByRole('button', { name: 'Start the run' }).click();
  await expect(page.locator('main .bar .state').first()).toHaveText('running');
  await expect(page.getByRole('region', { name: 'Measures' })).toContainText('under way', { timeout: 30_000 });
  await page.getByRole('button', { name: 'Abort' }).click();
  await expect(page.locator('main .bar .state').first()).toHaveText('aborted', { timeout: 40_000 });
});

test('a run at a time waits in the queue, and is taken out of it', async ({ page }) => {
  await page.goto('/#/runs/new');
  await page.getByLabel('Name', { exact: true }).fill('later');
  await page.getByLabel('At a time').check();
  await expect(page.locator('[data-plan=current]')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Put it into the queue' })).toHaveAccessibleDescription('Choose a time.');
  await page.getByLabel('Time', { exact: true }).fill('2090-01-01T12:00');
  await page.getByRole('button', { name: 'Put it into the queue' }).click();
  await expect(page.locator('main .bar .state').first()).toHaveText('waiting');
  await page.getByRole('button', { name: 'Abort' }).click();
  await expect(page.locator('main .bar .state').first()).toHaveText('aborted');
});

test('a lost connection is told, and everything is fetched again when it is back', async ({ page, request }) => {
  await page.goto('/#/groups');
  await expect(page.getByRole('heading', { name: 'Groups', level: 1 })).toBeVisible();
  await request.get('/cut');
  await expect(page.getByRole('alert')).toContainText('The connection to the manager is lost.');
  await expect(page.getByRole('button', { name: 'Add', exact: true })).toHaveAccessibleDescription('The connection to the manager is lost.');
  await request.get('/mend');
  await saveGroup(request, 'meanwhile', 'h3');
  await expect(page.getByRole('alert')).toHaveCount(0);
  await expect(page.getByRole('link', { name: 'meanwhile' })).toBeVisible();
});

test('the audit log has what was done and what was refused', async ({ page }) => {
  await page.goto('/#/audit');
  const log = page.getByRole('region', { name: 'Audit log' });
  await expect(log).toContainText('save a group');
  await page.getByLabel('Only what was refused').check();
  await expect(log).toContainText('with a token that is none');
});
