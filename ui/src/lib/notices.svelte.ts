// Short messages about what was done, or could not be done.

import { sentence } from './api.ts';

export interface Notice {
  id: number;
  text: string;
  isError: boolean;
  undo?: () => void;
}

/** How long a message stays that needs no action, in milliseconds. */
const STAYS_MS = 10_000;

let next = 1;
let all = $state<Notice[]>([]);

export const notices = {
  get all() {
    return all;
  },
  say(text: string, undo?: () => void) {
    const id = next++;
    all.push({ id, text, isError: false, undo });
    setTimeout(() => notices.close(id), STAYS_MS);
  },
  fail(error: unknown) {
    const text = sentence(error);
    if (all.some((notice) => notice.isError && notice.text === text)) return;
    all.push({ id: next++, text, isError: true });
  },
  close(id: number) {
    all = all.filter((notice) => notice.id !== id);
  },
};

/** Does something, and says so when it fails. Returns whether it was done. */
export async function attempt(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    notices.fail(error);
    return false;
  }
}
