// A check of hosts, and what it has found so far.

import { api, sentence } from './api.ts';
import { attempt } from './notices.svelte.ts';
import { go } from './route.svelte.ts';
import type { Check, CheckKind } from './types.ts';

/** The time between two looks at a check that is under way, in milliseconds. */
const LOOK_MS = 500;

export class Checking {
  check = $state.raw<Check | null>(null);
  /** Earlier checks of this kind, the latest first. */
  earlier = $state.raw<Check[]>([]);
  wrong = $state('');
  isBusy = $state(false);
  #hasLeft = false;

  constructor(readonly kind: CheckKind, readonly page: string) {}

  /** Begins a check, and goes to its page. */
  async begin(select: string, seconds?: number) {
    this.isBusy = true;
    await attempt(async () => go(this.page, (await api.beginCheck({ kind: this.kind, select, seconds })).id));
    this.isBusy = false;
  }

  /** Follows a check until all its hosts have told. Without a number, only the list of earlier ones is fetched. */
  async follow(id: number) {
    await this.#list();
    while (id > 0 && !this.#hasLeft) {
      try {
        this.check = await api.check(id);
        this.wrong = '';
      } catch (error) {
        this.wrong = sentence(error);
        return;
      }
      if (this.check.is_over) return;
      await new Promise((done) => setTimeout(done, LOOK_MS));
    }
  }

  async #list() {
    await attempt(async () => {
      this.earlier = (await api.checks()).filter((of) => of.kind === this.kind);
    });
  }

  /** Follows no more. The check goes on. */
  leave() {
    this.#hasLeft = true;
  }

  get told() {
    return this.check?.hosts.filter((host) => host.is_over).length ?? 0;
  }
}
