-- Sessions, their runs, and what was measured and changed in them, in the schema
-- linerate. Columns are those of the SQLite store, which describes them. Texts sort by
-- their bytes (COLLATE "C"), whatever the database's language.

CREATE TABLE sessions (
    pk             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id             TEXT COLLATE "C" NOT NULL UNIQUE,
    kind           TEXT   NOT NULL,
    title          TEXT   NOT NULL,
    near           TEXT   NOT NULL,
    far            TEXT   NOT NULL,
    version        TEXT   NOT NULL,
    created        TEXT COLLATE "C" NOT NULL,
    ended          TEXT,
    state          TEXT   NOT NULL,
    reason         TEXT   NOT NULL,
    planned_runs   BIGINT NOT NULL,
    wire_rate      DOUBLE PRECISION,
    wire_rate_json TEXT   NOT NULL,
    command_json   TEXT   NOT NULL,
    plan_json      TEXT   NOT NULL,
    hosts_json     TEXT   NOT NULL,
    findings_json  TEXT   NOT NULL,
    plateaus_json  TEXT   NOT NULL,
    warnings_json  TEXT   NOT NULL,
    noise_json     TEXT   NOT NULL,
    check_json     TEXT   NOT NULL,
    tuning_json    TEXT   NOT NULL,
    note           TEXT   NOT NULL
);

CREATE INDEX sessions_created ON sessions (created, id);

CREATE TABLE runs (
    pk            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session       BIGINT  NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    number        BIGINT  NOT NULL,
    block         BIGINT  NOT NULL,
    attempt       BIGINT  NOT NULL,
    position      BIGINT  NOT NULL,
    setting       TEXT    NOT NULL,
    engine        TEXT    NOT NULL,
    direction     TEXT    NOT NULL,
    started       TEXT,
    ended         TEXT,
    state         TEXT    NOT NULL,
    reason        TEXT    NOT NULL,
    lost_contact  BOOLEAN NOT NULL,
    flow_json     TEXT    NOT NULL,
    ends_json     TEXT    NOT NULL,
    warnings_json TEXT    NOT NULL,
    UNIQUE (session, number)
);

CREATE TABLE run_values (
    run       BIGINT NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
    seq       BIGINT NOT NULL,
    direction TEXT   NOT NULL,
    metric    TEXT   NOT NULL,
    value     DOUBLE PRECISION,
    PRIMARY KEY (run, seq)
);

-- Packed as package packed describes, and not once more by the server.
CREATE TABLE sample_parts (
    run    BIGINT NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
    part   BIGINT NOT NULL,
    count  BIGINT NOT NULL,
    packed BYTEA  NOT NULL,
    PRIMARY KEY (run, part)
);
ALTER TABLE sample_parts ALTER COLUMN packed SET STORAGE EXTERNAL;

CREATE TABLE changes (
    session   BIGINT NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    seq       BIGINT NOT NULL,
    run       BIGINT NOT NULL,
    host      TEXT   NOT NULL,
    knob      TEXT   NOT NULL,
    native    TEXT   NOT NULL,
    old_value TEXT   NOT NULL,
    new_value TEXT   NOT NULL,
    state     TEXT   NOT NULL,
    detail    TEXT   NOT NULL,
    PRIMARY KEY (session, seq)
);

CREATE TABLE verdicts (
    session       BIGINT NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    seq           BIGINT NOT NULL,
    setting       TEXT   NOT NULL,
    baseline      TEXT   NOT NULL,
    direction     TEXT   NOT NULL,
    metric        TEXT   NOT NULL,
    outcome       TEXT   NOT NULL,
    size          TEXT   NOT NULL,
    blocks        BIGINT NOT NULL,
    estimate      DOUBLE PRECISION,
    low           DOUBLE PRECISION,
    high          DOUBLE PRECISION,
    confidence    DOUBLE PRECISION NOT NULL,
    method        TEXT   NOT NULL,
    family_json   TEXT,
    p             DOUBLE PRECISION,
    evidence      DOUBLE PRECISION,
    more_blocks   BIGINT NOT NULL,
    reason        TEXT   NOT NULL,
    is_twin       BOOLEAN NOT NULL,
    warnings_json TEXT   NOT NULL,
    guard_json    TEXT,
    PRIMARY KEY (session, seq)
);
