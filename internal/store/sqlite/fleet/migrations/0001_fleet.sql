-- The hosts of a fleet, and which of them measure with each other when.
--
-- A host and a lease are documents: values of package core/fleet as JSON. The columns beside
-- them are what is searched, and what an operator sets. Times are seconds since 1970 by the
-- database's clock. No key, token or ticket is in here: hosts are known by the pins of their
-- public keys, and links by the SHA-256 of their secrets.

-- Each change has a number, the epoch, which its rows carry: a hub reads what is newer than
-- what it has read. Changing this row is the first step of each change, so that they are
-- complete in the order of their numbers.
CREATE TABLE fleet_state (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    epoch    INTEGER NOT NULL,
    pin      TEXT    NOT NULL, -- of the key that all hubs of this fleet have
    planner  TEXT    NOT NULL, -- the hub that plans,
    until_s  INTEGER NOT NULL, -- and until when, unless it says so again
    setup    TEXT    NOT NULL, -- a fleet.Setup,
    setup_epoch INTEGER NOT NULL -- and its change
) STRICT;

INSERT INTO fleet_state VALUES (1, 0, '', '', 0, '{}', 0);

CREATE TABLE fleet_hosts (
    id       INTEGER PRIMARY KEY,
    epoch    INTEGER NOT NULL,
    name     TEXT    NOT NULL UNIQUE,
    pin      TEXT    NOT NULL UNIQUE,
    removed  INTEGER NOT NULL DEFAULT 0, -- 1: its key opens nothing any more
    drained  INTEGER NOT NULL DEFAULT 0, -- it measures nothing before that time
    document TEXT    NOT NULL -- a fleet.Host
) STRICT;

CREATE TABLE fleet_keys (
    hash      TEXT    PRIMARY KEY,
    epoch     INTEGER NOT NULL,
    access    TEXT    NOT NULL,
    expires_s INTEGER NOT NULL,
    uses      INTEGER NOT NULL -- that are left
) STRICT;

CREATE TABLE fleet_alerts (
    id       INTEGER PRIMARY KEY,
    epoch    INTEGER NOT NULL,
    at_s     INTEGER NOT NULL,
    document TEXT    NOT NULL -- a fleet.Alert
) STRICT;

-- The conditions on one end of a look, once for all looks that have found them.
CREATE TABLE fleet_conditions (
    hash     TEXT PRIMARY KEY,
    epoch    INTEGER NOT NULL,
    used_s   INTEGER NOT NULL, -- at the latest, to the day
    document TEXT    NOT NULL -- a fingerprint.Print
) STRICT;

CREATE TABLE fleet_leases (
    id       INTEGER PRIMARY KEY,
    epoch    INTEGER NOT NULL,
    state    TEXT    NOT NULL,
    until_s  INTEGER NOT NULL,
    document TEXT    NOT NULL  -- a fleet.Lease
) STRICT;

CREATE INDEX fleet_leases_epoch ON fleet_leases (epoch, id);
CREATE INDEX fleet_leases_until ON fleet_leases (until_s);

-- What a lease takes for its window: resource N is the host N, which is in one run at a time;
-- those from 2^30 on are the slots of what paths share (fleet.Shared).
CREATE TABLE fleet_holds (
    resource INTEGER NOT NULL,
    from_s   INTEGER NOT NULL,
    until_s  INTEGER NOT NULL,
    lease    INTEGER NOT NULL REFERENCES fleet_leases (id) ON DELETE CASCADE,
    PRIMARY KEY (resource, from_s)
) STRICT, WITHOUT ROWID;

CREATE INDEX fleet_holds_lease ON fleet_holds (lease);
