// What the events of a run come to.

import type { Client, Finished, Run } from './types.ts';

/** One run of the plan of an experiment. */
export interface Part {
  name: string;
  number: number;
  state: 'running' | 'whole' | 'incomplete' | 'refused';
  clients: number;
  finished: Finished | null;
  /** Why it was made more than once. */
  again: string[];
}

export interface Story {
  parts: Part[];
  clients: Client[];
  leftOut: string[];
  estimate: number;
  total: number;
  done: number;
  /** What happens now, in words. */
  now: string;
}

export function story(run: Run): Story {
  const told: Story = { parts: [], clients: [], leftOut: [], estimate: 0, total: 0, done: 0, now: '' };
  const parts = new Map<string, Part>();
  const part = (name: string, number: number): Part => {
    const had = parts.get(name);
    if (had) return had;
    const made: Part = { name, number, state: 'running', clients: 0, finished: null, again: [] };
    parts.set(name, made);
    return made;
  };
  for (const event of run.events ?? []) {
    switch (event.event) {
      case 'planned':
        Object.assign(told, { total: event.runs, estimate: event.estimate_seconds, leftOut: event.left_out });
        told.now = 'The plan is made.';
        break;
      case 'building':
        told.now = `Preparing ${event.network}.`;
        break;
      case 'settling':
        told.now = `Waiting until the hosts are quiet, before ${event.run}.`;
        break;
      case 'started':
        part(event.run, event.number).clients = event.clients;
        told.now = `${event.run}: run ${event.number} of ${event.of}, with ${event.clients} receivers.`;
        break;
      case 'client':
        told.clients.push(event);
        break;
      case 'again':
        parts.get(event.run)?.again.push(event.reason);
        told.now = `${event.run} is made again: ${event.reason}.`;
        break;
      case 'finished': {
        const of = part(event.run, event.number);
        of.finished = event;
        of.clients = event.clients;
        of.state = event.refused ? 'refused' : event.whole === event.clients ? 'whole' : 'incomplete';
        told.done += 1;
        told.now = `${event.run}: ${event.refused ?? event.says}`;
        break;
      }
    }
  }
  told.parts = [...parts.values()];
  return told;
}

/** Returns the names of the measures that any part has, those of most parts first. */
export function measuresOf(parts: Part[]): string[] {
  const counts = new Map<string, number>();
  for (const { finished } of parts) {
    for (const [name, value] of Object.entries(finished?.measures ?? {})) {
      if (value !== null) counts.set(name, (counts.get(name) ?? 0) + 1);
    }
  }
  return [...counts.entries()].sort((one, other) => other[1] - one[1] || one[0].localeCompare(other[0])).map(([name]) => name);
}

export const isOver = (run: Run) => run.state !== 'waiting' && run.state !== 'running';
