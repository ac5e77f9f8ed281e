package fleet

import (
	"errors"
	"fmt"
	"hash/fnv"
	"path"
	"slices"

	"linerate/internal/core/plain"
)

// Setup is what an operator has said about the hosts of a fleet. It only takes away from what the
// owners of hosts allow.
type Setup struct {
	Groups []Group  `json:"groups,omitempty" yaml:"groups"`
	Shared []Shared `json:"shared,omitempty" yaml:"shared"`
}

// Group lowers the limits of the hosts whose names match one of its patterns.
type Group struct {
	Hosts     []string `json:"hosts" yaml:"hosts"`                     // patterns of package path: fra-*
	MaxRate   string   `json:"max_rate,omitempty" yaml:"max_rate"`     // of TCP, each way: 100mbit
	MaxShare  string   `json:"max_share,omitempty" yaml:"max_share"`   // of each hour: 5%
	ProbeOnly bool     `json:"probe_only,omitempty" yaml:"probe_only"` // round trip and loss alone
}

// Shared is a link or another thing that several paths share, so that they would disturb each
// other: at most AtOnce of them measure at a time.
type Shared struct {
	Name    string   `json:"name" yaml:"name"`
	Between []string `json:"between,omitempty" yaml:"between"` // two patterns: paths between such hosts
	Around  []string `json:"around,omitempty" yaml:"around"`   // patterns: paths from such a host to any other one
	AtOnce  int      `json:"at_once" yaml:"at_once"`
}

// Bounds of a setup.
const (
	mostParts = 500
	mostSlots = 1000
	// firstShared is the number of the first resource that is no host.
	firstShared = 1 << 30
)

// matches reports whether a name matches one of some patterns.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, name); return ok })
}

// Has reports whether a host is in a group.
func (g Group) Has(name string) bool { return matches(g.Hosts, name) }

// limits returns the limits of a group.
func (g Group) limits() (l Limits, err error) {
	l = Limits{Share: 1, ProbeOnly: g.ProbeOnly}
	if g.MaxRate != "" {
		if l.Rate, err = ParseRate(g.MaxRate); err != nil {
			return l, fmt.Errorf("max_rate: %w", err)
		}
	}
	if g.MaxShare != "" {
		if l.Share, err = ParseShare(g.MaxShare); err != nil {
			return l, fmt.Errorf("max_share: %w", err)
		}
	}
	return l, nil
}

// Limits returns the limits of a host: those of its owner, lowered by the groups that it is in.
func (s *Setup) Limits(h *Host) Limits {
	l := h.Limits
	for _, g := range s.Groups {
		if more, err := g.limits(); err == nil && g.Has(h.Name) {
			if more.Rate > 0 && (l.Rate == 0 || more.Rate < l.Rate) {
				l.Rate = more.Rate
			}
			l.Share, l.ProbeOnly = min(l.Share, more.Share), l.ProbeOnly || more.ProbeOnly
		}
	}
	return l
}

// Ends reports at which ends of a path that uses s a host can be: with one host at each end, the
// path uses it.
func (s Shared) Ends(name string) (one, other bool) {
	if len(s.Around) > 0 {
		one = matches(s.Around, name)
		return one, !one
	}
	return matches(s.Between[:1], name), matches(s.Between[1:], name)
}

// Has reports whether the path between two hosts uses s.
func (s Shared) Has(a, b string) bool {
	a1, a2 := s.Ends(a)
	b1, b2 := s.Ends(b)
	return a1 && b2 || a2 && b1
}

// Uses returns what a run of two hosts takes beside them.
func (s *Setup) Uses(a, b string) (all []Use) {
	for _, one := range s.Shared {
		if one.Has(a, b) {
			all = append(all, one.Use())
		}
	}
	return all
}

// Use is what a lease takes beside its hosts: one of the Slots resources from Resource on.
type Use struct {
	Resource int64 `json:"resource"`
	Slots    int64 `json:"slots"`
}

// Use returns what a lease takes of s. Its numbers follow from the name alone.
func (s Shared) Use() Use {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.Name)) // it never fails
	return Use{firstShared + int64(h.Sum32()%1_000_000)*mostSlots, int64(s.AtOnce)}
}

// Validate returns an error for a setup that cannot be meant.
func (s *Setup) Validate() error {
	if len(s.Groups)+len(s.Shared) > mostParts {
		return fmt.Errorf("%d groups and shared links are more than %d", len(s.Groups)+len(s.Shared), mostParts)
	}
	for i, g := range s.Groups {
		_, err := g.limits()
		if err == nil {
			err = patterns(g.Hosts)
		}
		if err != nil {
			return fmt.Errorf("groups, entry %d: %w", i+1, err)
		}
	}
	numbers := map[int64]string{}
	for i, one := range s.Shared {
		err := patterns(slices.Concat(one.Between, one.Around))
		other, taken := numbers[one.Use().Resource]
		switch {
		case one.Name == "" || one.Name != plain.Brief(one.Name, longestName):
			err = fmt.Errorf("it needs a name of at most %d bytes in one line", longestName)
		case one.AtOnce < 1 || one.AtOnce > mostSlots:
			err = fmt.Errorf("at_once of %d is not between 1 and %d", one.AtOnce, mostSlots)
		case (len(one.Between) > 0) == (len(one.Around) > 0) || len(one.Between) > 0 && len(one.Between) != 2:
			err = errors.New("it needs either two patterns of hosts in between, or some in around")
		case taken && other == one.Name:
			err = errors.New("an entry before has this name")
		case taken:
			err = fmt.Errorf("its name and %q have the same number: rename one", other)
		}
		if err != nil {
			return fmt.Errorf("shared, entry %d %q: %w", i+1, one.Name, err)
		}
		numbers[one.Use().Resource] = one.Name
	}
	return nil
}

// patterns returns an error unless all are patterns of host names.
func patterns(all []string) error {
	if len(all) == 0 || len(all) > mostParts {
		return errors.New("it names no hosts")
	}
	for _, p := range all {
		if _, err := path.Match(p, "x"); err != nil || p == "" || p != plain.Brief(p, longestName) {
			return fmt.Errorf("%q is no pattern of host names, such as fra-*", p)
		}
	}
	return nil
}
