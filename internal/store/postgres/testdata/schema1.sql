-- A database of schema 1 as SQL text, made once and never changed after the first release:
-- every later linerate must read it.

CREATE SCHEMA linerate;
SET search_path = linerate;
CREATE TABLE version (version BIGINT NOT NULL);
INSERT INTO version VALUES (1);

CREATE TABLE sessions (
    pk            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id            TEXT COLLATE "C" NOT NULL UNIQUE,
    kind          TEXT   NOT NULL,
    title         TEXT   NOT NULL,
    near          TEXT   NOT NULL,
    far           TEXT   NOT NULL,
    created       TEXT COLLATE "C" NOT NULL,
    ended         TEXT,
    state         TEXT   NOT NULL,
    reason        TEXT   NOT NULL,
    note          TEXT   NOT NULL,
    planned_runs  BIGINT NOT NULL,
    plan          TEXT   NOT NULL,
    document      TEXT   NOT NULL
);

CREATE INDEX sessions_created ON sessions (created, id);

CREATE TABLE runs (
    pk        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session   BIGINT NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    number    BIGINT NOT NULL,
    state     TEXT   NOT NULL,
    document  TEXT   NOT NULL,
    ends      TEXT   NOT NULL,
    UNIQUE (session, number)
);

CREATE TABLE sample_parts (
    run    BIGINT NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
    part   BIGINT NOT NULL,
    count  BIGINT NOT NULL,
    packed BYTEA  NOT NULL,
    PRIMARY KEY (run, part)
);
-- Packed as package packed describes, and not once more by the server.
ALTER TABLE sample_parts ALTER COLUMN packed SET STORAGE EXTERNAL;

CREATE TABLE changes (
    session  BIGINT NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    part     BIGINT NOT NULL,
    document TEXT   NOT NULL,
    PRIMARY KEY (session, part)
);

INSERT INTO sessions OVERRIDING SYSTEM VALUE VALUES (1, '20261121T013209-x7k2', 'run', 'window', 'local', 'root@nas', '2026-11-21T01:32:09.000000500Z', '2026-11-21T01:42:09.000000500Z', 'done', 'decided', 'before the new switch', 2, '{"settings":[{"name":"as-is"},{"name":"256K","assignments":[{"knob":"window","value":"262144"}]}],"baseline":"as-is","flow":{"engine":"tcpbulk","direction":"to","duration_ns":20000000000,"omit_ns":3000000000,"interval_ns":0},"directions":["to"],"mode":"sequential","max_blocks":1,"budget_ns":0,"margin":3,"tolerance":5,"confidence":0.95,"settle_ns":0,"cooldown_ns":0,"seed":18446744073709551615,"null_blocks":0,"order":[["as-is","256K"]]}', '{"id":"20261121T013209-x7k2","kind":"run","title":"window","command":["linerate","run","window.yaml"],"near":"local","far":"root@nas","version":"0.1.0","created":"2026-11-21T01:32:09.000000500Z","ended":"2026-11-21T01:42:09.000000500Z","state":"done","reason":"decided","hosts":[{"host":"near","name":"desk","os":"linux","arch":"amd64","kernel":{"value":"6.8.0","source":"uname"},"cpus":8,"version":"","address":"","interface":{"unknown":""},"mtu":{"unknown":""},"link_rate":{"unknown":""},"congestion":{"unknown":""},"qdisc":{"unknown":""},"knobs":{"tcp.congestion":{"value":"cubic","source":"sysctl"}}}],"wire_rate":{"value":1000000000,"source":"sysfs"},"runs":null,"findings":[{"rule":"B07","direction":"to","host":"far","limit":"receive window","evidence":"64 KiB at 0.86 ms allows 610 Mbit/s","share":{"unknown":""},"implied":{"unknown":""}}],"plateaus":[{"direction":"to","metric":"goodput","decided":true,"level":"256K","tolerance":5}],"warnings":["drifting"],"verdicts":[{"setting":"256K","baseline":"as-is","direction":"to","metric":"goodput","outcome":"better","size":"at least the margin","blocks":8,"interval":{"low":0.4,"high":0.46,"confidence":0.95,"method":"sign evidence"},"evidence":138.859354,"estimate":0.43}]}');
INSERT INTO runs OVERRIDING SYSTEM VALUE VALUES (1, 1, 1, 'valid', '{"number":1,"block":1,"attempt":1,"position":1,"setting":"as-is","flow":{"engine":"tcpbulk","direction":"to","duration_ns":20000000000,"omit_ns":3000000000,"interval_ns":0,"params":{"rate":1000}},"started":"2026-11-21T01:32:09.000000500Z","ended":"2026-11-21T01:32:34.000000500Z","state":"valid","values":[{"direction":"to","metric":"goodput","value":611200000.0}]}', '[{"host":"far","flows":[{"direction":"to","role":"receiver","bytes":1000000000,"window_ns":20000000000}],"cpu_user_ns":0,"cpu_system_ns":0,"cpu_window_ns":0,"system_busy":{"unknown":""}}]');
INSERT INTO runs OVERRIDING SYSTEM VALUE VALUES (2, 1, 2, 'valid', '{"number":2,"block":1,"attempt":1,"position":2,"setting":"256K","flow":{"engine":"tcpbulk","direction":"to","duration_ns":20000000000,"omit_ns":3000000000,"interval_ns":0,"params":{"rate":1000}},"started":"2026-11-21T01:32:09.000000500Z","ended":"2026-11-21T01:32:34.000000500Z","state":"valid","values":[{"direction":"to","metric":"goodput","value":941500000.0}]}', '[{"host":"far","flows":[{"direction":"to","role":"receiver","bytes":1000000000,"window_ns":20000000000}],"cpu_user_ns":0,"cpu_system_ns":0,"cpu_window_ns":0,"system_busy":{"unknown":""}}]');
INSERT INTO sample_parts VALUES (1, 0, 2, '\x016262644e4b2c622ac9674fcfcf4f29282d6160606064646858716d273b9829d1d8bd5da571da3b0f40000000ffff');
INSERT INTO sample_parts VALUES (2, 0, 2, '\x016262644e4b2c622ac9674fcfcf4f29282d6160606064646858716d273b982971b6b3df62e6e4790580000000ffff');
INSERT INTO changes VALUES (1, 0, '[{"run":2,"host":"far","knob":"tcp.recv_buffer_max","native":"net.ipv4.tcp_rmem","old":"4096\t131072\t65536","new":"4096\t131072\t6291456","state":"undone"}]');
