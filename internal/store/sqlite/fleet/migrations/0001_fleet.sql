-- The hosts of a fleet, and which of them measure with each other when.
--
-- A host and a lease are documents: values of package core/fleet as JSON. The columns beside
-- them are what is searched. Times are seconds since 1970 by the hub's clock. No key, token or
-- ticket is in here: hosts are known by the pins of their public keys.

CREATE TABLE fleet_hosts (
    id       INTEGER PRIMARY KEY,
    name     TEXT    NOT NULL UNIQUE,
    pin      TEXT    NOT NULL UNIQUE,
    removed  INTEGER NOT NULL DEFAULT 0, -- 1: its key opens nothing any more
    document TEXT    NOT NULL -- a fleet.Host
) STRICT;

CREATE TABLE fleet_leases (
    id       INTEGER PRIMARY KEY,
    state    TEXT    NOT NULL,
    until_s  INTEGER NOT NULL,
    reported INTEGER NOT NULL, -- when its result came, 0 before
    document TEXT    NOT NULL  -- a fleet.Lease
) STRICT;

CREATE INDEX fleet_leases_reported ON fleet_leases (reported, id);

-- What a lease takes for its window: resource N is the host N, which is in one run at a time.
CREATE TABLE fleet_holds (
    resource INTEGER NOT NULL,
    from_s   INTEGER NOT NULL,
    until_s  INTEGER NOT NULL,
    lease    INTEGER NOT NULL REFERENCES fleet_leases (id) ON DELETE CASCADE,
    PRIMARY KEY (resource, from_s)
) STRICT, WITHOUT ROWID;

CREATE INDEX fleet_holds_lease ON fleet_holds (lease);
