package fleet

import (
	"testing"
	"time"

	"linerate/internal/core/fleet"
	"linerate/internal/must"
)

// TestSummary: a silent host is one line, and not each of its paths; before the first result the
// summary says when it comes.
func TestSummary(t *testing.T) {
	at := time.Date(2026, 11, 28, 14, 20, 5, 0, time.UTC)
	s := &fleet.Status{
		Hosts: []fleet.HostStatus{{Name: "desk"}, {Name: "nas", Silent: true, Notes: []string{"not heard of since 14:00"}}, {Name: "pi"}}, Pairs: 3,
		Problems: []fleet.Problem{{Near: "desk", Far: "nas", Text: "no result came"}, {Near: "desk", Far: "pi", Text: "no answer"}, {Near: "nas", Far: "pi", Text: "no result came"}},
		Queue:    []fleet.Entry{{Until: at}},
	}
	head, all := Summary(s)
	must.Contain(t, head, "results of the last hour: none yet, the first at about 14:20:05")
	must.Same(t, all, []Entry{{"silent", "nas: not heard of since 14:00"}, {"path", "desk - pi: no answer"}})
	s.Hour = fleet.Tally{fleet.Done: 2}
	head, _ = Summary(s)
	must.True(t, head[len(head)-6:] == "2 done", "%s", head)
}
