// The rings of a rollout that is being written.

import type { Host } from './types.ts';

export class Ring {
  select = $state('');
  most = $state<number | null>(null);
  /** The hosts that it selects. `null` while that is not known. */
  hosts = $state.raw<Host[] | null>(null);

  constructor(select: string, most: number | null = null) {
    this.select = select;
    this.most = most;
  }
}

/** Returns the hosts of each ring, as the manager takes them: none of a ring before, and no more than its limit. */
export function sharedOut(rings: Ring[]): { members: Host[]; before: number; left: number }[] {
  const taken = new Set<number>();
  return rings.map(({ hosts, most }) => {
    const all = hosts ?? [];
    const others = all.filter((host) => !taken.has(host.id));
    const members = others.slice(0, most || others.length);
    for (const host of members) taken.add(host.id);
    return { members, before: all.length - others.length, left: others.length - members.length };
  });
}
