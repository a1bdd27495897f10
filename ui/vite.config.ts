import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// The manager that `npm run dev` passes requests on to.
const manager = process.env.MANAGER ?? 'http://127.0.0.1:7444';

export default defineConfig({
  plugins: [svelte()],
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
