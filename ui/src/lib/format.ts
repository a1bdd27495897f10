// Numbers and times as people read them.

const number = new Intl.NumberFormat('en', { maximumSignificantDigits: 3, useGrouping: true });
const whole = new Intl.NumberFormat('en');
const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const day = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' });

export const NONE = '–';

function scaled(value: number, step: number, units: string[]): string {
  let index = 0;
  let size = value;
  while (Math.abs(size) >= step && index < units.length - 1) {
    size /= step;
    index += 1;
  }
  const text = Math.abs(size) >= 100 ? String(Math.round(size)) : number.format(size);
  return units[index] ? `${text} ${units[index]}` : text;
}

export const bytes = (value: number) => scaled(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
export const bitrate = (bps: number) => scaled(bps, 1000, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s']);
export const count = (value: number) => whole.format(value);

/** Returns "1 host" or "2 hosts". */
export const counted = (value: number, noun: string) => `${whole.format(value)} ${noun}${value === 1 ? '' : 's'}`;

/** Returns a duration in seconds as "850 ms", "12.3 s", "4 min 5 s" or "2 h 3 min". */
export function seconds(value: number): string {
  if (value === 0) return '0 s';
  if (Math.abs(value) < 0.001) return `${number.format(value * 1e6)} µs`;
  if (Math.abs(value) < 1) return `${number.format(value * 1e3)} ms`;
  if (value < 120) return `${number.format(value)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 120) return `${minutes} min ${Math.round(value % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} days`;
}

/** Returns a moment as a time of day, with the date when it is not today. */
export function moment(ms: number): string {
  const at = new Date(ms);
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? clock.format(at) : `${day.format(at)}, ${clock.format(at)}`;
}

/** Returns how long ago a moment was, in one unit. */
export function ago(ms: number, now: number): string {
  const passed = (now - ms) / 1000;
  if (passed < 2) return 'now';
  for (const [unit, length] of [['days', 86_400], ['h', 3600], ['min', 60]] as const) {
    if (passed >= 2 * length) return `${Math.floor(passed / length)} ${unit} ago`;
  }
  return `${Math.round(passed)} s ago`;
}

/** Returns the error of a clock, such as "+1.25 ms ± 0.1". */
export function offset(of: { ahead_ms: number; uncertainty_ms: number } | null): string {
  if (!of) return NONE;
  const ahead = Math.abs(of.ahead_ms) >= 1000 ? `${(of.ahead_ms / 1000).toFixed(1)} s` : `${of.ahead_ms.toFixed(1)} ms`;
  return `${of.ahead_ms >= 0 ? '+' : ''}${ahead}`.replace('-', '−');
}

/** Measures in seconds and in bits a second whose names do not say so. */
const SECONDS = new Set([
  'time', 'jitter', 'duration', 'silence', 'stall', 'stall_mended', 'calm', 'avoided', 'restored', 'reconnected',
  'back_on_link', 'processor', 'sender_processor', 'used_again',
]);
const BITS = new Set(['capacity', 'flow', 'goodput', 'rival', 'second_rival', 'throughput']);
const BYTES = new Set(['duplicate', 'memory', 'queue', 'received', 'retransmitted', 'sent', 'waiting', 'size']);

/** Returns the value of a measure with its unit. */
export function measure(name: string, value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (SECONDS.has(name) || /(^|_)(time|latency)(_|$)/.test(name)) return seconds(value);
  if (BYTES.has(name) || name.endsWith('_bytes')) return bytes(value);
  if (BITS.has(name) || name.endsWith('_rate')) return bitrate(value);
  return number.format(value);
}

/** Returns the name of a measure in words. */
export const words = (name: string) => name.replaceAll('_', ' ');
