// Where the tests find things.

import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const port = (name: string, other: number) => Number(process.env[name] ?? other);

/** The ports of the manager for agents and for its console, and that of the pages under test. */
export const AGENTS_PORT = port('AGENTS_PORT', 27443);
export const MANAGER_PORT = port('MANAGER_PORT', 27444);
export const PAGES_PORT = port('PAGES_PORT', 27445);

export const URL = `http://127.0.0.1:${PAGES_PORT}`;
/** The folder of the manager and the agents, which is made anew by each test run. */
export const STATE = process.env.CONSOLE_STATE ?? join(tmpdir(), 'treecast-console');
/** The file with the cookie of an administrator. */
export const SESSION = join(STATE, 'session.json');

export const root = fileURLToPath(new globalThis.URL('../..', import.meta.url));
export const TREECAST = process.env.TREECAST ?? join(root, 'target/debug/treecast');
