-- The tables of version 4, as treecast made them before rows and parameters, with one run.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    experiment TEXT NOT NULL,
    topology TEXT NOT NULL,
    clients INTEGER NOT NULL,
    router_levels INTEGER NOT NULL,
    link_bps INTEGER,
    delivery TEXT NOT NULL,
    schedule TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    repeat INTEGER NOT NULL,
    seed INTEGER NOT NULL,
    command TEXT NOT NULL,
    hostname TEXT NOT NULL,
    kernel TEXT NOT NULL,
    cpu_model TEXT NOT NULL,
    cpus INTEGER NOT NULL,
    memory_bytes INTEGER NOT NULL,
    treecast_version TEXT NOT NULL,
    started_unix_ns INTEGER NOT NULL,
    status TEXT NOT NULL,
    duration_ns INTEGER NOT NULL DEFAULT 0,
    saturated TEXT,
    owner TEXT NOT NULL
) STRICT;
CREATE TABLE nodes (
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    UNIQUE (run_id, name)
) STRICT;
CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    node_id INTEGER NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    UNIQUE (node_id, name)
) STRICT;
CREATE TABLE samples (
    series_id INTEGER NOT NULL REFERENCES series (id) ON DELETE CASCADE,
    at_ns INTEGER NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (series_id, at_ns)
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    node_id INTEGER REFERENCES nodes (id) ON DELETE CASCADE,
    at_ns INTEGER NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX events_of_run ON events (run_id, at_ns);
CREATE TABLE transfers (
    node_id INTEGER PRIMARY KEY REFERENCES nodes (id) ON DELETE CASCADE,
    started_ns INTEGER NOT NULL,
    finished_ns INTEGER,
    received_bytes INTEGER NOT NULL,
    verified INTEGER NOT NULL,
    failure TEXT,
    retransmitted_bytes INTEGER NOT NULL,
    duplicate_bytes INTEGER NOT NULL,
    dropped_packets INTEGER NOT NULL,
    cpu_user_ns INTEGER NOT NULL,
    cpu_system_ns INTEGER NOT NULL,
    peak_memory_bytes INTEGER NOT NULL
) STRICT;

CREATE TABLE feeds (
    run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    info TEXT NOT NULL
) STRICT;
CREATE TABLE objects (
    node_id INTEGER NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    taken_ns INTEGER NOT NULL,
    PRIMARY KEY (node_id, name)
) STRICT, WITHOUT ROWID;
ALTER TABLE runs ADD COLUMN server_bps INTEGER;

CREATE TABLE sharings (
    run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    info TEXT NOT NULL
) STRICT;

CREATE TABLE use_cases (
    run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    info TEXT NOT NULL
) STRICT;
INSERT INTO runs (experiment, topology, clients, router_levels, delivery, schedule, size_bytes, repeat, seed, command,
    hostname, kernel, cpu_model, cpus, memory_bytes, treecast_version, started_unix_ns, status, owner)
VALUES ('old', 'lan', 1, 0, 'nack', 'immediate', 1, 0, 1, '', '', '', '', 1, 1, '', 1, 'complete', '');
INSERT INTO nodes VALUES (1, 1, 'server', 'server');
INSERT INTO series VALUES (1, 1, 'interface/eth0/tx_bytes');
INSERT INTO samples VALUES (1, 1000000000, 9007199254740993);
PRAGMA user_version = 4;
