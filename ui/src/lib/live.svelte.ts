// What the manager knows, kept up to date while the page is open.

import { api, onOutcome } from './api.ts';
import { notices } from './notices.svelte.ts';
import { paced } from './paced.ts';
import type { Change, Delivery, Group, Host, Me, Release, Role, Rollout, Run } from './types.ts';

/** The time between two requests for rates, in milliseconds. Large fleets are asked less often. */
const RATES_EVERY_MS = 2_000;
/** The time until a lost connection is tried again, and until lists are fetched without changes, in milliseconds. */
const RETRY_MS = 2_000;

const RANKS: Role[] = ['viewer', 'operator', 'release-manager', 'administrator'];

/** A list that is fetched again when it may have changed. */
class Fetched<T> {
  value = $state.raw<T[]>([]);
  isThere = $state(false);
  /** Fetches the list soon. */
  readonly refreshSoon = paced(() => this.refresh());

  constructor(readonly ask: () => Promise<T[]>) {}

  /** Fetches the list. The banner tells when that fails, and everything is fetched again when the connection is back. */
  async refresh(): Promise<void> {
    const value = await this.ask().catch(() => null);
    if (!value) return;
    this.value = value;
    this.isThere = true;
  }

  forget() {
    this.value = [];
    this.isThere = false;
  }
}

class Live {
  /** `undefined` until the manager has said who is logged in; `null` when nobody is. */
  me = $state.raw<Me | null | undefined>(undefined);
  isLost = $state(false);
  /** The time of day, which moves on every few seconds, for "2 min ago". */
  now = $state(Date.now());
  hosts = new Fetched<Host>(() => api.hosts());
  groups = new Fetched<Group>(() => api.groups());
  runs = new Fetched<Run>(() => api.runs());
  releases = new Fetched<Release>(() => api.releases());
  rollouts = new Fetched<Rollout>(() => api.rollouts());
  deliveries = new Fetched<Delivery>(() => api.deliveries());
  #source: EventSource | null = null;
  /** States of hosts that have changed, by the number of the host. */
  #states = new Map<number, boolean>();
  /** Shows new states before the list is fetched again. When thousands of hosts come at once, they are shown together. */
  #applyStates = paced(async () => {
    const states = new Map(this.#states);
    this.#states.clear();
    this.hosts.value = this.hosts.value.map((host) => {
      const isHere = states.get(host.id);
      return isHere === undefined || isHere === host.is_here ? host : { ...host, is_here: isHere };
    });
  });
  #listeners = new Set<(change: Change) => void>();

  constructor() {
    onOutcome((error) => {
      if (error?.status === 401) this.#loggedOut();
      if (error?.status === 0) this.#lose();
    });
    setInterval(() => {
      this.now = Date.now();
    }, 5_000);
    this.#pollRates();
  }

  async start() {
    try {
      this.me = await api.me();
    } catch {
      if (this.me === undefined && this.isLost) setTimeout(() => void this.start(), RETRY_MS);
      return;
    }
    this.#listen();
  }

  async login(token: string) {
    this.me = await api.login(token);
    this.#listen();
  }

  async logout() {
    await api.logout();
    this.#loggedOut();
  }

  /** Has `listener` told every change. Returns what ends that. */
  onChange(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Returns why whoever is logged in may not do what needs a role; `null` if it may. */
  lacks(role: Role): string | null {
    if (this.isLost) return 'The connection to the manager is lost.';
    const has = this.me ? RANKS.indexOf(this.me.role) : -1;
    return has >= RANKS.indexOf(role) ? null : `This needs the role ${role}. You are ${this.me?.role ?? 'not logged in'}.`;
  }

  refreshAll() {
    this.hosts.refreshSoon();
    this.groups.refreshSoon();
    this.runs.refreshSoon();
    this.releases.refreshSoon();
    this.rollouts.refreshSoon();
    this.deliveries.refreshSoon();
  }

  #listen() {
    this.#source?.close();
    const source = new EventSource('/api/changes');
    this.#source = source;
    // A proxy may hold the stream back until the first change.
    const wait = setTimeout(() => this.#source === source && this.refreshAll(), RETRY_MS);
    source.onopen = () => {
      clearTimeout(wait);
      const wasLost = this.isLost;
      this.isLost = false;
      this.refreshAll();
      if (wasLost) this.#tell({ changed: 'all' });
    };
    source.onmessage = (message: MessageEvent<string>) => this.#note(JSON.parse(message.data) as Change);
    source.onerror = () => {
      this.#lose();
      // A browser does not try again by itself after an answer such as 502.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.#source === source && this.#retry(), RETRY_MS);
    };
  }

  async #retry() {
    try {
      this.me = await api.me();
      this.#listen();
    } catch {
      if (this.me) setTimeout(() => void this.#retry(), RETRY_MS);
    }
  }

  #lose() {
    this.isLost = true;
  }

  #loggedOut() {
    this.#source?.close();
    this.#source = null;
    this.isLost = false;
    for (const list of [this.hosts, this.groups, this.runs, this.releases, this.rollouts, this.deliveries]) list.forget();
    if (this.me) notices.say('You are logged out.');
    this.me = null;
  }

  #note(change: Change) {
    if (change.changed === 'host') {
      this.#states.set(change.id, change.is_here);
      this.#applyStates();
      this.hosts.refreshSoon();
      this.groups.refreshSoon();
    } else if (change.changed === 'run') {
      this.runs.refreshSoon();
    } else if (change.changed === 'rollout') {
      this.rollouts.refreshSoon();
    } else if (change.changed === 'delivery') {
      this.deliveries.refreshSoon();
    } else if (change.changed === 'groups') {
      this.hosts.refreshSoon();
      this.groups.refreshSoon();
    } else {
      this.refreshAll();
    }
    this.#tell(change);
  }

  #tell(change: Change) {
    for (const listener of this.#listeners) listener(change);
  }

  #pollRates() {
    const hosts = this.hosts.value;
    const isWanted = this.me && !this.isLost && document.visibilityState === 'visible' && hosts.some((host) => host.rates);
    if (isWanted) this.hosts.refreshSoon();
    setTimeout(() => this.#pollRates(), RATES_EVERY_MS * Math.max(1, hosts.length / 500));
  }
}

export const live = new Live();

/** Returns the address that leads to the manager, as the manager chooses it: IPv6 before IPv4, addresses of one link last. */
export function addressOf(host: Host): string {
  const found = host.facts.interfaces.find((of) => of.name === host.facts.interface);
  const rank = (address: string) => (/^(fe80|169\.254\.)/i.test(address) ? 2 : 0) + (address.includes(':') ? 0 : 1);
  return found?.addresses.toSorted((one, other) => rank(one) - rank(other))[0] ?? '';
}
