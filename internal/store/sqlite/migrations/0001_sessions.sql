-- Sessions, their runs, and what was measured and changed in them.
--
-- Times are texts of RFC 3339 in UTC with nine decimals, so that they sort.
-- Columns named *_json hold values of package model as JSON. A NULL number is
-- one that was not a number, or, as an end of an interval, not bounded.

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
