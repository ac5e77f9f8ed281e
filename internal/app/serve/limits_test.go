package serve

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"linerate/internal/fault"
	"linerate/internal/measure/budget"
	"linerate/internal/must"
)

func TestLimits(t *testing.T) {
	host := room{memory: 8 << 30, disk: 100 << 30, files: budget.Divide(8192, 1)}
	c, err := Limits{}.config(host, visitors{listeners: 1})
	must.Do(t, err)
	s := c.Server
	must.True(t, s.Sessions == 64 && s.Memory == 2<<30 && s.Disk == 25<<30 && s.Descriptors == 8192-1024-512-896-64 && s.UDP == 0, "server %+v", s)
	if s := c.AllAnonymous; s.Sessions != 16 || s.Memory != 128<<20 || s.Disk != 2<<30 || s.Descriptors != (8192-1024-512-896-64)/2 {
		t.Errorf("anonymous clients %+v", s)
	}
	must.True(t, c.Keyed.Session.Memory == 1<<30 && c.Anonymous.Lifetime == 10*time.Minute && c.Window == 24*time.Hour, "%+v", c)
	f := Limits{
		All: "sessions=20, memory=1GiB,udp=1Gbit/s,egress=1TiB/hour", Anonymous: "memory=none,disk=0",
		Source: "lifetime=1m,time=10min/hour,sessions=none",
	}
	if c, err = f.config(host, visitors{open: true, sessions: 3}); err != nil {
		t.Fatal(err)
	}
	must.True(t, c.Server.Sessions == 20 && c.Server.Memory == 1<<30 && c.Server.UDP == 1e9 && c.Server.Egress == 1<<40 && c.Window == time.Hour,
		"server %+v in %v", c.Server, c.Window)
	must.True(t, c.AllAnonymous.Memory == 0 && c.AllAnonymous.Disk == -1 && c.AllAnonymous.Sessions == 3, "anonymous clients %+v", c.AllAnonymous)
	must.True(t, c.Anonymous.Lifetime == time.Minute && c.Anonymous.Source.Time == 10*time.Minute && c.Anonymous.Source.Sessions == 0,
		"source %+v", c.Anonymous)
	if c, err = (Limits{}).config(host, visitors{sessions: 12}); err != nil || c.Server.Sessions != 12 || c.AllAnonymous.Sessions != -1 {
		t.Errorf("a server for those with a key alone: %v, %+v", err, c)
	}
	if c, err = (Limits{}).config(room{}, visitors{open: true}); err != nil || c.Server.Memory != 0 || c.AllAnonymous.Memory != 128<<20 {
		t.Errorf("a host that tells nothing: %v, %+v", err, c)
	}
}

func TestLimitsRefuse(t *testing.T) {
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
		_, err := Limits{All: text}.config(room{}, visitors{})
		must.True(t, err != nil && fault.KindOf(err) == fault.Usage && strings.Contains(err.Error(), says), "%s: %v", text, err)
	}
}

// TestMemoryLimit: anonymous clients never raise what the server may hold, key holders do
// by what they took.
func TestMemoryLimit(t *testing.T) {
	b := budget.New(budget.Config{Server: budget.Limits{Memory: 1 << 30}, AllAnonymous: budget.Limits{Memory: 128 << 20}})
	empty := memoryLimit(b.Usage())
	must.True(t, empty == besideBudget+128<<20 && empty <= 300e6, "an idle server may hold %d MiB", empty>>20)
	for key, more := range map[string]int64{"": 0, "key": 64 << 20} {
		s := must.Get(b.Open(netip.MustParseAddr("192.0.2.1"), key))(t)
		must.Get(s.Take(budget.Amounts{Memory: 64 << 20}))(t)
		got := memoryLimit(b.Usage())
		must.True(t, got == empty+more, "%q took 64 MiB: %d MiB, want %d", key, got>>20, (empty+more)>>20)
		s.Close()
	}
}

func TestPeers(t *testing.T) {
	for text, want := range map[string]string{
		"": "[]", "10.0.0.7": "[10.0.0.7/32]", "10.0.0.9/24, fd00::7": "[10.0.0.0/24 fd00::7/128]", "::ffff:10.0.0.7": "[10.0.0.7/32]", "nas": "error", "10.0.0.0/33": "error",
	} {
		peers, err := parsePeers(text)
		got := fmt.Sprint(peers)
		if err != nil {
			got = "error"
		}
		must.Equal(t, got, want, "%q", text)
	}
}
