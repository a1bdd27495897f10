// Starts a manager with three agents on this machine, and the pages before it.

import { spawn, type ChildProcess } from 'node:child_process';
import { mkdirSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { serve } from './pages.ts';
import { AGENTS_PORT, MANAGER_PORT, SESSION, STATE, TREECAST, URL } from './place.ts';

export default async function setup() {
  rmSync(STATE, { recursive: true, force: true });
  mkdirSync(STATE, { recursive: true });
  const log = openSync(join(STATE, 'log'), 'a');
  const children: ChildProcess[] = [];
  const start = (...words: string[]) => {
    const child = spawn(TREECAST, words, { stdio: ['ignore', 'pipe', log] });
    children.push(child);
    return child;
  };
  const pages = await serve();
  const stop = async () => {
    const ends = children.map((child) => new Promise((ended) => (child.exitCode === null ? child.on('exit', ended) : ended(0))));
    children.toReversed().forEach((child) => child.kill('SIGTERM'));
    await Promise.all(ends);
    pages.closeAllConnections();
    await new Promise((closed) => pages.close(closed));
  };

  try {
    const manager = start(
      'manager', '--state', join(STATE, 'manager'), '--listen', `127.0.0.1:${AGENTS_PORT}`,
      '--console', `127.0.0.1:${MANAGER_PORT}`, '--address', `127.0.0.1:${AGENTS_PORT}`, '--json',
    );
    const ready = await line(manager);
    for (const [name, may] of [['h1', true], ['h2', true], ['h3', false]] as const) {
      const config = join(STATE, `${name}.toml`);
      writeFileSync(config, `[may]\nrun_commands = ${may}\n[tags]\nsite = "${name === 'h3' ? 'bonn' : 'kiel'}"\n`);
      start('agent', '--join', ready.code, '--name', name, '--state', join(STATE, name), '--config', config);
    }
    await logIn(ready.open);
    await joined(3);
  } catch (error) {
    await stop();
    throw error;
  }
  return stop;
}

/** Returns the first line that a program prints, in JSON. */
async function line(child: ChildProcess): Promise<{ open: string; code: string }> {
  if (!child.stdout) throw new Error('the manager has no output');
  for await (const text of createInterface(child.stdout)) return JSON.parse(text) as { open: string; code: string };
  throw new Error(`the manager ended: see ${join(STATE, 'log')}`);
}

/** Keeps the cookie of the login for the tests. */
async function logIn(open: string) {
  const answer = await fetch(open, { redirect: 'manual' });
  const [name, value] = (answer.headers.get('set-cookie') ?? '').split(';')[0]!.split('=') as [string, string];
  const cookie = { name, value, domain: '127.0.0.1', path: '/', expires: -1, httpOnly: true, secure: false, sameSite: 'Strict' };
  writeFileSync(SESSION, JSON.stringify({ cookies: [cookie], origins: [] }));
  process.env.CONSOLE_COOKIE = `${name}=${value}`;
}

/** Waits until so many hosts are here: the manager tells when one comes. */
async function joined(many: number) {
  const headers = { cookie: process.env.CONSOLE_COOKIE ?? '' };
  const changes = await fetch(`${URL}/api/changes`, { headers });
  const reader = changes.body!.getReader();
  for (;;) {
    const hosts = (await (await fetch(`${URL}/api/hosts`, { headers })).json()) as { is_here: boolean }[];
    if (hosts.filter((host) => host.is_here).length >= many) break;
    await reader.read();
  }
  await reader.cancel();
}
