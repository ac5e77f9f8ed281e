//go:build truth && linux

package main

import (
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
	"linerate/internal/truth"
)

// TestServeAmongManyIPv6Networks: 1000 clients, each of an IPv6 network of its own
// (one host can have as many), say nothing or have wrong secrets, and somebody
// with the right one is served within 2 s all the time.
func TestServeAmongManyIPv6Networks(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) { serveAmongManyIPv6Networks(try) })
}

func serveAmongManyIPv6Networks(t *truth.Try) {
	needRoot(t)
	const near, far, sources = "fd77::1", "fd77::2", "fd78::/48"
	n := newNetns(t)
	for name, addr := range map[string]string{n.near: near, n.far: far} {
		ip(t, "-n", name, "-6", "addr", "add", addr+"/64", "dev", "v0", "nodad")
	}
	ip(t, "-n", n.far, "-6", "route", "add", sources, "via", near)
	ip(t, "-n", n.near, "-6", "route", "add", "local", sources, "dev", "lo")
	// The namespace's own: who binds needs no address of an interface then.
	if out, err := exec.CommandContext(t.Context(), "ip", "netns", "exec", n.near, "sysctl", "-w", "net.ipv6.ip_nonlocal_bind=1").CombinedOutput(); err != nil {
		t.Skipf("no addresses to come from: %v: %s", err, out)
	}
	// Until its link-local addresses are known to be unique (RFC 4862 section 5.4),
	// which takes seconds, a new link answers no neighbour.
	eventually(t, 15*time.Second, "addresses of the link", func() bool {
		return ip(t, "-n", n.near, "-6", "addr", "show", "tentative")+ip(t, "-n", n.far, "-6", "addr", "show", "tentative") == ""
	})
	p := start(t, n.inside(t, "far", "serve", "--listen", "["+far+"]:5299", "--state", n.state("far")))
	pattern := regexp.MustCompile(`linerate://[^\s']+`)
	eventually(t, 20*time.Second, "a join link", func() bool { return pattern.MatchString(p.said()) })
	link := pattern.FindString(p.said())
	for _, attack := range []string{"silence", "wrong secrets"} {
		const d = 4 * time.Second
		text, err := json.Marshal(order{
			Attack: attack, Clients: 1000, Time: d, Rate: 500, Server: far, Ports: map[string]string{"own": "5299"},
			Sources: netip.MustParsePrefix(sources), Link: link,
		})
		must.Do(t, err)
		bad, good := n.role(t, "near", "crowd"), n.role(t, "near", "friend")
		bad.Env, good.Env = append(bad.Env, crowdVar+"="+string(text)), append(good.Env, crowdVar+"="+link)
		crowd, friend := start(t, bad), start(t, good)
		eventually(t, d, attack+" from many networks", func() bool {
			out, err := exec.CommandContext(t.Context(), "ip", "netns", "exec", n.far, "ss", "-Htan").Output()
			return err == nil && strings.Count(string(out), "[fd78:") > 20
		})
		r := crowd.wait(t, d+30*time.Second).succeeds(t)
		did := decode[tally](t, r.out)
		friend.signal(t, os.Interrupt)
		if r = friend.wait(t, 30*time.Second); r.code != 0 {
			t.Fatalf("%s: a friend of the server: %s%s", attack, r.out, r.err)
		}
		took := decode[[]time.Duration](t, r.out)
		slices.Sort(took)
		must.Need(t, did.Tries >= 500 && len(took) >= 2, "%s: %d tries, a friend served %d times", attack, did.Tries, len(took))
		t.Claim("a friend waits at most, "+attack, took[len(took)-1].Seconds(), 0, 2, "s")
	}
	p.signal(t, os.Interrupt)
	p.wait(t, 20*time.Second).ends(t, 0)
}
