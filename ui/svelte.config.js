import { vitePreprocess } from '@sveltejs/vite-plugin-svelte';

export default {
  preprocess: vitePreprocess(),
  compilerOptions: {
    runes: true,
    // What scrolls must be reached by keyboard (axe: scrollable-region-focusable), so tables and panes take the focus.
    warningFilter: (warning) => warning.code !== 'a11y_no_noninteractive_tabindex',
  },
};
