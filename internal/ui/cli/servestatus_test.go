package cli

import (
	"net/netip"
	"strings"
	"testing"

	"linerate/internal/measure/budget"
	"linerate/internal/must"
	"linerate/internal/ui/screen"
)

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
