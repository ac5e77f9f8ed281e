package change

import (
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/profile"
	"linerate/internal/fault"
	"linerate/internal/must"
)

// TestCastProfile gives each host its part, whatever the profile calls them.
func TestCastProfile(t *testing.T) {
	of := func(roles ...profile.Role) profile.Profile {
		var p profile.Profile
		for _, r := range roles {
			p.Hosts = append(p.Hosts, profile.Host{Role: r, Settings: []profile.Setting{{Knob: model.KnobID(r), Value: "1"}}})
		}
		return p
	}
	for name, c := range map[string]struct {
		p                 profile.Profile
		role              string
		far, both         bool
		wantNear, wantFar string // knobs of each, which are called like the roles; "" for none
		bad               bool
	}{
		"pair":               {p: of("near", "far"), far: true, both: true, wantNear: "near", wantFar: "far"},
		"pair, turned":       {p: of("near", "far"), role: "near", far: true, both: true, wantNear: "far", wantFar: "near"},
		"pair, far alone":    {p: of("near", "far"), far: true, wantFar: "far"},
		"pair, here":         {p: of("near", "far"), role: "near", wantNear: "near"},
		"pair, here unsaid":  {p: of("near", "far"), bad: true},
		"either end, both":   {p: of("both"), far: true, both: true, wantNear: "both", wantFar: "both"},
		"either end, here":   {p: of("both"), wantNear: "both"},
		"either end, far":    {p: of("both"), far: true, wantFar: "both"},
		"far only":           {p: of("far"), far: true, both: true, wantFar: "far"},
		"roles unsaid":       {p: of("sender", "receiver"), far: true, both: true, bad: true},
		"HOST receives":      {p: of("sender", "receiver"), role: "receiver", far: true, both: true, wantNear: "sender", wantFar: "receiver"},
		"receiver and both":  {p: of("both", "receiver"), role: "sender", far: true, both: true, wantNear: "both receiver", wantFar: "both"},
		"wrong kind of role": {p: of("sender", "receiver"), role: "near", far: true, both: true, bad: true},
		"no such role":       {p: of("near", "far"), role: "middle", far: true, both: true, bad: true},
		"role without part":  {p: of("near"), role: "far", bad: true},
	} {
		parts, err := CastProfile(c.p, c.role, c.far, c.both)
		must.True(t, (err != nil) == c.bad && (!c.bad || fault.KindOf(err) == fault.Usage), "%s: %v", name, err)
		knobs := func(h model.Host) (text string) {
			for _, s := range parts[h].Settings {
				if text != "" {
					text += " "
				}
				text += string(s.Knob)
			}
			return text
		}
		near, far := knobs(model.Near), knobs(model.Far)
		must.True(t, near == c.wantNear && far == c.wantFar, "%s: near %q, far %q", name, near, far)
	}
}
