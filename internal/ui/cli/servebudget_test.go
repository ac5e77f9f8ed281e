package cli

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"linerate/internal/measure/budget"
)

func TestBudgetFlags(t *testing.T) {
	host := room{memory: 8 << 30, disk: 100 << 30, files: budget.Divide(8192, 1)}
	c, err := (&budgetFlags{}).config(host, visitors{listeners: 1})
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Server; s.Sessions != 64 || s.Memory != 2<<30 || s.Disk != 25<<30 || s.Descriptors != 8192-1024-512-896-64 || s.UDP != 0 {
		t.Errorf("server %+v", s)
	}
	if s := c.Strangers; s.Sessions != 16 || s.Memory != 128<<20 || s.Disk != 2<<30 || s.Descriptors != (8192-1024-512-896-64)/2 {
		t.Errorf("strangers %+v", s)
	}
	if c.Keyed.Session.Memory != 1<<30 || c.Stranger.Lifetime != 10*time.Minute || c.Window != 24*time.Hour {
		t.Errorf("%+v", c)
	}
	f := budgetFlags{
		all: "sessions=20, memory=1GiB,udp=1Gbit/s,egress=1TiB/hour", strangers: "memory=none,disk=0",
		source: "lifetime=1m,time=10min/hour,sessions=none",
	}
	if c, err = f.config(host, visitors{open: true, sessions: 3}); err != nil {
		t.Fatal(err)
	}
	if c.Server.Sessions != 20 || c.Server.Memory != 1<<30 || c.Server.UDP != 1e9 || c.Server.Egress != 1<<40 || c.Window != time.Hour {
		t.Errorf("server %+v in %v", c.Server, c.Window)
	}
	if c.Strangers.Memory != 0 || c.Strangers.Disk != -1 || c.Strangers.Sessions != 3 {
		t.Errorf("strangers %+v", c.Strangers)
	}
	if c.Stranger.Lifetime != time.Minute || c.Stranger.Source.Time != 10*time.Minute || c.Stranger.Source.Sessions != 0 {
		t.Errorf("source %+v", c.Stranger)
	}
	if c, err = (&budgetFlags{}).config(host, visitors{sessions: 12}); err != nil || c.Server.Sessions != 12 || c.Strangers.Sessions != -1 {
		t.Errorf("a server for those with a key alone: %v, %+v", err, c)
	}
	if c, err = (&budgetFlags{}).config(room{}, visitors{open: true}); err != nil || c.Server.Memory != 0 || c.Strangers.Memory != 128<<20 {
		t.Errorf("a host that tells nothing: %v, %+v", err, c)
	}
}

func TestBudgetFlagsRefuse(t *testing.T) {
	for text, says := range map[string]string{
		"memory":                          "KEY=VALUE",
		"memory=much":                     "memory",
		"memory=-1GiB":                    "memory",
		"luck=1":                          "there are sessions, descriptors, memory",
		"egress=1TiB/week":                "/day and /hour",
		"egress=1TiB/hour,time=2h/day":    "all by the hour",
		"lifetime=1m":                     "belongs to --limit-source",
		"sessions=9999999999999999999999": "sessions",
	} {
		_, err := (&budgetFlags{all: text}).config(room{}, visitors{})
		if err == nil || exitCode(err) != exitUsage || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestStatusText(t *testing.T) {
	b := budget.New(budget.Config{Server: budget.Limits{Sessions: 8, Memory: 1 << 30}})
	if got := statusText(b.Usage()); got != "0/8 sessions" {
		t.Errorf("nothing: %q", got)
	}
	s, err := b.Open(loopback, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Take(budget.Amounts{Memory: 64 << 20, UDP: 1e8}); err != nil {
		t.Fatal(err)
	}
	_ = s.Spend(1 << 30)
	if _, err := s.Take(budget.Amounts{Memory: 2 << 30}); err == nil {
		t.Fatal("more than there is")
	}
	if got, want := statusText(b.Usage()), "1/8 sessions, 64 MiB memory, 100 Mbit/s UDP, 1 GiB sent, 1 source, 1 refused"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := shortened("ÄBCDEF", 3); got != "ÄBC" {
		t.Errorf("shortened: %q", got)
	}
}

// TestStatusLine demands that what others write stands above the line.
func TestStatusLine(t *testing.T) {
	var out strings.Builder
	l := &statusLine{to: &out}
	write := func(text string) {
		t.Helper()
		if n, err := l.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
	}
	write("a\n")
	l.show("1/8")
	l.show("1/8")
	write("b\n")
	l.show("")
	write("c\n")
	if want := "a\n" + eraseLine + "1/8" + eraseLine + "b\n1/8" + eraseLine + "c\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// TestMemoryLimit: strangers never raise what the server may hold, key holders do
// by what they took.
func TestMemoryLimit(t *testing.T) {
	b := budget.New(budget.Config{Server: budget.Limits{Memory: 1 << 30}, Strangers: budget.Limits{Memory: 128 << 20}})
	empty := memoryLimit(b.Usage())
	if empty != besideBudget+128<<20 || empty > 300e6 {
		t.Errorf("an idle server may hold %d MiB", empty>>20)
	}
	for key, more := range map[string]int64{"": 0, "key": 64 << 20} {
		s, err := b.Open(netip.MustParseAddr("192.0.2.1"), key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Take(budget.Amounts{Memory: 64 << 20}); err != nil {
			t.Fatal(err)
		}
		if got := memoryLimit(b.Usage()); got != empty+more {
			t.Errorf("%q took 64 MiB: %d MiB, want %d", key, got>>20, (empty+more)>>20)
		}
		s.Close()
	}
}
