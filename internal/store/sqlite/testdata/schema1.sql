-- A file of schema 1 as SQL text, made once and never changed after the first release:
-- every later linerate must read it.

CREATE TABLE sessions (
    pk            INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    kind          TEXT    NOT NULL,
    title         TEXT    NOT NULL,
    near          TEXT    NOT NULL,
    far           TEXT    NOT NULL,
    version       TEXT    NOT NULL,
    created       TEXT    NOT NULL,
    ended         TEXT,
    state         TEXT    NOT NULL,
    reason        TEXT    NOT NULL,
    planned_runs  INTEGER NOT NULL, -- that the plan's order holds
    wire_rate     REAL,             -- bit/s; why and whence: wire_rate_json
    wire_rate_json TEXT   NOT NULL,
    command_json  TEXT    NOT NULL,
    plan_json     TEXT    NOT NULL,
    hosts_json    TEXT    NOT NULL,
    findings_json TEXT    NOT NULL,
    plateaus_json TEXT    NOT NULL,
    warnings_json TEXT    NOT NULL,
    noise_json    TEXT    NOT NULL, -- what the baseline compared with itself showed
    check_json    TEXT    NOT NULL, -- what a check found beside its runs, and what it was asked
    tuning_json   TEXT    NOT NULL, -- the course of a search, one object that package tune reads; empty for others
    note          TEXT    NOT NULL  -- what a person wrote beside the session
) STRICT;

CREATE INDEX sessions_created ON sessions (created, id);

CREATE TABLE runs (
    pk            INTEGER PRIMARY KEY,
    session       INTEGER NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    number        INTEGER NOT NULL,
    block         INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    position      INTEGER NOT NULL,
    setting       TEXT    NOT NULL,
    engine        TEXT    NOT NULL,
    direction     TEXT    NOT NULL, -- of the flow
    started       TEXT,
    ended         TEXT,
    state         TEXT    NOT NULL,
    reason        TEXT    NOT NULL,
    lost_contact  INTEGER NOT NULL,
    flow_json     TEXT    NOT NULL,
    ends_json     TEXT    NOT NULL,
    warnings_json TEXT    NOT NULL,
    UNIQUE (session, number)
) STRICT;

-- A run's one number for one metric and direction.
CREATE TABLE run_values (
    run       INTEGER NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
    seq       INTEGER NOT NULL,
    direction TEXT    NOT NULL,
    metric    TEXT    NOT NULL,
    value     REAL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

-- The samples of a run are packed, so many a part, in the form that package packed
-- describes: an hour at one a second costs below 1 MB. linerate report --format csv and
-- linerate show --json=full --samples have them as text.
CREATE TABLE sample_parts (
    run    INTEGER NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
    part   INTEGER NOT NULL, -- 0, 1 …
    count  INTEGER NOT NULL, -- samples in it
    packed BLOB    NOT NULL,
    PRIMARY KEY (run, part)
) STRICT;

-- One knob of one host changed, and what became of it.
CREATE TABLE changes (
    session   INTEGER NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    seq       INTEGER NOT NULL,
    run       INTEGER NOT NULL, -- number of the run that it was made for
    host      TEXT    NOT NULL,
    knob      TEXT    NOT NULL,
    native    TEXT    NOT NULL,
    old_value TEXT    NOT NULL,
    new_value TEXT    NOT NULL,
    state     TEXT    NOT NULL,
    detail    TEXT    NOT NULL,
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

-- What a session says of one setting against the baseline. Estimates and
-- intervals are log ratios; positive is good.
CREATE TABLE verdicts (
    session       INTEGER NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    seq           INTEGER NOT NULL,
    setting       TEXT    NOT NULL,
    baseline      TEXT    NOT NULL,
    direction     TEXT    NOT NULL,
    metric        TEXT    NOT NULL,
    outcome       TEXT    NOT NULL,
    size          TEXT    NOT NULL,
    blocks        INTEGER NOT NULL,
    estimate      REAL,
    low           REAL,
    high          REAL,
    confidence    REAL    NOT NULL,
    method        TEXT    NOT NULL,
    family_json   TEXT,
    p             REAL,             -- adjusted; fixed mode only
    evidence      REAL,             -- largest E; sequential mode only
    more_blocks   INTEGER NOT NULL,
    reason        TEXT    NOT NULL,
    is_twin       INTEGER NOT NULL,
    warnings_json TEXT    NOT NULL,
    guard_json    TEXT,             -- how a guard of the plan stands for the setting; NULL where it is none
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

INSERT INTO sessions VALUES (1, '20261121T013209-x7k2', 'run', 'window', 'local', 'root@nas', '0.1.0', '2026-11-21T01:32:09.000000500Z', '2026-11-21T01:42:09.000000500Z', 'done', 'decided', 2, 1000000000.0, '{"value":1000000000,"source":"sysfs"}', '["linerate","run","window.yaml"]', '{"settings":[{"name":"as-is"},{"name":"256K","assignments":[{"knob":"window","value":"262144"}]}],"baseline":"as-is","flow":{"engine":"tcpbulk","direction":"to","duration_ns":20000000000,"omit_ns":3000000000,"interval_ns":0},"directions":["to"],"mode":"sequential","max_blocks":1,"budget_ns":0,"margin":3,"tolerance":5,"confidence":0.95,"settle_ns":0,"cooldown_ns":0,"seed":18446744073709551615,"null_blocks":0,"order":[["as-is","256K"]]}', '[{"host":"near","name":"desk","os":"linux","arch":"amd64","kernel":{"value":"6.8.0","source":"uname"},"cpus":8,"version":"","address":"","interface":{"unknown":""},"mtu":{"unknown":""},"link_rate":{"unknown":""},"congestion":{"unknown":""},"qdisc":{"unknown":""},"knobs":{"tcp.congestion":{"value":"cubic","source":"sysctl"}}}]', '[{"rule":"B07","direction":"to","host":"far","limit":"receive window","evidence":"64 KiB at 0.86 ms allows 610 Mbit/s","share":{"unknown":""},"implied":{"unknown":""}}]', '[{"direction":"to","metric":"goodput","decided":true,"level":"256K","tolerance":5}]', '["drifting"]', 'null', 'null', '', 'before the new switch');
INSERT INTO runs VALUES (1, 1, 1, 1, 1, 1, 'as-is', 'tcpbulk', 'to', '2026-11-21T01:32:09.000000500Z', '2026-11-21T01:32:34.000000500Z', 'valid', '', 0, '{"engine":"tcpbulk","direction":"to","duration_ns":20000000000,"omit_ns":3000000000,"interval_ns":0,"params":{"rate":1000}}', '[{"host":"far","flows":[{"direction":"to","role":"receiver","bytes":1000000000,"window_ns":20000000000}],"cpu_user_ns":0,"cpu_system_ns":0,"cpu_window_ns":0,"system_busy":{"unknown":""}}]', 'null');
INSERT INTO runs VALUES (2, 1, 2, 1, 1, 2, '256K', 'tcpbulk', 'to', '2026-11-21T01:32:09.000000500Z', '2026-11-21T01:32:34.000000500Z', 'valid', '', 0, '{"engine":"tcpbulk","direction":"to","duration_ns":20000000000,"omit_ns":3000000000,"interval_ns":0,"params":{"rate":1000}}', '[{"host":"far","flows":[{"direction":"to","role":"receiver","bytes":1000000000,"window_ns":20000000000}],"cpu_user_ns":0,"cpu_system_ns":0,"cpu_window_ns":0,"system_busy":{"unknown":""}}]', 'null');
INSERT INTO run_values VALUES (1, 0, 'to', 'goodput', 611200000.0);
INSERT INTO run_values VALUES (2, 0, 'to', 'goodput', 941500000.0);
INSERT INTO sample_parts VALUES (1, 0, 2, X'016262644e4b2c622ac9674fcfcf4f29282d6160606064646858716d273b9829d1d8bd5da571da3b0f40000000ffff');
INSERT INTO sample_parts VALUES (2, 0, 2, X'016262644e4b2c622ac9674fcfcf4f29282d6160606064646858716d273b982971b6b3df62e6e4790580000000ffff');
INSERT INTO changes VALUES (1, 0, 2, 'far', 'tcp.recv_buffer_max', 'net.ipv4.tcp_rmem', '4096	131072	65536', '4096	131072	6291456', 'undone', '');
INSERT INTO verdicts VALUES (1, 0, '256K', 'as-is', 'to', 'goodput', 'better', 'at least the margin', 8, 0.43, 0.4, 0.46, 0.95, 'sign evidence', NULL, NULL, 138.859354, 0, '', 0, 'null', NULL);
PRAGMA application_id = 1819177588;
PRAGMA user_version = 1;
