// Reads and changes single keys of an experiment's text, and leaves all else as its author wrote it.

/** A table of the text: the lines from `from` up to `to`. */
interface Span {
  from: number;
  to: number;
}

/** Returns the first table of a name. The name of the top of the file is empty. */
function table(lines: string[], name: string): Span | null {
  const isHeader = (line: string) => /^\s*\[/.test(line) && /^\s*\[\[?[\w.-]+\]\]?\s*(#.*)?$/.test(line);
  const isOf = (line: string) => isHeader(line) && line.replace(/#.*/, '').replace(/[[\]\s]/g, '') === name;
  const start = name === '' ? -1 : lines.findIndex(isOf);
  if (name !== '' && start < 0) return null;
  const next = lines.findIndex((line, index) => index > start && isHeader(line));
  return { from: start + 1, to: next < 0 ? lines.length : next };
}

function find(lines: string[], of: Span, key: string): number {
  const begins = new RegExp(`^\\s*${key}\\s*=`);
  return lines.findIndex((line, index) => index >= of.from && index < of.to && begins.test(line));
}

/** Returns the value of a key as it is written, without a comment. `undefined`: it has none, or one of several lines. */
export function get(text: string, of: string, key: string): string | undefined {
  const lines = text.split('\n');
  const span = table(lines, of);
  const line = span && lines[find(lines, span, key)];
  const value = line?.slice(line.indexOf('=') + 1).trim();
  if (value === undefined) return undefined;
  const plain = value.replace(/^((?:"[^"]*"|[^"#])*)#.*$/, '$1').trim();
  const isWhole = (plain.match(/\[/g) ?? []).length === (plain.match(/\]/g) ?? []).length;
  return isWhole ? plain : undefined;
}

/** Whether a key has a value of several lines, which the form leaves alone. */
export function isLong(text: string, of: string, key: string): boolean {
  const lines = text.split('\n');
  const span = table(lines, of);
  return !!span && find(lines, span, key) >= 0 && get(text, of, key) === undefined;
}

/** Returns the text with another value for a key. An empty value removes the key. */
export function set(text: string, of: string, key: string, value: string): string {
  const lines = text.split('\n');
  let span = table(lines, of);
  if (!span) {
    if (value === '') return text;
    const header = of === 'workload' ? `[${of}]` : `[[${of}]]`;
    lines.push(header);
    span = { from: lines.length, to: lines.length };
  }
  const at = find(lines, span, key);
  if (value === '') {
    if (at >= 0) lines.splice(at, 1);
  } else if (at >= 0) {
    lines[at] = `${key} = ${value}`;
  } else {
    let end = span.to;
    while (end > span.from && lines[end - 1]?.trim() === '') end -= 1;
    lines.splice(end, 0, `${key} = ${value}`);
  }
  return lines.join('\n');
}

export const quote = (text: string) => JSON.stringify(text);

/** Returns the text of a TOML string; a value that is none stays as it is. */
export const unquote = (value: string | undefined) => value?.replace(/^(["'])(.*)\1$/, '$2').replaceAll('\\"', '"') ?? '';

/** Returns the items of a list, or the one value that stands in its place. */
export function items(value: string | undefined): string[] {
  if (!value) return [];
  const inner = value.startsWith('[') ? value.slice(1, -1) : value;
  return Array.from(inner.matchAll(/"([^"]*)"|([^\s,"]+)/g), (match) => match[1] ?? match[2] ?? '');
}

/** Writes a list of texts. */
export const list = (texts: string[]) => (texts.length === 0 ? '' : `[${texts.map(quote).join(', ')}]`);
