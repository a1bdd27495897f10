// Serves the built pages as the manager does, and passes all else on to a manager.
// So the pages are tested as they are built, without compiling the program again.

import { readFileSync } from 'node:fs';
import { createServer, request, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { MANAGER_PORT, PAGES_PORT, root } from './place.ts';

const manager = join(root, 'crates/fleet/src/manager');
const KINDS: Record<string, [file: string, kind: string]> = {
  '/': ['index.html', 'text/html; charset=utf-8'],
  '/console.js': ['console.js', 'text/javascript; charset=utf-8'],
  '/console.css': ['console.css', 'text/css; charset=utf-8'],
  '/licenses.txt': ['licenses.txt', 'text/plain; charset=utf-8'],
};

/** Returns the policy that the program sends with its pages. */
function policy(): string {
  const source = readFileSync(join(manager, 'console.rs'), 'utf8');
  const found = /const POLICY: &str =\s*"([^"]*)"/.exec(source)?.[1];
  if (!found) throw new Error('console.rs has no POLICY');
  return found.replace(/\\\n\s*/g, '');
}

/** Serves pages until it is closed. `/cut` and `/mend` take the manager away, and give it back. */
export async function serve(): Promise<Server> {
  const rules = policy();
  const open = new Set<Socket>();
  let isCut = false;
  const server = createServer((from, to) => {
    const path = new URL(from.url ?? '/', 'http://pages').pathname;
    if (path === '/cut' || path === '/mend') {
      isCut = path === '/cut';
      to.end();
      if (isCut) for (const socket of open) if (socket !== from.socket) socket.destroy();
      return;
    }
    const page = KINDS[path];
    if (page) {
      to.writeHead(200, { 'content-type': page[1], 'content-security-policy': rules, 'x-content-type-options': 'nosniff' });
      to.end(readFileSync(join(manager, 'console', page[0])));
      return;
    }
    if (isCut) {
      from.socket.destroy();
      return;
    }
    const passed = request(
      { host: '127.0.0.1', port: MANAGER_PORT, method: from.method, path: from.url, headers: from.headers },
      (answer) => {
        to.writeHead(answer.statusCode ?? 502, answer.headers);
        // A stream of changes has begun before its first change.
        to.flushHeaders();
        answer.pipe(to);
        // A page that is closed hears nothing more.
        to.on('close', () => answer.destroy());
      },
    );
    passed.on('error', () => to.destroy());
    from.pipe(passed);
  });
  server.on('connection', (socket) => {
    open.add(socket);
    socket.on('close', () => open.delete(socket));
  });
  await new Promise<void>((done) => server.listen(PAGES_PORT, '127.0.0.1', done));
  return server;
}
