package cli

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"linerate/internal/measure/budget"
	"linerate/internal/must"
	uilive "linerate/internal/ui/live"
	"linerate/internal/ui/screen"
)

// TestServeScreenKeeps: what is said while a screen has the terminal is not written over
// it, stands on it, and comes back when it is gone; of a long time only the last of it.
func TestServeScreenKeeps(t *testing.T) {
	var out strings.Builder
	line := screen.New(&out)
	w := &serveScreen{state: uilive.NewServer(time.Now, nil), line: line}
	line.Line("0/8")
	out.Reset()
	must.True(t, !w.keep("before"), "keeps a line where there is no screen")
	release := w.hold()
	line.Line("1/8")
	fmt.Fprint(line, "half ")
	fmt.Fprint(line, "a line\n")
	must.True(t, w.keep("a visit\x1b[2J"), "does not keep a line beside the screen")
	must.Equal(t, out.String(), screen.Redraw, "written over the screen")
	text := w.state.View(uilive.Size{Columns: 80, Rows: 24})
	must.True(t, strings.Contains(text, "half a line") && !strings.Contains(text, "a visit"), "on the screen:\n%s", text)
	out.Reset()
	release()
	must.Equal(t, out.String(), "1/8"+screen.Redraw+"half a line\na visit?[2J\n1/8")

	release = w.hold()
	for i := range 10 * keptServed {
		w.keep(fmt.Sprint(i))
	}
	out.Reset()
	release()
	all := strings.Split(strings.TrimSuffix(out.String(), "\n1/8"), "\n")
	left, _, _ := strings.Cut(strings.TrimPrefix(all[0], "1/8"+screen.Redraw), " lines before these")
	n := len(all) - 1
	must.True(t, n <= keptServed && left == fmt.Sprint(10*keptServed-n) && all[n] == fmt.Sprint(10*keptServed-1), "%d kept, %s left out, the last is %q", n, left, all[n])
}

// TestAllowances: what is used and what was refused is told, with its limits.
func TestAllowances(t *testing.T) {
	b := budget.New(budget.Config{
		Server:       budget.Limits{Sessions: 8, Memory: 1 << 30},
		AllAnonymous: budget.Limits{Sessions: 4}, Anonymous: budget.Part{Source: budget.Limits{Sessions: 2, Memory: 64 << 20}}, Window: 24 * time.Hour,
	})
	want := []uilive.Allowance{{Name: "sessions", Used: "0", Limit: "8", Source: "2"}}
	must.Same(t, allowances(b.Usage()), want, "nothing")
	s := must.Get(b.Open(netip.MustParseAddr("127.0.0.1"), ""))(t)
	must.Get(s.Take(budget.Amounts{Memory: 32 << 20}))(t)
	_ = s.Spend(1 << 30)
	_, err := s.Take(budget.Amounts{Memory: 64 << 20})
	must.Need(t, err != nil, "more than there is")
	want = []uilive.Allowance{
		{Name: "sessions", Used: "1", Limit: "8", Source: "2"}, {Name: "descriptors", Used: "1", Limit: "no limit", Source: "no limit"}, {Name: "memory", Used: "32 MiB", Limit: "1 GiB", Source: "64 MiB", Refused: 1},
		{Name: "sent in 24 h", Used: "1 GiB", Limit: "no limit", Source: "no limit"},
	}
	must.Same(t, allowances(b.Usage()), want)
}

// TestFixedLimitIsNamed: a server whose --limit-source gives one address more than a run
// without a key ever gets says at its start that no option raises the latter.
func TestFixedLimitIsNamed(t *testing.T) {
	b := budget.New(budget.Config{
		Server: budget.Limits{Sessions: 8}, AllAnonymous: budget.Limits{Sessions: 4, UDP: 2e9},
		Anonymous: budget.Part{Source: budget.Limits{UDP: 1e9}},
	})
	var out bytes.Buffer
	(&console{Env: Env{Err: &out}}).printBudget(b.Usage())
	must.Contain(t, out.String(), "to one address without a key: 1 Gbit/s of UDP")
	must.Contain(t, out.String(), "to one run without a key: 1 min, 16 streams, 100 Mbit/s of UDP in each direction; no option raises that")
}

func TestStatusText(t *testing.T) {
	b := budget.New(budget.Config{Server: budget.Limits{Sessions: 8, Memory: 1 << 30}})
	must.Equal(t, statusText(b.Usage()), "0/8 sessions", "nothing")
	s := must.Get(b.Open(netip.MustParseAddr("127.0.0.1"), ""))(t)
	must.Get(s.Take(budget.Amounts{Memory: 64 << 20, UDP: 1e8}))(t)
	_ = s.Spend(1 << 30)
	_, err := s.Take(budget.Amounts{Memory: 2 << 30})
	must.Need(t, err != nil, "more than there is")
	must.Equal(t, statusText(b.Usage()), "1/8 sessions, 64 MiB memory, 100 Mbit/s UDP, 1 GiB sent, 1 source, 1 refused")
	must.Equal(t, shortened("ÄBCDEF", 3), "ÄBC", "shortened")
}
