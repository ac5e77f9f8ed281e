package deploy

import (
	"strings"
	"testing"

	"linerate/internal/must"
)

// TestFlags: what the agent is told stands behind its name, in every language.
func TestFlags(t *testing.T) {
	d := &deployment{o: Options{Flags: []string{"--at-boot"}}}
	for _, c := range []struct {
		r    remote
		want string
	}{
		{remote{path: "/x"}, "--at-boot"},
		{remote{path: "/d/x", dir: "/d"}, "--at-boot --remove '/d'"},
	} {
		must.Equal(t, d.flags(c.r), c.want)
	}
	d.o.Flags = nil
	must.Equal(t, d.flags(remote{path: "/d/x", dir: "/d"}), "--remove '/d'", "without flags")
	for flags, want := range map[string]string{"--at-boot": "($f,'agent --at-boot')", "": "($f,'agent')"} {
		must.Contain(t, windowsStart("a", "b", strings.Fields(flags)), want)
	}
}
