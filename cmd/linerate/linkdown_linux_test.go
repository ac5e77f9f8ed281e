package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestLinkThatGoesDown: a link that is lost for a second of a test is what the test ends
// with, at the end that saw it; the connection lives on.
func TestLinkThatGoesDown(t *testing.T) {
	needRoot(t)
	n := newNetns(t)
	far := fmt.Sprintf("exec:%s ip netns exec %s %s agent --state %s", farAddr, n.b, binary, n.state("b"))
	cmd := n.inside(t, "a", "test", far, "--to", "-t", "5s", "--omit", "0s", "--idle", "0s", "--db", ":memory:")
	done := make(chan result, 1)
	go func() { done <- run(t, cmd) }()
	// A test that has begun has sent many segments; the link is lost in the middle of it.
	for end := time.Now().Add(20 * time.Second); sent(t, n.a) < 50<<20 && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(time.Second)
	ip(t, "-n", n.b, "link", "set", "v0", "down")
	time.Sleep(time.Second)
	ip(t, "-n", n.b, "link", "set", "v0", "up")
	r := <-done
	if r.code != 0 || !strings.Contains(strings.Join(strings.Fields(r.out), " "), "the link was lost once during the test") {
		t.Errorf("exit code %d:\n%s%s", r.code, r.out, r.err)
	}
}

// TestLinkThatStaysDown: where contact is lost because this machine's own link is, that
// is what the end says, beside what the network answered.
func TestLinkThatStaysDown(t *testing.T) {
	t.Parallel()
	needRoot(t)
	n := newNetns(t)
	_, join := n.serve(t)
	cmd := n.inside(t, "a", "test", join.String(), "--reverse", "-t", "3s", "--omit", "0s", "--idle", "0s", "--db", ":memory:")
	done := make(chan result, 1)
	go func() { done <- run(t, cmd) }()
	for end := time.Now().Add(20 * time.Second); sent(t, n.b) < 50<<20 && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	ip(t, "-n", n.b, "link", "set", "v0", "down")
	r := <-done
	if r.code != 3 || !strings.Contains(r.err, "contact lost") || !strings.Contains(r.err, "meanwhile on this machine: the link was lost once during the test") {
		t.Errorf("exit code %d:\n%s%s", r.code, r.out, r.err)
	}
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
