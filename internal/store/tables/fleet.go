package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"linerate/internal/core/fleet"
)

// Fleet are the tables of a hub. They are safe for concurrent use, also by several hubs.
type Fleet struct {
	t     Tables
	clock string
}

// NewFleet returns the tables of a hub in an open database. clock is a query for its time in
// microseconds since 1970; "" is the time of this machine.
func NewFleet(t Tables, clock string) Fleet { return Fleet{t, clock} }

const (
	page   = 1000 // leases that are read at a time
	alerts = 100  // the newest that are read
)

// wrapped adds what was done to an error.
func wrapped(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// change runs f in a transaction with the number of this change.
func (f *Fleet) change(ctx context.Context, what string, do func(tx *tx, epoch int64) error) error {
	return wrapped(what, f.t.write(ctx, func(tx *tx) error {
		var epoch int64
		if err := tx.row(ctx, `UPDATE fleet_state SET epoch = epoch + 1 RETURNING epoch`).Scan(&epoch); err != nil {
			return err
		}
		return do(tx, epoch)
	}))
}

// did reports whether a statement with RETURNING 1 changed a row.
func did(ctx context.Context, tx *tx, query string, args ...any) (bool, error) {
	var one int
	err := tx.row(ctx, query, args...).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// Clock returns the time of the database, which all hubs of a fleet share.
func (f *Fleet) Clock(ctx context.Context) (at time.Time, err error) {
	if f.clock == "" {
		return time.Now(), nil
	}
	var us int64
	err = f.t.read(ctx, func(tx *tx) error { return tx.row(ctx, f.clock).Scan(&us) })
	return time.UnixMicro(us), wrapped("read the clock of the database", err)
}

// Claim returns the pin of the key of the fleet's hubs. It is that of the first hub; with anew
// it becomes pin.
func (f *Fleet) Claim(ctx context.Context, pin string, anew bool) (is string, err error) {
	err = f.change(ctx, "read whose fleet this is", func(tx *tx, _ int64) error {
		if err := tx.row(ctx, `SELECT pin FROM fleet_state`).Scan(&is); err != nil || is != "" && !anew {
			return err
		}
		is = pin
		return tx.exec(ctx, `UPDATE fleet_state SET pin = $1`, pin)
	})
	return is, err
}

// Lead makes a hub the planner until a time, and reports false if another one is the planner now.
// With an end that has passed it lets go.
func (f *Fleet) Lead(ctx context.Context, hub string, now, until int64) (leads bool, err error) {
	err = f.t.write(ctx, func(tx *tx) error {
		leads, err = did(ctx, tx, `UPDATE fleet_state SET planner = $1, until_s = $2 WHERE planner = $1 OR until_s < $3 RETURNING 1`, hub, until, now)
		return err
	})
	return leads && until > now, wrapped("become the planner", err)
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

// News returns what was stored since a mark, of leases at most a page.
func (f *Fleet) News(ctx context.Context, since fleet.Mark) (n fleet.News, err error) {
	err = f.t.read(ctx, func(tx *tx) error {
		n = fleet.News{To: fleet.Mark{Lease: math.MaxInt64}}
		var setup string
		var of int64 // its change
		err := tx.row(ctx, `SELECT epoch, setup, setup_epoch FROM fleet_state`).Scan(&n.To.Epoch, &setup, &of)
		if n.To.Rest = n.To.Epoch; err != nil || n.To == since {
			return err
		}
		if of > since.Rest {
			n.Setup = new(fleet.Setup)
			if err := json.Unmarshal([]byte(setup), n.Setup); err != nil {
				return err
			}
		}
		if n.Hosts, err = queryAll(ctx, tx, func(scan func(...any) error) (h fleet.Host, err error) {
			var text string
			var removed int
			var drained int64
			if err := scan(&text, &removed, &drained); err != nil {
				return h, err
			}
			err = json.Unmarshal([]byte(text), &h)
			h.Removed, h.Drained = removed > 0, drained
			return h, err
		}, `SELECT document, removed, drained FROM fleet_hosts WHERE epoch > $1 ORDER BY id`, since.Rest); err != nil {
			return err
		}
		if n.Keys, err = queryAll(ctx, tx, func(scan func(...any) error) (k fleet.Key, err error) {
			return k, scan(&k.Hash, &k.Right, &k.Expires, &k.Left)
		}, `SELECT hash, access, expires_s, uses FROM fleet_keys WHERE epoch > $1`, since.Rest); err != nil {
			return err
		}
		if n.Halves, err = queryAll(ctx, tx, func(scan func(...any) error) (h fleet.Half, err error) {
			var text string
			if err := scan(&h.Hash, &text); err != nil {
				return h, err
			}
			return h, json.Unmarshal([]byte(text), &h.Print)
		}, `SELECT hash, document FROM fleet_conditions WHERE epoch > $1`, since.Rest); err != nil {
			return err
		}
		n.Alerts, err = queryAll(ctx, tx, func(scan func(...any) error) (a fleet.Alert, err error) {
			var text string
			if err := scan(&a.ID, &text); err != nil {
				return a, err
			}
			return a, json.Unmarshal([]byte(text), &a)
		}, `SELECT id, document FROM fleet_alerts WHERE epoch > $1 ORDER BY id DESC LIMIT $2`, since.Rest, alerts)
		if err != nil {
			return err
		}
		slices.Reverse(n.Alerts)
		var marks []fleet.Mark
		n.Leases, err = queryAll(ctx, tx, func(scan func(...any) error) (l fleet.Lease, err error) {
			var m fleet.Mark
			var text string
			if err := scan(&m.Epoch, &m.Lease, &text); err != nil {
				return l, err
			}
			marks = append(marks, m)
			return l, json.Unmarshal([]byte(text), &l)
		}, `SELECT epoch, id, document FROM fleet_leases WHERE epoch > $1 OR epoch = $1 AND id > $2 ORDER BY epoch, id LIMIT $3`, since.Epoch, since.Lease, page)
		if n.More = len(marks) == page; n.More {
			n.To.Epoch, n.To.Lease = marks[page-1].Epoch, marks[page-1].Lease
		}
		return err
	})
	return n, wrapped("read the fleet", err)
}

// Join stores a new host and sets its number; it uses a key once. The error wraps fleet.ErrKey if the
// key lets no more hosts join.
func (f *Fleet) Join(ctx context.Context, h *fleet.Host, key string, now int64) error {
	return f.change(ctx, "store a host", func(tx *tx, epoch int64) error {
		ok, err := did(ctx, tx, `UPDATE fleet_keys SET uses = uses - 1, epoch = $1 WHERE hash = $2 AND access = $3 AND uses > 0 AND expires_s > $4 RETURNING 1`, epoch, key, fleet.Joins, now)
		if err != nil {
			return err
		}
		if !ok {
			return fleet.ErrKey
		}
		if err := tx.row(ctx, `INSERT INTO fleet_hosts (epoch, name, pin, document) VALUES ($1, $2, $3, '{}') RETURNING id`, epoch, h.Name, h.Pin).Scan(&h.ID); err != nil {
			return err
		}
		return putHost(ctx, tx, epoch, h)
	})
}

func putHost(ctx context.Context, tx *tx, epoch int64, h *fleet.Host) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return tx.exec(ctx, `UPDATE fleet_hosts SET epoch = $1, document = $2 WHERE id = $3`, epoch, string(text), h.ID)
}

// PutHosts stores what hosts say of themselves.
func (f *Fleet) PutHosts(ctx context.Context, hosts ...*fleet.Host) error {
	return f.change(ctx, "store a host", func(tx *tx, epoch int64) error {
		for _, h := range hosts {
			if err := putHost(ctx, tx, epoch, h); err != nil {
				return err
			}
		}
		return nil
	})
}

// Remove marks a host as removed. Its row stays, so that its key stays refused.
func (f *Fleet) Remove(ctx context.Context, host int64) error {
	return f.change(ctx, "remove a host", func(tx *tx, epoch int64) error {
		return tx.exec(ctx, `UPDATE fleet_hosts SET epoch = $1, removed = 1 WHERE id = $2`, epoch, host)
	})
}

// Drain has a host measure nothing before a time.
func (f *Fleet) Drain(ctx context.Context, host, until int64) error {
	return f.change(ctx, "drain a host", func(tx *tx, epoch int64) error {
		return tx.exec(ctx, `UPDATE fleet_hosts SET epoch = $1, drained = $2 WHERE id = $3`, epoch, until, host)
	})
}

// Apply stores a setup in the place of the one before.
func (f *Fleet) Apply(ctx context.Context, s *fleet.Setup) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return f.change(ctx, "store a setup", func(tx *tx, epoch int64) error {
		return tx.exec(ctx, `UPDATE fleet_state SET setup = $1, setup_epoch = $2`, string(text), epoch)
	})
}

// PutKey stores a new key, and leaves one that is there as it is: two hubs may start with one link.
func (f *Fleet) PutKey(ctx context.Context, k fleet.Key) error {
	return f.change(ctx, "store a key", func(tx *tx, epoch int64) error {
		return tx.exec(ctx, `INSERT INTO fleet_keys (hash, epoch, access, expires_s, uses) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (hash) DO NOTHING`, k.Hash, epoch, k.Right, k.Expires, k.Left)
	})
}

// PutAlert stores a new alert, and sets its number.
func (f *Fleet) PutAlert(ctx context.Context, a *fleet.Alert) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return f.change(ctx, "store an alert", func(tx *tx, epoch int64) error {
		return tx.row(ctx, `INSERT INTO fleet_alerts (epoch, at_s, document) VALUES ($1, $2, $3) RETURNING id`, epoch, a.At.Unix(), string(text)).Scan(&a.ID)
	})
}

// Revoke revokes all keys.
func (f *Fleet) Revoke(ctx context.Context) error {
	return f.change(ctx, "revoke keys", func(tx *tx, epoch int64) error {
		return tx.exec(ctx, `UPDATE fleet_keys SET epoch = $1, uses = 0 WHERE uses > 0`, epoch)
	})
}

// Plan stores new leases with what they hold, and returns how many. It leaves out those of which a
// host is taken in that window, whatever planned it, or all slots of something else that they use.
func (f *Fleet) Plan(ctx context.Context, leases []fleet.Lease) (planned int, err error) {
	err = f.change(ctx, "store a plan", func(tx *tx, epoch int64) error {
		planned = 0
		for _, l := range leases {
			holds, err := free(ctx, tx, &l)
			if err != nil {
				return err
			}
			if holds == nil {
				continue
			}
			l.State = fleet.Planned
			if err := tx.row(ctx, `INSERT INTO fleet_leases (epoch, state, until_s, document) VALUES ($1, $2, $3, '{}') RETURNING id`, epoch, l.State, l.Until).Scan(&l.ID); err != nil {
				return err
			}
			if err := putLease(ctx, tx, epoch, &l); err != nil {
				return err
			}
			for _, resource := range holds {
				if err := tx.exec(ctx, `INSERT INTO fleet_holds (resource, from_s, until_s, lease) VALUES ($1, $2, $3, $4)`, resource, l.From, l.Until, l.ID); err != nil {
					return err
				}
			}
			planned++
		}
		return nil
	})
	return planned, err
}

// free returns the resources that a lease is to hold in its window, nil if one of them is taken.
func free(ctx context.Context, tx *tx, l *fleet.Lease) (holds []int64, err error) {
	for _, u := range append([]fleet.Use{{Resource: l.Near, Slots: 1}, {Resource: l.Far, Slots: 1}}, l.Uses...) {
		taken, err := queryAll(ctx, tx, func(scan func(...any) error) (r int64, err error) { return r, scan(&r) },
			`SELECT DISTINCT resource FROM fleet_holds WHERE resource >= $1 AND resource < $2 AND until_s > $3 AND from_s < $4 ORDER BY resource`, u.Resource, u.Resource+u.Slots, l.From, l.Until)
		if err != nil {
			return nil, err
		}
		slot := u.Resource
		for _, t := range taken {
			if t == slot {
				slot++
			}
		}
		if slot == u.Resource+u.Slots {
			return nil, nil
		}
		holds = append(holds, slot)
	}
	return holds, nil
}

func putLease(ctx context.Context, tx *tx, epoch int64, l *fleet.Lease) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return tx.exec(ctx, `UPDATE fleet_leases SET epoch = $1, state = $2, document = $3 WHERE id = $4`, epoch, l.State, string(text), l.ID)
}

// Finish stores the results of leases that have none, and returns their numbers: a result that
// comes twice counts once. near is the host that reports; 0 is a hub itself.
func (f *Fleet) Finish(ctx context.Context, near, now int64, results []fleet.Lease) (fresh []int64, err error) {
	err = f.change(ctx, "store results", func(tx *tx, epoch int64) error {
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
			l.State, l.Reason, l.Runs, l.Reported = r.State, r.Reason, r.Runs, now
			if l.Kept, err = putConditions(ctx, tx, epoch, now, &r); err != nil {
				return err
			}
			if err := putLease(ctx, tx, epoch, &l); err != nil {
				return err
			}
			fresh = append(fresh, l.ID)
		}
		return nil
	})
	return fresh, err
}

const day = 24 * 3600

// putConditions stores the conditions of a look, those of an end once for all looks, and when they
// were used last, to the day.
func putConditions(ctx context.Context, tx *tx, epoch, now int64, l *fleet.Lease) (*fleet.Conditions, error) {
	c, halves := l.Split()
	for _, h := range halves {
		text, err := json.Marshal(h.Print)
		if err != nil {
			return nil, err
		}
		if err := tx.exec(ctx, `INSERT INTO fleet_conditions (hash, epoch, used_s, document) VALUES ($1, $2, $3, $4)
			ON CONFLICT (hash) DO UPDATE SET used_s = excluded.used_s WHERE fleet_conditions.used_s < excluded.used_s - $5`, h.Hash, epoch, now, string(text), day); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Forget removes alerts of before a time, the leases and keys that ended before it, and conditions that
// no other lease has.
func (f *Fleet) Forget(ctx context.Context, before int64) error {
	return wrapped("remove old results", f.t.write(ctx, func(tx *tx) error {
		return errors.Join(tx.exec(ctx, `DELETE FROM fleet_leases WHERE until_s < $1`, before), tx.exec(ctx, `DELETE FROM fleet_keys WHERE expires_s < $1`, before),
			tx.exec(ctx, `DELETE FROM fleet_alerts WHERE at_s < $1`, before), tx.exec(ctx, `DELETE FROM fleet_conditions WHERE used_s < $1`, before-2*day))
	}))
}
