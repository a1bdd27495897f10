// The selection language, as far as the console changes selections. The manager reads them (crates/fleet/src/selection.rs).

/** A selection that selects no host. */
export const NOBODY = 'not all';

const WORDS = new Set(['all', 'and', 'or', 'not']);

/** Returns a selection of one host. */
export const hostNamed = (name: string) => (WORDS.has(name) ? `name=${name}` : name);

interface Token {
  text: string;
  from: number;
  to: number;
}

function tokens(text: string): Token[] {
  const found = text.matchAll(/"[^"]*"?|[(),=]|[<>!]=?|[^\s()=<>!,"]+/g);
  return Array.from(found, (match) => ({ text: match[0], from: match.index, to: match.index + match[0].length }));
}

/** Returns the alternatives of a selection: what stands between commas and `or`, outside parentheses. */
export function alternatives(selection: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let from = 0;
  for (const token of tokens(selection)) {
    if (token.text === '(') depth += 1;
    if (token.text === ')') depth -= 1;
    if (depth === 0 && (token.text === ',' || token.text === 'or')) {
      parts.push(selection.slice(from, token.from).trim());
      from = token.to;
    }
  }
  parts.push(selection.slice(from).trim());
  return parts.filter((part) => part !== '');
}

/** Returns a selection that also selects what each of `more` selects. */
export function withMore(selection: string, more: string[]): string {
  const had = alternatives(selection).filter((part) => part !== NOBODY);
  const added = more.filter((part) => !had.includes(part));
  return [...had, ...added].join(', ') || NOBODY;
}

/** Returns a selection without an alternative. `null`: the selection does not list it. */
export function without(selection: string, part: string): string | null {
  const had = alternatives(selection);
  if (!had.includes(part)) return null;
  return had.filter((other) => other !== part).join(', ') || NOBODY;
}

/** Returns the names of the groups that a selection lists as alternatives. */
export function subgroups(selection: string): string[] {
  return alternatives(selection).flatMap((part) => (/^group:[^\s()=<>!,"]+$/.test(part) ? [part.slice(6)] : []));
}

/** Returns the hosts of a selection that are connected. */
export const onlyHere = (selection: string) => `(${selection}) and state=here`;

/** Splits a command line into words, as a shell does with quotes. */
export function commandWords(line: string): string[] {
  const found = line.matchAll(/(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"?|'[^']*'?)+/g);
  return Array.from(found, (match) =>
    match[0].replace(/\\(.)|"((?:[^"\\]|\\.)*)"?|'([^']*)'?/g, (_, escaped, double, single) =>
      escaped ?? (double !== undefined ? double.replace(/\\(["\\$`])/g, '$1') : single),
    ),
  );
}
