-- The hosts of a fleet, in the schema linerate_fleet. Tables and columns are those of the
-- SQLite store, which describes them.

CREATE TABLE fleet_state (
    id       BIGINT PRIMARY KEY CHECK (id = 1),
    epoch    BIGINT NOT NULL,
    pin      TEXT   NOT NULL,
    planner  TEXT   NOT NULL,
    until_s  BIGINT NOT NULL,
    setup    TEXT   NOT NULL,
    setup_epoch BIGINT NOT NULL
);

INSERT INTO fleet_state VALUES (1, 0, '', '', 0, '{}', 0);

CREATE TABLE fleet_hosts (
    id       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    epoch    BIGINT NOT NULL,
    name     TEXT COLLATE "C" NOT NULL UNIQUE,
    pin      TEXT COLLATE "C" NOT NULL UNIQUE,
    removed  BIGINT NOT NULL DEFAULT 0,
    drained  BIGINT NOT NULL DEFAULT 0,
    document TEXT   NOT NULL
);

CREATE TABLE fleet_keys (
    hash      TEXT COLLATE "C" PRIMARY KEY,
    epoch     BIGINT NOT NULL,
    access    TEXT   NOT NULL,
    expires_s BIGINT NOT NULL,
    uses      BIGINT NOT NULL
);

CREATE TABLE fleet_alerts (
    id       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    epoch    BIGINT NOT NULL,
    at_s     BIGINT NOT NULL,
    document TEXT   NOT NULL
);

CREATE TABLE fleet_conditions (
    hash     TEXT COLLATE "C" PRIMARY KEY,
    epoch    BIGINT NOT NULL,
    used_s   BIGINT NOT NULL,
    document TEXT   NOT NULL
);

CREATE TABLE fleet_leases (
    id       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    epoch    BIGINT NOT NULL,
    state    TEXT   NOT NULL,
    until_s  BIGINT NOT NULL,
    document TEXT   NOT NULL
);

CREATE INDEX fleet_leases_epoch ON fleet_leases (epoch, id);
CREATE INDEX fleet_leases_until ON fleet_leases (until_s);

-- Whatever planned them: two leases of one host never overlap. Times are below 2^32, so that
-- ranges of different resources never touch, and no extension of the server is needed for
-- the two columns.
CREATE TABLE fleet_holds (
    resource BIGINT NOT NULL CHECK (resource BETWEEN 0 AND 2147483646),
    from_s   BIGINT NOT NULL CHECK (from_s >= 0),
    until_s  BIGINT NOT NULL CHECK (until_s > from_s AND until_s < 4294967296),
    lease    BIGINT NOT NULL REFERENCES fleet_leases (id) ON DELETE CASCADE,
    EXCLUDE USING gist (int8range(resource * 4294967296 + from_s, resource * 4294967296 + until_s) WITH &&)
);

CREATE INDEX fleet_holds_lease ON fleet_holds (lease);
