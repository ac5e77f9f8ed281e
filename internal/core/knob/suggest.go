package knob

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
)

// Unknown is the error for an id that is not a knob, with similar ids.
type Unknown struct {
	ID    model.KnobID
	Meant []model.KnobID
}

func (u *Unknown) Error() string {
	if len(u.Meant) == 0 {
		return fmt.Sprintf("unknown knob %q", u.ID)
	}
	words := make([]string, len(u.Meant))
	for i, one := range u.Meant {
		words[i] = string(one)
	}
	return fmt.Sprintf("unknown knob %q; did you mean %s?", u.ID, strings.Join(words, " or "))
}

// UnknownError returns an *Unknown.
func (x *Index) UnknownError(id model.KnobID) error { return &Unknown{id, x.Suggest(string(id))} }

// Suggest returns up to three ids similar to unknown, best first. It knows the native names of
// all systems ("tcp_rmem"), parts of ids ("mtu") and typing errors; nil if nothing is similar.
func (x *Index) Suggest(unknown string) []model.KnobID {
	type scored struct {
		id       model.KnobID
		distance int
	}
	text := plainName(unknown)
	if text == "" {
		return nil
	}
	var found []scored
	for _, k := range x.All() {
		best := plain.Distance(text, plainName(string(k.ID)))
		if len(text) >= 3 && strings.Contains(plainName(string(k.ID)), text) {
			best = min(best, 1)
		}
		for _, n := range k.Native {
			native := plainName(n.Name)
			if native == text || len(text) >= 3 && strings.HasSuffix(native, "."+text) {
				best = 0
			}
		}
		if text == plainName(string(k.ID)) { // before the native names of other knobs
			best = -1
		}
		if best <= max(2, len(text)/4) {
			found = append(found, scored{k.ID, best})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int { return cmp.Compare(a.distance, b.distance) })
	ids := lists.Each(found[:min(len(found), 3)], func(s scored) model.KnobID { return s.id })
	return ids
}

// plainName normalises the spelling of a name: case, slashes, hyphens.
func plainName(s string) string {
	return strings.NewReplacer("/", ".", "-", "_", " ", "_").Replace(strings.ToLower(strings.TrimSpace(s)))
}
