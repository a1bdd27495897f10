// What the manager's API takes and returns. The API is crates/fleet/src/manager/api.rs.

export type Role = 'viewer' | 'operator' | 'release-manager' | 'administrator';

export interface Me {
  name: string;
  role: Role;
}

export interface Interface {
  name: string;
  addresses: string[];
}

export interface Facts {
  hostname: string;
  system: string;
  kernel: string;
  architecture: string;
  processor: string;
  processors: number;
  memory_bytes: number;
  free_bytes: number;
  version: string;
  interfaces: Interface[];
  interface: string;
}

export interface Permits {
  measure: boolean;
  receive: boolean;
  roll_out: boolean;
  run_commands: boolean;
}

export interface Rates {
  receives_bps: number;
  sends_bps: number;
}

export interface Host {
  id: number;
  name: string;
  key: string;
  joined_ms: number;
  seen_ms: number;
  is_here: boolean;
  facts: Facts;
  may: Permits;
  tags: Record<string, string>;
  /** The tags of the agent's own configuration, which the manager cannot remove. */
  own_tags: Record<string, string>;
  /** How far the host's time of day is from the manager's. `null` while it is not measured. */
  clock: { ahead_ms: number; uncertainty_ms: number } | null;
  /** What the interface towards the manager carries now. */
  rates?: Rates | null;
}

export interface Group {
  name: string;
  selection: string;
  hosts: number;
}

export interface Code {
  code: string;
  uses: number;
  ends_ms: number;
}

export interface Asked {
  id: number;
  hosts: string[];
}

export interface Answer {
  host: string;
  lines: string[];
  value?: unknown;
  end?: { code: number | null; signal: number | null; errors?: string; last?: string | null };
  failure?: string;
  is_over: boolean;
}

export type RunState = 'waiting' | 'running' | 'done' | 'aborted' | 'failed';

export interface Run {
  id: number;
  name: string;
  who: string;
  select: string;
  settings: string[];
  /** The text of the experiment's file, and the folder where its paths begin. Lists have neither. */
  file?: string;
  base?: string;
  ordered_ms: number;
  /** When it begins at the earliest. */
  due_ms: number;
  begun_ms: number | null;
  ended_ms: number | null;
  state: RunState;
  reason: string | null;
  events?: RunEvent[];
  results?: Results;
}

/** What a run has told, as `treecast lab run --json` prints it. */
export type RunEvent =
  | { event: 'planned'; runs: number; estimate_seconds: number; left_out: string[] }
  | { event: 'building'; network: string; nodes: number }
  | { event: 'settling'; run: string }
  | { event: 'started'; number: number; of: number; run: string; clients: number; expected_seconds: number }
  | ({ event: 'client' } & Client)
  | { event: 'again'; run: string; reason: string }
  | ({ event: 'finished' } & Finished);

export interface Client {
  run: string;
  node: string;
  seconds: number | null;
  failure: string | null;
  attempts: number;
  retransmitted_bytes: number | null;
  duplicate_bytes: number | null;
  dropped_packets: number | null;
}

export interface Finished {
  number: number;
  run: string;
  seconds: number;
  whole: number;
  clients: number;
  says: string;
  measures: Record<string, number | null>;
  saturated: string | null;
  cut_short: boolean;
  refused: string | null;
}

export interface Results {
  whole_runs: number;
  runs: number;
  failures: { run: string; node: string; reason: string }[];
  refused: { run: string; reason: string }[];
  findings: { says: string; cell: string; measured: string; limit: string; verdict: string }[];
  interrupted: boolean;
}

export interface Preview {
  runs: string[];
  estimate_seconds: number;
  left_out: string[];
}

export interface NewRun {
  name: string;
  file: string;
  base: string;
  settings: string[];
  select: string;
  at_ms?: number;
  repeat?: { every: string; times: number };
}

export interface AuditEntry {
  at_ms: number;
  who: string;
  what: string;
  about: string;
  is_refused: boolean;
}

export interface Release {
  id: number;
  name: string;
  version: string;
  key: string;
  size_bytes: number;
  files: number;
  is_withdrawn: boolean;
}

export interface Ring {
  select: string;
  /** The most hosts, in the order of their names. */
  most?: number | null;
}

export interface NewRollout {
  release: number;
  rings: Ring[];
  /** How many hosts may fail before the rollout stops by itself. */
  errors: number;
  approval: boolean;
}

export type RolloutState = 'approval' | 'running' | 'paused' | 'stopped' | 'done' | 'aborted';
export type HostState = 'waiting' | 'away' | 'pinned' | 'working' | 'done' | 'failed' | 'back';
export type RolloutChange = 'approve' | 'pause' | 'go' | 'retry' | 'back' | 'abort';

export interface Rollout {
  id: number;
  release: number;
  name: string;
  version: string;
  who: string;
  rings: Ring[];
  errors: number;
  state: RolloutState;
  reason: string | null;
  sent: { ring: number; hosts: number; sent_bytes: number; unicast_bytes: number }[];
  hosts: { host: string; ring: number; state: HostState; reason: string | null }[];
}

/** `groups`: groups or tags, by which selections may select others now. */
export type Change =
  | { changed: 'host'; id: number; is_here: boolean }
  | { changed: 'run' | 'rollout' | 'delivery'; id: number }
  | { changed: 'groups' | 'all' };

export interface NewDelivery {
  select: string;
  /** Files of the manager's host. */
  paths?: string[];
  /** An upload, by its name. */
  upload?: string;
  /** A folder below the one that each host names for files. */
  into: string;
}

export type DeliveryState = 'running' | 'done' | 'aborted' | 'failed';
export type ReceiverState = 'working' | 'done' | 'failed' | 'away' | 'refused' | 'aborted';

export interface Delivery {
  id: number;
  select: string;
  who: string;
  into: string;
  files: { name: string; size_bytes: number }[];
  state: DeliveryState;
  reason: string | null;
  ordered_ms: number;
  ended_ms: number | null;
  sent_bytes: number;
  unicast_bytes: number;
  hosts: { host: string; state: ReceiverState; reason: string | null; bytes: number }[];
}

export type CheckKind = 'doctor' | 'beacon';

export interface NewCheck {
  kind: CheckKind;
  select: string;
  /** How long beacons run. */
  seconds?: number;
}

export interface Finding {
  kind: string;
  level: 'problem' | 'remark';
  seen: string;
  todo: string;
}

export interface CheckedHost {
  host: string;
  is_over: boolean;
  failure: string | null;
  findings: Finding[];
}

export type PairState = 'well' | 'lossy' | 'silent' | 'unknown';

/** What one host hears of another. */
export interface Pair {
  from: string;
  to: string;
  state: PairState;
  /** The share of packets that were lost. */
  loss: number | null;
  /** The time from sending to arrival, corrected by both clocks, and the largest error of that. */
  delay_ms: number | null;
  uncertainty_ms: number | null;
  hops: number | null;
  duplicates: number;
}

export interface Check {
  id: number;
  kind: CheckKind;
  select: string;
  who: string;
  asked_ms: number;
  seconds: number;
  group: string | null;
  is_over: boolean;
  hosts: CheckedHost[];
  pairs: Pair[];
}
