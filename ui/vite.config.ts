import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';

// The manager that `npm run dev` passes requests on to.
const manager = process.env.MANAGER ?? 'http://127.0.0.1:7444';

/** Writes the licences of the packages whose code is part of the pages into `licenses.txt`. */
const licenses: Plugin = {
  name: 'licenses',
  generateBundle(_, bundle) {
    const ids = Object.values(bundle).flatMap((chunk) => (chunk.type === 'chunk' ? Object.keys(chunk.modules) : []));
    const folders = new Set(ids.flatMap((id) => /^\0?(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1] ?? []));
    const texts = [...folders].sort().map((folder) => {
      const about = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { name: string; version: string };
      const file = ['LICENSE.md', 'LICENSE', 'LICENCE', 'license'].map((name) => join(folder, name)).find(existsSync);
      if (!file) throw new Error(`${about.name} has no file with its licence`);
      return `${about.name} ${about.version}\n\n${readFileSync(file, 'utf8').trim()}\n`;
    });
    this.emitFile({ type: 'asset', fileName: 'licenses.txt', source: texts.join('\n----------\n\n') });
  },
};

export default defineConfig({
  plugins: [svelte(), licenses],
  build: {
    // The program embeds the files of this folder, so their names are fixed.
    outDir: '../crates/fleet/src/manager/console',
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: false,
    cssCodeSplit: false,
    rollupOptions: {
      output: {
        entryFileNames: 'console.js',
        assetFileNames: 'console.[ext]',
        inlineDynamicImports: true,
      },
    },
  },
  server: { proxy: { '/api': manager, '/login': manager } },
});
