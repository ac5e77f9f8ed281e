-- Sessions, their runs, the changes made for them, and the samples.
--
-- A session and a run are documents: values of package model as JSON, which
-- docs/schema describes. The columns beside them are what lists show and filter by.
-- Times are texts of RFC 3339 in UTC with nine decimals, so that they sort.

CREATE TABLE sessions (
    pk            INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    kind          TEXT    NOT NULL,
    title         TEXT    NOT NULL,
    near          TEXT    NOT NULL,
    far           TEXT    NOT NULL,
    created       TEXT    NOT NULL,
    ended         TEXT,
    state         TEXT    NOT NULL,
    reason        TEXT    NOT NULL,
    note          TEXT    NOT NULL, -- what a person wrote beside the session
    planned_runs  INTEGER NOT NULL,
    plan          TEXT    NOT NULL, -- a model.Plan
    document      TEXT    NOT NULL  -- a model.Session without its plan, note, runs and changes
) STRICT;

CREATE INDEX sessions_created ON sessions (created, id);

CREATE TABLE runs (
    pk        INTEGER PRIMARY KEY,
    session   INTEGER NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    number    INTEGER NOT NULL,
    state     TEXT    NOT NULL,
    document  TEXT    NOT NULL, -- a model.Run without its ends
    ends      TEXT    NOT NULL, -- a list of model.EndReport
    UNIQUE (session, number)
) STRICT;

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

-- What was changed on the hosts, and what became of it. Each run appends its own.
CREATE TABLE changes (
    session  INTEGER NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    part     INTEGER NOT NULL, -- 0, 1 …
    document TEXT    NOT NULL, -- a list of model.Change
    PRIMARY KEY (session, part)
) STRICT, WITHOUT ROWID;
