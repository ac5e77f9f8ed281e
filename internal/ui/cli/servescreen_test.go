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
	line := &statusLine{to: &out}
	w := &serveScreen{state: uilive.NewServer(time.Now, nil), line: line}
	line.show("0/8")
	out.Reset()
	must.True(t, !w.keep("before"), "keeps a line where there is no screen")
	w.begins(true)
	line.divert(w.write)
	line.show("1/8")
	fmt.Fprint(line, "half ")
	fmt.Fprint(line, "a line\n")
	must.True(t, w.keep("a visit\x1b[2J"), "does not keep a line beside the screen")
	must.Equal(t, out.String(), screen.Redraw, "written over the screen")
	text := w.state.View(uilive.Size{Columns: 80, Rows: 24})
	must.True(t, strings.Contains(text, "half a line") && !strings.Contains(text, "a visit"), "on the screen:\n%s", text)
	out.Reset()
	w.begins(false)
	line.divert(nil)
	a := &console{Env: Env{Err: line}}
	w.flush(a)
	must.Equal(t, out.String(), "1/8"+screen.Redraw+"half a line\n1/8"+screen.Redraw+"a visit?[2J\n1/8")

	w.begins(true)
	for i := range 10 * keptServed {
		w.keep(fmt.Sprint(i))
	}
	n := len(w.kept)
	must.True(t, n <= keptServed && n+w.left == 10*keptServed && w.kept[n-1] == fmt.Sprint(10*keptServed-1), "%d kept, %d left out", n, w.left)
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

// TestStatusLine demands that what others write stands above the line.
func TestStatusLine(t *testing.T) {
	var out strings.Builder
	l := &statusLine{to: &out}
	write := func(text string) {
		t.Helper()
		n, err := l.Write([]byte(text))
		must.True(t, n == len(text) && err == nil, "wrote %d, %v", n, err)
	}
	write("a\n")
	l.show("1/8")
	l.show("1/8")
	write("b\n")
	l.show("")
	write("c\n")
	must.Equal(t, out.String(), "a\n"+screen.Redraw+"1/8"+screen.Redraw+"b\n1/8"+screen.Redraw+"c\n")
}
