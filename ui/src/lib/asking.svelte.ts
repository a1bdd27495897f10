// A command to hosts, and its answers.

import { api } from './api.ts';
import { attempt } from './notices.svelte.ts';
import type { Answer } from './types.ts';

/** The shortest and the longest time between two questions for the answers, in milliseconds. */
const LEAST_MS = 200;
const MOST_MS = 2_000;

export class Asking {
  command = $state('');
  answers = $state.raw<Answer[]>([]);
  isUnderWay = $state(false);
  began = $state(0);
  #number = 0;

  get over() {
    return this.answers.filter((answer) => answer.is_over).length;
  }

  /** Asks hosts, and follows their answers until all have ended. */
  async ask(select: string, line: string, words: string[], limit: string) {
    const number = ++this.#number;
    this.command = line;
    this.isUnderWay = true;
    this.answers = [];
    this.began = Date.now();
    await attempt(async () => {
      const asked = await api.ask(select, words, limit);
      this.answers = asked.hosts.map((host) => ({ host, lines: [], is_over: false }));
      let pause = LEAST_MS;
      while (number === this.#number) {
        const answers = await api.answers(asked.id);
        if (number !== this.#number) return;
        this.answers = answers;
        if (answers.every((answer) => answer.is_over)) return;
        await new Promise((done) => setTimeout(done, pause));
        pause = Math.min(MOST_MS, pause * 1.2);
      }
    });
    if (number === this.#number) this.isUnderWay = false;
  }

  /** Follows the answers no more. What was asked goes on at the hosts. */
  leave() {
    this.#number += 1;
    this.isUnderWay = false;
  }
}

/** Returns how an answer stands, in a word. */
export function stateOf(answer: Answer): string {
  if (answer.failure) return answer.failure.includes('away') ? 'away' : 'refused';
  if (!answer.is_over) return 'asked';
  return answer.end && answer.end.code !== 0 ? 'failed' : 'answered';
}

/** Returns how a program ended, in words; empty while it runs. */
export function endOf(answer: Answer): string {
  if (answer.failure) return answer.failure;
  if (!answer.end) return '';
  return answer.end.signal === null ? `exit code ${answer.end.code}` : `ended by signal ${answer.end.signal}`;
}

/** Returns all that an answer has printed. */
export function textOf(answer: Answer): string {
  const lines = [...answer.lines];
  if (answer.value !== undefined) lines.push(JSON.stringify(answer.value, null, 2));
  return lines.join('\n');
}
