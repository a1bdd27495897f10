// Requests to the manager.

import type {
  Answer, Asked, AuditEntry, Check, Code, Delivery, Group, Host, Me, NewCheck, NewDelivery, NewRollout, NewRun,
  Preview, Release, Rollout, RolloutChange, Run,
} from './types.ts';

/** An answer of the manager that refuses a request. `status` 0: no answer came. */
export class ApiError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

const part = encodeURIComponent;

type Heard = (error: ApiError | null) => void;
let heard: Heard = () => {};

/** Has `listener` told the outcome of each request: `null` when it was answered well. */
export function onOutcome(listener: Heard) {
  heard = listener;
}

async function send<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = {};
  if (method !== 'GET') headers['x-treecast'] = '1';
  if (body !== undefined) headers['content-type'] = 'application/json';
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw tell(new ApiError(0, 'the manager does not answer'));
  }
  if (!response.ok) {
    const told = (await response.json().catch(() => ({}))) as { error?: string };
    throw tell(new ApiError(response.status, told.error ?? `the manager answers with status ${response.status}`));
  }
  heard(null);
  return response.status === 204 ? (undefined as T) : ((await response.json()) as T);
}

/** Uploads a file as it is. `progress` is told how many bytes have left. */
export function upload(to: string, file: File, progress: (bytes: number) => void): Promise<void> {
  // `fetch` does not tell how far an upload is.
  const request = new XMLHttpRequest();
  return new Promise((done, fail) => {
    request.open('PUT', `/api/uploads/${part(to)}/${part(file.name)}`);
    request.setRequestHeader('x-treecast', '1');
    request.upload.onprogress = (event) => progress(event.loaded);
    request.onerror = () => fail(tell(new ApiError(0, 'the manager does not answer')));
    request.onload = () => {
      if (request.status >= 200 && request.status < 300) return done();
      let error = `the manager answers with status ${request.status}`;
      try {
        error = (JSON.parse(request.responseText) as { error: string }).error;
      } catch {
        // A proxy may answer with a page of its own.
      }
      fail(tell(new ApiError(request.status, error)));
    };
    request.send(file);
  });
}

function tell(error: ApiError) {
  heard(error);
  return error;
}

export const api = {
  me: () => send<Me>('GET', '/api/me'),
  login: (token: string) => send<Me>('POST', '/api/login', { token }),
  logout: () => send<void>('POST', '/api/logout'),
  hosts: (select = 'all', signal?: AbortSignal) =>
    send<Host[]>('GET', `/api/hosts?select=${part(select)}`, undefined, signal),
  host: (name: string) => send<Host>('GET', `/api/hosts/${part(name)}`),
  forget: (name: string) => send<void>('DELETE', `/api/hosts/${part(name)}`),
  tag: (name: string, tags: Record<string, string>) => send<Host>('PUT', `/api/hosts/${part(name)}/tags`, tags),
  groups: () => send<Group[]>('GET', '/api/groups'),
  saveGroup: (name: string, selection: string) => send<Group>('PUT', `/api/groups/${part(name)}`, { selection }),
  removeGroup: (name: string) => send<void>('DELETE', `/api/groups/${part(name)}`),
  code: (uses: number, lasts: string) => send<Code>('POST', '/api/codes', { uses, lasts }),
  ask: (select: string, command: string[], limit: string) =>
    send<Asked>('POST', '/api/asks', { select, command, limit }),
  answers: (id: number) => send<Answer[]>('GET', `/api/asks/${id}`),
  runs: () => send<Run[]>('GET', '/api/runs'),
  run: (id: number) => send<Run>('GET', `/api/runs/${id}`),
  plan: (run: NewRun, signal?: AbortSignal) => send<Preview>('POST', '/api/runs/plan', run, signal),
  start: (run: NewRun) => send<Run>('POST', '/api/runs', run),
  abort: (id: number) => send<Run>('POST', `/api/runs/${id}/abort`),
  releases: () => send<Release[]>('GET', '/api/releases'),
  withdraw: (id: number) => send<void>('DELETE', `/api/releases/${id}`),
  rollouts: () => send<Rollout[]>('GET', '/api/rollouts'),
  rollout: (id: number) => send<Rollout>('GET', `/api/rollouts/${id}`),
  rollOut: (rollout: NewRollout) => send<Rollout>('POST', '/api/rollouts', rollout),
  changeRollout: (id: number, change: RolloutChange) => send<Rollout>('POST', `/api/rollouts/${id}/${change}`),
  deliveries: () => send<Delivery[]>('GET', '/api/deliveries'),
  delivery: (id: number) => send<Delivery>('GET', `/api/deliveries/${id}`),
  deliver: (delivery: NewDelivery) => send<Delivery>('POST', '/api/deliveries', delivery),
  abortDelivery: (id: number) => send<Delivery>('POST', `/api/deliveries/${id}/abort`),
  beginUpload: () => send<{ upload: string }>('POST', '/api/uploads'),
  forgetUpload: (name: string) => send<void>('DELETE', `/api/uploads/${part(name)}`),
  checks: () => send<Check[]>('GET', '/api/checks'),
  check: (id: number) => send<Check>('GET', `/api/checks/${id}`),
  beginCheck: (check: NewCheck) => send<Check>('POST', '/api/checks', check),
  audit: (latest: number) => send<AuditEntry[]>('GET', `/api/audit?latest=${latest}`),
};

/** Returns what went wrong, in one sentence for a person. */
export function sentence(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.charAt(0).toUpperCase() + text.slice(1);
}
