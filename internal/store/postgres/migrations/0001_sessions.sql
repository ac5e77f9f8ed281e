-- Sessions, their runs, the changes made for them, and the samples, in the schema
-- linerate. Columns are those of the SQLite store, which describes them. Texts sort by
-- their bytes (COLLATE "C"), whatever the database's language.

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
