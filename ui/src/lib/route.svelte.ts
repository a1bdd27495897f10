// The page that is shown: the part of the address after `#`.

function read() {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  return { path: path.split('/').map(decodeURIComponent), query: new URLSearchParams(query) };
}

let now = $state.raw(read());

addEventListener('hashchange', () => {
  now = read();
});

export const route = {
  get page() {
    return now.path[0] || 'overview';
  },
  /** What the page is about, such as the name of a host. */
  get about() {
    return now.path[1] ?? '';
  },
  get query() {
    return now.query;
  },
};

/** Returns the address of a page. */
export function to(page: string, about?: string | number, query?: Record<string, string | number>): string {
  const path = about === undefined ? page : `${page}/${encodeURIComponent(about)}`;
  const more = query ? `?${new URLSearchParams(Object.entries(query).map(([key, value]) => [key, String(value)]))}` : '';
  return `#/${path}${more}`;
}

export function go(page: string, about?: string | number, query?: Record<string, string | number>) {
  location.hash = to(page, about, query);
}

/** Changes the query without a new entry in the browser's history. */
export function replaceQuery(query: Record<string, string>) {
  const kept = Object.entries(query).filter(([, value]) => value !== '');
  const page = location.hash.split('?')[0] || '#/overview';
  const text = kept.length > 0 ? `${page}?${new URLSearchParams(kept)}` : page;
  if (text !== location.hash) history.replaceState(null, '', text);
}
