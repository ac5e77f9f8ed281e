package member

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/fleet"
	"linerate/internal/host/durable"
)

// mostSpooled is how many results wait for a hub at most (p): 30 days of 6 an hour.
const mostSpooled = 4320

// spool keeps the results of leases on disk, a file each, until the hub has stored them. A lease
// is in it from before it begins: after a crash its file says that it was lost.
type spool struct {
	dir   string
	files durable.FS
	cut   map[int64]bool // leases that were being measured when an earlier process ended
}

// suffix ends the names of results.
const suffix = ".json"

// put stores the state of a lease.
func (s spool) put(l fleet.Lease) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if all, err := s.numbers(); err != nil || len(all) >= mostSpooled && !slices.Contains(all, l.ID) {
		return errors.Join(err, fmt.Errorf("%d results wait for the hub already", len(all)))
	}
	return durable.Replace(s.files, s.path(l.ID), b, 0o600)
}

func (s spool) path(lease int64) string {
	return filepath.Join(s.dir, strconv.FormatInt(lease, 10)+suffix)
}

// has reports whether a lease is in the spool.
func (s spool) has(lease int64) bool {
	_, err := s.files.Read(s.path(lease))
	return err == nil
}

// numbers returns the leases in the spool, the oldest first.
func (s spool) numbers() (all []int64, err error) {
	names, err := s.files.List(s.dir)
	for _, name := range names {
		if n, err := strconv.ParseInt(strings.TrimSuffix(name, suffix), 10, 64); err == nil && strings.HasSuffix(name, suffix) {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, err
}

// oldest returns at most so many results. It drops files that are damaged.
func (s spool) oldest(most int) ([]fleet.Lease, error) {
	numbers, err := s.numbers()
	if err != nil {
		return nil, err
	}
	var all []fleet.Lease
	for _, n := range numbers {
		var l fleet.Lease
		b, err := s.files.Read(s.path(n))
		if err == nil {
			err = json.Unmarshal(b, &l)
		}
		if l.State == fleet.Planned && s.cut[n] {
			l.State, l.Reason = fleet.Lost, "the agent ended while it measured"
		}
		switch {
		case err != nil || l.ID != n:
			_ = s.files.Remove(s.path(n))
		case l.State != fleet.Planned: // which is being measured
			all = append(all, l)
		}
		if len(all) == most {
			break
		}
	}
	return all, nil
}

// forget removes results that the hub has stored.
func (s spool) forget(leases []int64) error {
	var all error
	for _, n := range leases {
		if err := s.files.Remove(s.path(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	return all
}

// reclaim notes the leases that were being measured when an earlier process ended. It writes nothing:
// an agent starts on a full disk too.
func (s *spool) reclaim() error {
	numbers, err := s.numbers()
	s.cut = map[int64]bool{}
	for _, n := range numbers {
		s.cut[n] = true
	}
	return err
}
