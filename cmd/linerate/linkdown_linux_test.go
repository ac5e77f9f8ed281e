package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestLinkThatGoesDown: a link that is lost for a moment of a test is what the test ends
// with, at the end that saw it; the connection lives on. The test lasts until all is sent,
// however long that takes.
func TestLinkThatGoesDown(t *testing.T) {
	t.Parallel()
	needRoot(t)
	n := newNetns(t)
	ip(t, "netns", "exec", n.near, "tc", "qdisc", "add", "dev", "v0", "root", "tbf", "rate", "50mbit", "burst", "64kb", "limit", "256kb")
	p := start(t, n.inside(t, "near", "test", n.agent("far"), "--to", "-n", "10MB", "--omit", "0s", "--idle", "0s", "--db", ":memory:"))
	eventually(t, patience, "traffic", func() bool { return sent(t, n.near) > 4e6 || len(p.done) > 0 })
	ip(t, "-n", n.far, "link", "set", "v0", "down")
	ip(t, "-n", n.far, "link", "set", "v0", "up")
	if r := p.wait(t, patience); r.code != 0 || !strings.Contains(words(r.out), "the link was lost once during the test") {
		t.Errorf("exit code %d:\n%s%s", r.code, r.out, r.err)
	}
}

// TestLinkThatStaysDown: where contact is lost because this machine's own link is, that
// is what the end says, beside what the network answered.
func TestLinkThatStaysDown(t *testing.T) {
	t.Parallel()
	needRoot(t)
	n := newNetns(t)
	ip(t, "netns", "exec", n.far, "tc", "qdisc", "add", "dev", "v0", "root", "tbf", "rate", "50mbit", "burst", "64kb", "limit", "256kb")
	_, join := n.serve(t)
	p := start(t, n.inside(t, "near", "test", join.String(), "--reverse", "-t", "1m", "--omit", "0s", "--idle", "0s", "--db", ":memory:"))
	eventually(t, patience, "traffic", func() bool { return sent(t, n.far) > 4e6 || len(p.done) > 0 })
	ip(t, "-n", n.far, "link", "set", "v0", "down")
	p.wait(t, patience).ends(t, 3, "contact lost", "meanwhile on this machine: the link was lost once during the test")
}

// sent is how many bytes the link of a namespace has sent.
func sent(t testing.TB, namespace string) (bytes int) {
	t.Helper()
	lines := strings.Fields(ip(t, "-n", namespace, "-s", "-o", "link", "show", "dev", "v0"))
	for i, word := range lines {
		if word == "TX:" { // bytes packets errors dropped carrier collsns \ numbers
			for _, w := range lines[i:] {
				if _, err := fmt.Sscan(w, &bytes); err == nil && bytes > 0 {
					return bytes
				}
			}
		}
	}
	return 0
}
