// Changes of groups: hosts and subgroups are added to a group's selection by their names.

import { api } from './api.ts';
import { counted } from './format.ts';
import { live } from './live.svelte.ts';
import { attempt, notices } from './notices.svelte.ts';
import { hostNamed, NOBODY, withMore, without } from './selection.ts';
import type { Group } from './types.ts';

/** What is being dragged. Browsers hide it from the page until it is dropped. */
export const dragged: { hosts: string[]; group: string } = { hosts: [], group: '' };

async function change(group: Group, selection: string, says: string) {
  const before = group.selection;
  await attempt(async () => {
    await api.saveGroup(group.name, selection);
    await live.groups.refresh();
    notices.say(says, () => void attempt(async () => {
      await api.saveGroup(group.name, before);
      await live.groups.refresh();
    }));
  });
}

export async function addHosts(group: Group, names: string[]) {
  const what = names.length === 1 ? names[0] : counted(names.length, 'host');
  await change(group, withMore(group.selection, names.map(hostNamed)), `Added ${what} to the group ${group.name}.`);
}

export async function addGroup(group: Group, sub: string) {
  if (group.name === sub) return;
  await change(group, withMore(group.selection, [`group:${sub}`]), `Put the group ${sub} into ${group.name}.`);
}

/** Takes an alternative out of a group. */
export async function takeOut(group: Group, part: string, says: string) {
  const selection = without(group.selection, part);
  if (selection !== null) await change(group, selection, says);
}

/** Makes a group of hosts. Returns whether it was made. */
export async function makeGroup(name: string, names: string[]): Promise<boolean> {
  return attempt(async () => {
    if (live.groups.value.some((group) => group.name === name)) throw new Error(`there is a group ${name} already`);
    const saved = await api.saveGroup(name, withMore(NOBODY, names.map(hostNamed)));
    await live.groups.refresh();
    notices.say(`Made the group ${name} with ${counted(saved.hosts, 'host')}.`);
  });
}

/** Takes what is dragged over a group, and adds it there. */
export function drop(group: Group) {
  if (dragged.group) void addGroup(group, dragged.group);
  else if (dragged.hosts.length > 0) void addHosts(group, dragged.hosts);
}
