// A fleet that is not there: the API answered by the tests.

import type { Page } from '@playwright/test';
import type { Answer, AuditEntry, Check, Delivery, Group, Host, Me, Release, Rollout, Run } from '../src/lib/types.ts';

/** The time of day in a fleet that is not there. Pictures of it stay the same. */
export const now = Date.UTC(2026, 10, 30, 9);

export function fleet(many: number): Host[] {
  const sites = ['kiel', 'bonn', 'lyon', 'oslo', 'graz', 'pisa'];
  return Array.from({ length: many }, (_, index) => {
    const site = index % sites.length;
    const isHere = index % 17 !== 5;
    const net = many > 250 ? Math.floor(index / 200) : site;
    const busy = ((index * 7919) % 100) ** 3 * 90;
    return {
      id: index + 1,
      name: `${sites[site]}-${Math.floor(index / sites.length) + 1}`,
      key: 'ed25519:0000000000000000000000000000000000000000000',
      joined_ms: now - 86_400_000,
      seen_ms: isHere ? now : now - (index % 60) * 61_000,
      is_here: isHere,
      facts: {
        hostname: `${sites[site]}-${index}`,
        system: 'Debian GNU/Linux 13 (trixie)',
        kernel: '6.12.0',
        architecture: index % 3 ? 'x86_64' : 'aarch64',
        processor: 'a processor',
        processors: 4,
        memory_bytes: 8 * 2 ** 30,
        free_bytes: 40 * 2 ** 30,
        version: index % 9 ? '0.1.0' : '0.0.9',
        interfaces: [{ name: 'eth0', addresses: [`10.${20 + (net >> 8)}.${net & 255}.${(Math.floor(index / (many > 250 ? 1 : sites.length)) % 200) + 10}`] }],
        interface: 'eth0',
        boot: '',
        releases: {},
      },
      may: { measure: true, receive: true, roll_out: true, run_commands: index % 2 === 0 },
      tags: { site: sites[site]!, role: index % 5 === 0 ? 'router' : 'client' },
      own_tags: { site: sites[site]! },
      clock: isHere ? { ahead_ms: ((index * 31) % 400) / 10 - 20, uncertainty_ms: 0.12 } : null,
      rates: isHere ? { receives_bps: busy, sends_bps: busy / 9 } : null,
    };
  });
}

/** Fails when a script of the page fails, or when the browser refuses something because of the policy. */
export function watch(page: Page) {
  page.on('pageerror', (error) => {
    throw error;
  });
  page.on('console', (message) => {
    if (message.text().includes('Content Security Policy')) throw new Error(message.text());
  });
}

export interface Mocked {
  hosts: Host[];
  groups?: Group[];
  runs?: Run[];
  audit?: AuditEntry[];
  answers?: Answer[];
  releases?: Release[];
  rollouts?: Rollout[];
  deliveries?: Delivery[];
  checks?: Check[];
  me?: Me;
}

/** Whether a host is selected by alternatives of names, tags, states and groups: what the tests need of the language. */
function selects(select: string, host: Host, groups: Group[]): boolean {
  return select.split(/,|\bor\b/).some((part) => {
    const [key = '', value] = part.trim().split('=');
    if (key.startsWith('group:')) return groups.some((group) => group.name === key.slice(6) && selects(group.selection, host, groups));
    if (key === 'state') return host.is_here === (value === 'here');
    return value === undefined ? key === 'all' || key === host.name : host.tags[key] === value;
  });
}

/** Has a page see a fleet that is not there. */
export async function mock(page: Page, of: Mocked) {
  // The connection for changes opens, and nothing changes.
  await page.addInitScript(() => {
    class Silent extends EventTarget {
      onopen: (() => void) | null = null;
      readyState = 1;
      constructor() {
        super();
        queueMicrotask(() => this.onopen?.());
      }
      close() {}
    }
    Object.assign(window, { EventSource: Silent });
  });
  await page.route('**/api/**', (route) => {
    const url = new URL(route.request().url());
    const json = (body: unknown) => route.fulfill({ json: body });
    const select = url.searchParams.get('select') ?? 'all';
    const run = /^\/api\/runs\/(\d+)$/.exec(url.pathname)?.[1];
    const host = /^\/api\/hosts\/([^/]+)$/.exec(url.pathname)?.[1];
    if (url.pathname === '/api/me') return json(of.me ?? { name: 'admin', role: 'administrator' });
    if (host) return json(of.hosts.find((other) => other.name === host));
    if (url.pathname === '/api/hosts') {
      return json(of.hosts.filter((other) => selects(select, other, of.groups ?? [])));
    }
    if (url.pathname === '/api/groups') return json(of.groups ?? []);
    if (url.pathname === '/api/runs/plan') return json({ runs: ['fleet, multicast nack', 'fleet, unicast nack'], estimate_seconds: 12, left_out: [] });
    if (url.pathname === '/api/runs') return json((of.runs ?? []).map((other) => ({ ...other, events: undefined })));
    if (run) return json(of.runs?.find((other) => other.id === Number(run)));
    if (url.pathname === '/api/asks') return json({ id: 1, hosts: (of.answers ?? []).map((answer) => answer.host) });
    if (url.pathname === '/api/asks/1') return json(of.answers ?? []);
    if (url.pathname === '/api/releases') return json(of.releases ?? []);
    const rollout = /^\/api\/rollouts(?:\/(\d+))?/.exec(url.pathname);
    if (rollout?.[1]) return json(of.rollouts?.find((other) => other.id === Number(rollout[1])));
    if (rollout) return json(route.request().method() === 'POST' ? of.rollouts?.[0] : (of.rollouts ?? []).map((other) => ({ ...other, hosts: [], sent: [] })));
    const delivery = /^\/api\/deliveries\/(\d+)/.exec(url.pathname)?.[1];
    if (delivery) return json(of.deliveries?.find((other) => other.id === Number(delivery)));
    if (url.pathname === '/api/deliveries') return json(route.request().method() === 'POST' ? of.deliveries?.[0] : (of.deliveries ?? []).map((other) => ({ ...other, hosts: [] })));
    const check = /^\/api\/checks\/(\d+)/.exec(url.pathname)?.[1];
    if (check) return json(of.checks?.find((other) => other.id === Number(check)));
    if (url.pathname === '/api/checks') return json((of.checks ?? []).map((other) => ({ ...other, hosts: [], pairs: [] })));
    if (url.pathname === '/api/audit') return json(of.audit ?? []);
    return route.fulfill({ status: 404, json: { error: 'there is no such thing' } });
  });
}

/** A run of an experiment that is over. */
export function pastRun(id: number, factor = 1): Run {
  const names = ['fleet, multicast nack', 'fleet, multicast nack with FEC', 'fleet, unicast nack'];
  return {
    id, name: `nightly-${id}`, who: 'admin', select: 'site=kiel', settings: ['repeats=1'], state: 'done',
    file: 'title = "nightly"\n', base: '/srv/nightly', ordered_ms: now - 900_000, due_ms: now - 900_000, begun_ms: now - 899_000, ended_ms: now - 800_000, reason: '2 of 3 runs are whole; kiel-3 did not get all',
    events: [
      { event: 'planned', runs: 3, estimate_seconds: 90, left_out: ['xcast: no router speaks it'] },
      ...names.flatMap((run, index) => [
        { event: 'started' as const, number: index + 1, of: 3, run, clients: 3, expected_seconds: 30 },
        ...[1, 2, 3].map((client) => ({
          event: 'client' as const, run, node: `kiel-${client}`, seconds: index === 2 && client === 3 ? null : (3 + index * client) * factor,
          failure: index === 2 && client === 3 ? 'the file did not come in time' : null, attempts: 1, retransmitted_bytes: 4096 * client,
          duplicate_bytes: 0, dropped_packets: 0,
        })),
        {
          event: 'finished' as const, number: index + 1, run, seconds: 30, whole: index === 2 ? 2 : 3, clients: 3,
          says: index === 2 ? '2 of 3 got all' : 'all got all', saturated: null, cut_short: false, refused: null,
          measures: { time: (4 + index * 3) * factor, network_bytes: 6.4e6 * (index + 1), sender_bytes: 2.1e6 * (index === 2 ? 3 : 1), missing: index === 2 ? 0.1 : 0 },
        },
      ]),
    ],
    results: {
      whole_runs: 2, runs: 3, interrupted: false, refused: [],
      failures: [{ run: names[2]!, node: 'kiel-3', reason: 'the file did not come in time' }],
      findings: [{ says: 'every copy is whole', cell: 'fleet', measured: '0.03', limit: 'at most 0', verdict: 'fails' }],
    },
  };
}

export const releases: Release[] = [
  { id: 2, name: 'app', version: '1.1', key: 'ed25519:1111111111111111111111111111111111111111111', size_bytes: 21 * 2 ** 20, files: 34, is_withdrawn: false },
  { id: 1, name: 'app', version: '1.0', key: 'ed25519:1111111111111111111111111111111111111111111', size_bytes: 20 * 2 ** 20, files: 33, is_withdrawn: true },
];

/** A rollout of three rings to hosts of a fleet: the third has not begun. */
export function rollout(id: number, hosts: Host[], of: Partial<Rollout> = {}): Rollout {
  const failure = 'after the activation it reports 1.0';
  return {
    id, release: 2, name: 'app', version: '1.1', who: 'night-job', errors: 1, state: 'stopped', reason: '2 failed, and at most 1 may',
    rings: [{ select: 'site=kiel', most: 2 }, { select: 'site=kiel, site=oslo' }, { select: 'all' }],
    sent: [
      { ring: 1, hosts: 2, sent_bytes: 22.4e6, unicast_bytes: 42 * 2 ** 20, way: 'whole', whole_bytes: 22.4e6 },
      { ring: 2, hosts: 18, sent_bytes: 23.1e6, unicast_bytes: 378 * 2 ** 20, way: 'whole', whole_bytes: 23.1e6 },
    ],
    hosts: hosts.slice(0, 22).map((host, index) => {
      const state = index < 14 ? 'done' : index < 16 ? 'failed' : index < 18 ? 'working' : host.is_here ? 'pinned' : 'away';
      const reason = state === 'failed' ? failure : state === 'pinned' ? 'the host keeps its version' : null;
      return { host: host.name, ring: index < 2 ? 1 : 2, state, reason };
    }),
    ...of,
  };
}

/** Files on their way to hosts: some have them, some are at it, and each other state is there. */
export function delivery(id: number, hosts: Host[], of: Partial<Delivery> = {}): Delivery {
  const files = [{ name: 'north.tar', size_bytes: 48 * 2 ** 20 }, { name: 'legend.txt', size_bytes: 2311 }];
  const size = files.reduce((sum, file) => sum + file.size_bytes, 0);
  return {
    id, select: 'site=kiel, site=oslo', who: 'admin', into: 'maps', files, state: 'running', reason: null,
    ordered_ms: now - 21_000, ended_ms: null, sent_bytes: 31e6, unicast_bytes: 0,
    hosts: hosts.slice(0, 20).map((host, index) => {
      const state = !host.is_here ? 'away' : index === 3 ? 'refused' : index === 7 ? 'failed' : index < 6 ? 'done' : 'working';
      const reasons: Record<string, string> = {
        away: 'it is away: deliver again when it is here', failed: 'the disk has 1048576 bytes of room, and the files need 50333959',
        refused: 'it does not permit it: set `receive = true` below [may] in its agent.toml',
      };
      return { host: host.name, state, reason: reasons[state] ?? null, bytes: state === 'done' ? size : state === 'working' ? Math.floor((size * (index + 3)) / 26) : 0 };
    }),
    ...of,
  };
}

/** What doctors have found at hosts. */
export function doctorCheck(id: number, hosts: Host[]): Check {
  const querier = {
    kind: 'no-querier', level: 'problem' as const, seen: 'nobody asks for listeners on eth0',
    todo: 'turn an IGMP and MLD querier on at a switch or router of this LAN',
  };
  const limit = { kind: 'small-limit', level: 'remark' as const, seen: 'net.core.rmem_max is 212992', todo: 'set net.core.rmem_max to 8388608 or more' };
  return {
    id, kind: 'doctor', select: 'site=kiel, site=oslo', who: 'admin', asked_ms: now - 60_000, seconds: 10, group: null, is_over: true, pairs: [],
    hosts: hosts.slice(0, 16).map((host, index) => ({
      host: host.name, is_over: true, failure: host.is_here ? null : 'the host is away',
      findings: !host.is_here ? [] : [...(index % 6 === 3 ? [querier] : []), ...(index % 2 ? [limit] : [])],
    })),
  };
}

/** Who hears whom: one host hears nobody beyond its site, one link loses packets, and one host has told nothing. */
export function beaconCheck(id: number, hosts: Host[], many = 14): Check {
  const names = hosts.slice(0, many).map((host) => host.name);
  const pairs = names.flatMap((to, row) =>
    names.flatMap((from, column) => {
      if (from === to) return [];
      const state = row === 5 ? 'unknown' : row === 8 && column % 6 !== 2 ? 'silent' : column === 3 && row % 2 === 0 ? 'lossy' : 'well';
      const isHeard = state === 'well' || state === 'lossy';
      const near = row % 6 === column % 6;
      return [{
        from, to, state: state as 'well' | 'lossy' | 'silent' | 'unknown', loss: state === 'lossy' ? 0.12 : state === 'silent' ? 1 : state === 'well' ? 0 : null,
        delay_ms: isHeard ? (near ? 0.31 : 7 + ((row * 7 + column * 3) % 9)) : null, uncertainty_ms: isHeard ? 0.24 : null,
        hops: isHeard ? (near ? 0 : 3) : null, duplicates: 0,
      }];
    }),
  );
  return {
    id, kind: 'beacon', select: 'all', who: 'admin', asked_ms: now - 30_000, seconds: 10, group: '[ff15::7465:1b2c:3d4e]:4247', is_over: true, pairs,
    hosts: names.map((host, index) => ({ host, is_over: true, failure: index === 5 ? 'no interface is up' : null, findings: [] })),
  };
}
