// Makes the types of the API from its description. With --check, fails when those that are committed are old.
import { readFileSync, writeFileSync } from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';

const file = new URL('src/lib/schema.ts', import.meta.url);
const made = `// Made by \`npm run types\` from openapi.json, which \`treecast fleet api\` prints.\n\n${astToString(
  // What has a default may be missing all the same.
  await openapiTS(new URL('openapi.json', import.meta.url), { defaultNonNullable: false }),
)}`;

if (!process.argv.includes('--check')) {
  writeFileSync(file, made);
} else if (readFileSync(file, 'utf8') !== made) {
  console.error('src/lib/schema.ts is old: run `npm run types`, and commit what it changes');
  process.exit(1);
}
