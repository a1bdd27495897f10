// Where hosts stand in the picture of the network: the manager in the middle, subnets around it, the hosts of each around its centre.

import { addressOf } from './live.svelte.ts';
import type { Host } from './types.ts';

export interface Subnet {
  prefix: string;
  hosts: Host[];
  x: number;
  y: number;
  /** The distance from the centre within which its hosts stand. */
  radius: number;
}

export interface Place {
  host: Host;
  subnet: Subnet;
  x: number;
  y: number;
}

/** The distance between neighbouring hosts. */
const STEP = 26;
/** The room for labels between subnets. */
const ROOM = 60;
/** The number of hosts that stand in one ring. More of them fill a disc. */
const RING = 16;
/** The angle that spreads points evenly over a disc. */
const GOLDEN = Math.PI * (3 - Math.sqrt(5));

/** Returns the subnet of an address: 24 bits of IPv4, 64 bits of IPv6. */
export function prefixOf(address: string): string {
  if (address === '') return 'no address';
  if (!address.includes(':')) return `${address.split('.').slice(0, 3).join('.')}.0/24`;
  const [front = '', back] = address.split('::');
  const head = front === '' ? [] : front.split(':');
  const tail = back === undefined || back === '' ? [] : back.split(':');
  const zeros = back === undefined ? [] : Array<string>(Math.max(0, 8 - head.length - tail.length)).fill('0');
  const first = [...head, ...zeros, ...tail].slice(0, 4);
  while (first.at(-1) === '0') first.pop();
  return `${first.join(':')}::/64`;
}

/** Returns the subnets of hosts, by prefix, each with its hosts by name. Nothing has a place yet. */
export function subnetsOf(hosts: Host[]): Subnet[] {
  const found = new Map<string, Host[]>();
  for (const host of hosts) {
    const prefix = prefixOf(addressOf(host));
    const same = found.get(prefix);
    if (same) same.push(host);
    else found.set(prefix, [host]);
  }
  const compare = new Intl.Collator('en', { numeric: true }).compare;
  return Array.from(found, ([prefix, same]) => ({ prefix, hosts: same, x: 0, y: 0, radius: radius(same.length) })).sort(
    (one, other) => compare(one.prefix, other.prefix),
  );
}

function radius(hosts: number): number {
  return hosts <= RING ? Math.max(52, (hosts * STEP * 1.6) / (2 * Math.PI)) : Math.max(66, STEP * 0.62 * Math.sqrt(hosts) + STEP);
}

/**
 * Gives subnets and hosts their places. `aspect` is the width of the picture for each unit of its height.
 */
export function place(subnets: Subnet[], aspect: number): Place[] {
  const around = subnets.reduce((sum, subnet) => sum + 2 * subnet.radius + STEP * 2, 0);
  const widest = Math.max(0, ...subnets.map((subnet) => subnet.radius));
  // Many subnets stand in several rings.
  const rings = Math.max(1, Math.ceil(Math.sqrt(subnets.length / 24)));
  let ring = Math.max(widest + 90, around / rings / (2 * Math.PI));
  const each = Math.ceil(subnets.length / rings);
  subnets.forEach((subnet, index) => {
    const inRing = index % each;
    if (inRing === 0 && index > 0) ring += 2 * widest + STEP * 2;
    const many = Math.min(each, subnets.length - index + inRing);
    // The subnets of a ring stand behind the gaps of the ring before.
    const angle = Math.PI + ((inRing + (many === 1 ? 0.5 : 0)) / many) * 2 * Math.PI + (many > 2 ? Math.PI / many : 0) + (Math.floor(index / each) * Math.PI) / many;
    subnet.x = Math.cos(angle) * ring * Math.sqrt(aspect);
    subnet.y = (Math.sin(angle) * ring) / Math.sqrt(aspect);
  });
  spread(subnets);
  return subnets.flatMap((subnet) =>
    subnet.hosts.map((host, index) => {
      const isRing = subnet.hosts.length <= RING;
      // In a ring, no host stands on the line to the manager.
      const begin = Math.atan2(-subnet.y, -subnet.x) + Math.PI / Math.max(2, subnet.hosts.length);
      const angle = isRing ? begin + (index / subnet.hosts.length) * 2 * Math.PI : index * GOLDEN;
      const distance = isRing ? subnet.radius : STEP * 0.62 * Math.sqrt(index + 1.5);
      return { host, subnet, x: subnet.x + Math.cos(angle) * distance, y: subnet.y + Math.sin(angle) * distance };
    }),
  );
}

/** Moves subnets away from the middle until no two of them overlap. */
function spread(subnets: Subnet[]) {
  let by = 1;
  subnets.forEach((one, index) => {
    const away = Math.hypot(one.x, one.y);
    by = Math.max(by, (one.radius + ROOM * 2) / away);
    for (const other of subnets.slice(index + 1)) {
      by = Math.max(by, (one.radius + other.radius + ROOM) / Math.hypot(one.x - other.x, one.y - other.y));
    }
  });
  for (const subnet of subnets) [subnet.x, subnet.y] = [subnet.x * by, subnet.y * by];
}
