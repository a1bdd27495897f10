// What one host hears of another, in words.

import type { Pair } from './types.ts';

const percent = (share: number) => `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

/** Returns a delay, such as "0.42 ms ± 0.2". */
export function delayText(pair: Pair): string {
  if (pair.delay_ms === null) return 'the delay is not known';
  const digits = Math.abs(pair.delay_ms) < 10 ? 2 : 1;
  const error = pair.uncertainty_ms === null ? '' : ` ± ${pair.uncertainty_ms.toFixed(2)}`;
  return `${pair.delay_ms.toFixed(digits).replace('-', '−')}${error} ms`;
}

/** Returns what stands in a cell of the matrix. */
export function cellText(pair: Pair, shows: 'loss' | 'delay'): string {
  if (pair.state === 'unknown') return '?';
  if (pair.state === 'silent') return '✕';
  if (shows === 'loss') return percent(pair.loss ?? 0).replace(' %', '%');
  return pair.delay_ms === null ? '?' : pair.delay_ms.toFixed(Math.abs(pair.delay_ms) < 10 ? 1 : 0).replace('-', '−');
}

/** Returns all that is known of a pair, in a sentence. */
export function pairText(pair: Pair): string {
  if (pair.state === 'unknown') return `${pair.to} has not told what it hears of ${pair.from}.`;
  if (pair.state === 'silent') return `${pair.to} hears nothing of ${pair.from}.`;
  const hops = pair.hops === null ? '' : `, ${pair.hops} ${pair.hops === 1 ? 'router' : 'routers'} on the way`;
  const twice = pair.duplicates > 0 ? `, ${pair.duplicates} packets came twice` : '';
  return `${pair.to} hears ${pair.from}: ${percent(pair.loss ?? 0)} lost, ${delayText(pair)}${hops}${twice}.`;
}
