package tables

import (
	"context"
	"encoding/json"
	"fmt"

	"linerate/internal/core/fleet"
)

// Fleet are the tables of a hub. They are safe for concurrent use.
type Fleet struct{ t Tables }

// NewFleet returns the tables of a hub in an open database.
func NewFleet(t Tables) Fleet { return Fleet{t} }

// page is how many leases are read at a time.
const page = 1000

// wrapped adds what was done to an error.
func wrapped(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func document[T any](ctx context.Context, tx *tx, query string, args ...any) ([]T, error) {
	return queryAll(ctx, tx, func(scan func(...any) error) (v T, err error) {
		var text string
		if err := scan(&text); err != nil {
			return v, err
		}
		return v, json.Unmarshal([]byte(text), &v)
	}, query, args...)
}

// Hosts returns all hosts in the order in which they joined.
func (f *Fleet) Hosts(ctx context.Context) (all []fleet.Host, err error) {
	err = f.t.read(ctx, func(tx *tx) error {
		all, err = queryAll(ctx, tx, func(scan func(...any) error) (h fleet.Host, err error) {
			var text string
			var removed int
			if err := scan(&text, &removed); err != nil {
				return h, err
			}
			err = json.Unmarshal([]byte(text), &h)
			h.Removed = removed > 0
			return h, err
		}, `SELECT document, removed FROM fleet_hosts ORDER BY id`)
		return err
	})
	return all, wrapped("read hosts", err)
}

// Remove marks a host as removed, and reports whether there is one of that name. Its row stays,
// so that its key stays refused.
func (f *Fleet) Remove(ctx context.Context, name string) (found bool, err error) {
	err = f.t.write(ctx, func(tx *tx) error {
		n := 0
		if err := tx.row(ctx, `SELECT count(*) FROM fleet_hosts WHERE name = $1`, name).Scan(&n); err != nil {
			return err
		}
		found = n > 0
		return tx.exec(ctx, `UPDATE fleet_hosts SET removed = 1 WHERE name = $1`, name)
	})
	return found, wrapped("remove a host", err)
}

// PutHosts stores hosts, and sets the number of each that has none.
func (f *Fleet) PutHosts(ctx context.Context, hosts ...*fleet.Host) error {
	return wrapped("store a host", f.t.write(ctx, func(tx *tx) error {
		for _, h := range hosts {
			if h.ID == 0 {
				if err := tx.row(ctx, `INSERT INTO fleet_hosts (name, pin, document) VALUES ($1, $2, '{}') RETURNING id`, h.Name, h.Pin).Scan(&h.ID); err != nil {
					return err
				}
			}
			text, err := json.Marshal(h)
			if err != nil {
				return err
			}
			if err := tx.exec(ctx, `UPDATE fleet_hosts SET name = $1, pin = $2, document = $3 WHERE id = $4`, h.Name, h.Pin, string(text), h.ID); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Plan stores new leases with what they hold, and returns them with their numbers. It leaves out
// those of which a host is taken in that window, whatever planned it.
func (f *Fleet) Plan(ctx context.Context, leases []fleet.Lease) (planned []fleet.Lease, err error) {
	err = f.t.write(ctx, func(tx *tx) error {
		planned = nil
		for _, l := range leases {
			taken := 0
			if err := tx.row(ctx, `SELECT count(*) FROM fleet_holds WHERE resource IN ($1, $2) AND until_s > $3 AND from_s < $4`, l.Near, l.Far, l.From, l.Until).Scan(&taken); err != nil {
				return err
			}
			if taken > 0 {
				continue
			}
			l.State = fleet.Planned
			if err := tx.row(ctx, `INSERT INTO fleet_leases (state, until_s, reported, document) VALUES ($1, $2, 0, '{}') RETURNING id`, l.State, l.Until).Scan(&l.ID); err != nil {
				return err
			}
			if err := putLease(ctx, tx, &l); err != nil {
				return err
			}
			for _, host := range []int64{l.Near, l.Far} {
				if err := tx.exec(ctx, `INSERT INTO fleet_holds (resource, from_s, until_s, lease) VALUES ($1, $2, $3, $4)`, host, l.From, l.Until, l.ID); err != nil {
					return err
				}
			}
			planned = append(planned, l)
		}
		return nil
	})
	return planned, wrapped("store a plan", err)
}

func putLease(ctx context.Context, tx *tx, l *fleet.Lease) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return tx.exec(ctx, `UPDATE fleet_leases SET state = $1, reported = $2, document = $3 WHERE id = $4`, l.State, l.Reported, string(text), l.ID)
}

// Finish stores the results of leases that have none, and returns those leases: a result that
// comes twice counts once. near is the host that reports; 0 is the hub itself.
func (f *Fleet) Finish(ctx context.Context, near, now int64, results []fleet.Lease) (fresh []fleet.Lease, err error) {
	err = f.t.write(ctx, func(tx *tx) error {
		fresh = nil
		for _, r := range results {
			found, err := document[fleet.Lease](ctx, tx, `SELECT document FROM fleet_leases WHERE id = $1 AND state IN ('planned', 'lost')`, r.ID)
			if err != nil {
				return err
			}
			if len(found) == 0 || near != 0 && found[0].Near != near || found[0].State == r.State {
				continue
			}
			l := found[0]
			l.State, l.Reason, l.Runs, l.Print, l.Reported = r.State, r.Reason, r.Runs, r.Print, now
			if err := putLease(ctx, tx, &l); err != nil {
				return err
			}
			fresh = append(fresh, l)
		}
		return nil
	})
	return fresh, wrapped("store results", err)
}

// Open returns the leases without a result.
func (f *Fleet) Open(ctx context.Context) (all []fleet.Lease, err error) {
	err = f.t.read(ctx, func(tx *tx) error {
		all, err = document[fleet.Lease](ctx, tx, `SELECT document FROM fleet_leases WHERE reported = 0 ORDER BY id`)
		return err
	})
	return all, wrapped("read leases", err)
}

// Ended calls each for the leases with a result since a time, in the order of the results.
func (f *Fleet) Ended(ctx context.Context, since int64, each func(*fleet.Lease)) error {
	at, id := since, int64(0)
	for {
		var all []fleet.Lease
		err := f.t.read(ctx, func(tx *tx) (err error) {
			all, err = document[fleet.Lease](ctx, tx, `SELECT document FROM fleet_leases WHERE reported > 0 AND (reported > $1 OR reported = $1 AND id > $2) ORDER BY reported, id LIMIT $3`, at, id, page)
			return err
		})
		if err != nil {
			return wrapped("read results", err)
		}
		for i := range all {
			each(&all[i])
			at, id = all[i].Reported, all[i].ID
		}
		if len(all) < page {
			return nil
		}
	}
}

// Forget removes the leases whose windows ended before a time.
func (f *Fleet) Forget(ctx context.Context, before int64) error {
	return wrapped("remove old results", f.t.write(ctx, func(tx *tx) error {
		return tx.exec(ctx, `DELETE FROM fleet_leases WHERE until_s < $1`, before)
	}))
}
