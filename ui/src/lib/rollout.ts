// What the state of a rollout means, and what can be done with it now.

import { counted } from './format.ts';
import type { HostState, Release, Rollout, RolloutChange } from './types.ts';

/** The states of hosts, in the order in which bars show them. */
export const STATES: HostState[] = ['done', 'working', 'failed', 'away', 'waiting', 'pinned', 'back'];

export type Counts = Record<HostState, number>;

export function countsOf(hosts: Rollout['hosts']): Counts {
  const counts: Counts = { done: 0, working: 0, failed: 0, away: 0, waiting: 0, pinned: 0, back: 0 };
  for (const host of hosts) counts[host.state] += 1;
  return counts;
}

/** Returns the state of a rollout in a word or three. */
export const wordOf = (rollout: Rollout) => (rollout.state === 'approval' ? 'waits for approval' : rollout.state);

const are = (many: number) => `${counted(many, 'host')} ${many === 1 ? 'is' : 'are'}`;

/** Returns what a rollout does now, and why. */
export function says(rollout: Rollout, counts: Counts): string {
  const reason = rollout.reason ? `: ${rollout.reason}` : '';
  switch (rollout.state) {
    case 'approval':
      return `${rollout.who} has ordered it. It begins when a second person approves.`;
    case 'paused':
      return 'It is paused. What is under way at hosts ends, and nothing more begins until it goes on.';
    case 'stopped':
      return `It stopped by itself${reason}. No further ring begins.`;
    case 'aborted':
      return `It was ended before all hosts had it${reason}.`;
    case 'done': {
      const without = counts.failed + counts.pinned + counts.back;
      return without === 0 ? 'All hosts of its rings have this version.' : `It is over. ${are(without)} without this version.`;
    }
    case 'running': {
      const begun = Math.max(0, ...rollout.hosts.map((host) => host.ring));
      const of = `ring ${Math.max(1, begun)} of ${rollout.rings.length}`;
      if (counts.working > 0) return `It is at ${of}: ${are(counts.working)} at work.`;
      if (begun < rollout.rings.length) return begun === 0 ? 'It is about to begin.' : `It has come to ${of}.`;
      return counts.away > 0 ? `All rings have begun. ${are(counts.away)} away, and get it when they come.` : 'It is about to end.';
    }
  }
}

/** Returns why a rollout cannot be changed so now; `null` if it can. */
export function whyNot(change: RolloutChange, rollout: Rollout, counts: Counts, release: Release | undefined, me: string): string | null {
  const { state } = rollout;
  const is = `It is ${state === 'approval' ? 'not approved yet' : state}.`;
  const isWithdrawn = release?.is_withdrawn ? 'The release is withdrawn: it would stop again at once.' : null;
  switch (change) {
    case 'approve':
      if (state !== 'approval') return 'It does not wait for an approval.';
      return rollout.who === me ? 'You have ordered it: a second person approves.' : null;
    case 'pause':
      return state === 'running' ? null : is;
    case 'go':
      if (state !== 'paused' && state !== 'stopped') return is;
      if (isWithdrawn) return isWithdrawn;
      return counts.failed > rollout.errors
        ? `It would stop again at once: ${counts.failed} failed, and at most ${rollout.errors} may. Try those again.`
        : null;
    case 'retry':
      if (state !== 'stopped' && state !== 'done' && state !== 'paused') return state === 'running' ? 'It is running. Pause it first.' : is;
      return isWithdrawn ?? (counts.failed === 0 ? 'No host has failed.' : null);
    case 'back':
      return counts.done === 0 ? 'No host has this version from it.' : null;
    case 'abort':
      return state === 'done' || state === 'aborted' ? is : null;
  }
}
