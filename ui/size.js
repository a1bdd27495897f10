// Prints the size of the built console, and fails when it is over its budget.
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

const BUDGET_BYTES = 120 * 1024;

let total = 0;
for (const name of ['index.html', 'console.js', 'console.css']) {
  const text = readFileSync(new URL(`../crates/fleet/src/manager/console/${name}`, import.meta.url));
  const size = gzipSync(text, { level: 9 }).length;
  total += size;
  console.log(`${name}: ${text.length} bytes, ${size} bytes with gzip`);
}
console.log(`in all: ${total} of at most ${BUDGET_BYTES} bytes with gzip`);
process.exit(total > BUDGET_BYTES ? 1 : 0);
