// The pictures of docs/guides, so that they stay true. Each is of a fleet that is not there, at a time that stands still: a picture
// changes when its page does.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test, type BrowserContext, type Page } from '@playwright/test';
import { beaconCheck, delivery, doctorCheck, fleet, mock, now, pastRun, releases, rollout, watch } from './mock.ts';
import { root } from './place.ts';

const hosts = fleet(60);
const groups = [
  { name: 'kiel', selection: 'site=kiel', hosts: 10 },
  { name: 'north', selection: 'group:kiel, site=oslo', hosts: 20 },
  { name: 'ring-1', selection: 'kiel-1, bonn-1, lyon-2', hosts: 3 },
];

test.use({ viewport: { width: 1040, height: 680 }, colorScheme: 'light', timezoneId: 'UTC', locale: 'en-GB' });

/** Each picture: the page, its title, and what is done before. */
const PICTURES: [name: string, path: string, title: string, before?: (page: Page) => Promise<void>][] = [
  ['hosts', 'hosts?select=site%3Dkiel', 'Hosts', async (page) => expect(page.getByRole('row', { name: 'kiel-10' })).toBeVisible()],
  ['groups', 'groups/north', 'Groups'],
  ['network', 'network', 'Network'],
  ['delivery', 'files/2', 'Delivery 2'],
  ['new-rollout', 'rollouts', 'Rollouts', async (page) => {
    await page.getByLabel('Release', { exact: true }).selectOption('2');
    await page.getByLabel('Ring 1', { exact: true }).fill('kiel-1');
    await page.getByLabel('Ring 2', { exact: true }).fill('site=kiel');
    await page.getByLabel('At most').nth(1).fill('10');
    await page.getByRole('button', { name: 'Add a ring' }).click();
    await page.getByLabel('Failures allowed').fill('2');
    await expect(page.locator('[data-ring="3"]')).toContainText('in a ring before');
    await page.getByRole('heading', { name: 'New rollout' }).evaluate((of) => of.scrollIntoView({ block: 'start' }));
  }],
  ['rollout', 'rollouts/3', 'app 1.1'],
  ['doctor', 'doctor/4', 'Doctor'],
  ['beacons', 'beacons/5', 'Beacons', async (page) => {
    await page.getByRole('gridcell', { name: /^oslo-1 hears kiel-1:/ }).click();
    await page.locator('.matrix').evaluate((of) => of.closest('section')?.scrollIntoView({ block: 'start' }));
  }],
  ['new-run', 'runs/new', 'New run', async (page) => expect(page.locator('[data-plan=current]')).toBeVisible()],
  ['run', 'runs/7', 'nightly-7'],
  ['compare', 'runs/compare?a=7&b=8', 'Two runs compared'],
];

test.beforeEach(({ page }) => watch(page));

for (const [name, path, title, before] of PICTURES) {
  test(`the picture ${name}`, async ({ page }) => {
    await page.clock.setFixedTime(now);
    await mock(page, {
      hosts, groups, releases, runs: [pastRun(8, 0.8), pastRun(7)], rollouts: [rollout(3, hosts)],
      deliveries: [delivery(2, hosts)], checks: [beaconCheck(5, hosts), doctorCheck(4, hosts)],
    });
    await page.goto(`/#/${path}`);
    await expect(page.getByRole('heading', { level: 1, name: title })).toBeVisible();
    await expect(page.getByText('Loading…')).toHaveCount(0);
    await expect(page.getByText('Looking…')).toHaveCount(0);
    await before?.(page);
    await keep(page.context(), join(root, `docs/guides/pictures/${name}.png`), await page.screenshot({ animations: 'disabled' }));
  });
}

/** The number of pixels in which a picture may differ from itself: the browser does not draw round corners alike each time. */
const SAME_PIXELS = 100;

/** Writes a picture, unless the one that is there shows the same. */
async function keep(context: BrowserContext, path: string, picture: Buffer) {
  if (existsSync(path) && (await differing(context, readFileSync(path), picture)) <= SAME_PIXELS) return;
  writeFileSync(path, picture);
}

/** Returns the number of pixels in which two pictures differ. */
async function differing(context: BrowserContext, ...pictures: [Buffer, Buffer]): Promise<number> {
  const page = await context.newPage();
  const urls = pictures.map((picture) => `data:image/png;base64,${picture.toString('base64')}`);
  const many = await page.evaluate(async (urls) => {
    const read = async (url: string) => {
      const image = new Image();
      image.src = url;
      await image.decode();
      const canvas = new OffscreenCanvas(image.width, image.height).getContext('2d')!;
      canvas.drawImage(image, 0, 0);
      return new Uint32Array(canvas.getImageData(0, 0, image.width, image.height).data.buffer);
    };
    const [one, other] = await Promise.all([read(urls[0]!), read(urls[1]!)]);
    return one.length === other.length ? one.filter((pixel, index) => pixel !== other[index]).length : Infinity;
  }, urls);
  await page.close();
  return many;
}
