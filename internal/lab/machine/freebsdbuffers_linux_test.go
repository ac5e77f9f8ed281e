//go:build vm

package machine

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// TestFreeBSDBuffers: a FreeBSD with 1200 clusters, most of which its card's ring holds,
// runs out of them while it sends with large windows over a delay, as that of the first
// article did. The kernel's own console says that it happened; linerate names it, where
// it is and which setting is the limit, and does not raise that for a trial, because
// this kernel could not take it back.
func TestFreeBSDBuffers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	const said = "kern.ipc.nmbclusters limit reached"
	told(t, "buffers of the kernel")
	near, far := besideLinux(ctx, t, "kern.ipc.nmbclusters=1200 kern.ipc.nmbjumbop=100")
	n := number(ctx, t, near, "kern.ipc.nmbclusters")
	must.Need(t, n == 1200 && !strings.Contains(near.Console(), said), "%d clusters at first; console: %s", n, last(near.Console(), 500))
	sh(ctx, t, far, "tc qdisc replace dev eth0 root netem delay 40ms limit 20000")
	server := far.Start(ctx, "linerate", "serve", "--open", "--announce=false")
	until(ctx, t, far, func() bool { return strings.Contains(server.Printed(), "listening on") }, server)
	r, err := near.Run(ctx, "linerate", "test", "10.0.0.2", "--to", "-t", "4s", "--omit", "1s", "--idle", "0s", "-w", "1MiB", "-P", "4", "--json")
	var d struct {
		Session struct {
			Reason   string
			Findings []struct {
				Rule, Host, Limit, Evidence string
				Knobs                       []string
			}
		}
	}
	if err != nil || json.Unmarshal([]byte(r.Stdout), &d) != nil {
		t.Fatalf("%+v, %v; server: %s", r, err, server.Printed())
	}
	if !strings.Contains(near.Console(), said) {
		t.Fatalf("the kernel did not run out of clusters: %s", last(near.Console(), 500))
	}
	if len(d.Session.Findings) == 0 { // its card got no cluster back, so that it hears nothing any more
		why := d.Session.Reason
		must.True(t, r.Code != 0 && strings.Contains(why, "contact lost") && strings.Contains(why, "meanwhile on this machine: ") && strings.Contains(why, "buffer"), "exit code %d, %q\n%s", r.Code, why, r.Stderr)
	} else if first := d.Session.Findings[0]; first.Rule != "B13" || first.Host != "near" || !slices.Contains(first.Knobs, "mbuf.clusters") {
		t.Errorf("the first finding is %+v", first)
	}
	refused, err := near.Run(ctx, "linerate", "set", "mbuf.clusters=16384", "--for", "5s")
	must.True(t, err == nil && refused.Code != 0 && strings.Contains(refused.Stderr, "/boot/loader.conf"), "raised for a trial: %+v, %v", refused, err)
	must.Equal(t, number(ctx, t, near, "kern.ipc.nmbclusters"), 1200, "clusters after it")
}
