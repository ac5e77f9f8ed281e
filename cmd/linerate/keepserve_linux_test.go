package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/control/wire/tls"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// serveWithFiles is serve on the far host, with files of the system of its own in etc.
func (n *netns) serveWithFiles(t testing.TB, etc string, args ...string) (*process, tls.Link) {
	t.Helper()
	cmd := n.inside(t, "far", append([]string{"serve", "--listen", serverAddr, "--state", n.state("far")}, args...)...)
	// ip netns exec has given it a mount namespace of its own.
	i := slices.Index(cmd.Args, binary)
	cmd.Args = slices.Insert(cmd.Args, i, "sh", "-ec", ownEtc(etc)+`exec "$@"`, "sh")
	p := start(t, cmd)
	link := regexp.MustCompile(`linerate://[^\s']+`)
	eventually(t, patience, "a join link", func() bool { return link.MatchString(p.said()) })
	return p, joinLink(t, link.FindString(p.said()))
}

// TestKeepOverServer keeps what proved better on the host of a server that may tune:
// by a key with that right, into the files of that host and its list of kept ones,
// with lines in the audit log; and takes it back. A key that may measure is refused.
func TestKeepOverServer(t *testing.T) {
	t.Parallel()
	needRoot(t)
	n := newNetns(t)
	etc, log := filepath.Join(n.dir, "etc"), filepath.Join(n.dir, "audit.log")
	olderFile(t, etc)
	keepSession(t, n.db(), "20261121T130000-beef", model.Better)
	before := n.bothKnobs(t)
	server, first := n.serveWithFiles(t, etc, "--allow-tune", "--audit", log)
	_, ops := n.addKey(t, "ops", "--right", "tune")
	do := func(code int, args ...string) result {
		t.Helper()
		r := run(t, n.inside(t, "near", args...))
		must.Need(t, r.code == code, "linerate %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), r.code, code, r.out, r.err)
		return r
	}
	r := do(4, "keep", "20261121T130000-beef", first.String(), "--yes")
	has(t, "a key that may measure", r.err, "nothing can be kept on 10.77.0.2: the key default has the right to measure, not to change settings of this host")
	isOlder(t, etc)
	r = do(3, "undo", "--kept", first.String())
	has(t, "its undo", r.err, "the right to measure")

	r = do(0, "keep", "20261121T130000-beef", ops, "--yes")
	has(t, "keep", r.out, "kept on ", "/etc/"+kept)
	has(t, "the file", file(t, etc, kept), "evidence: session 20261121T130000-beef, setting \"tall\"", "net.ipv4.tcp_sack = 0\n", " 4194304\n")
	n.asBefore(t, before) // no running value has changed
	r = do(0, "keep", "--list", ops, "--json")
	must.OK(t, validate("linerate/kept/v1", r.out))
	has(t, "the list", r.out, "session 20261121T130000-beef", "/etc/"+kept)
	there := must.Get(filepath.Glob(filepath.Join(n.state("far"), "kept", "*")))(t)
	must.True(t, len(there) != 0, "the server's list of kept files: %v", there)
	here, _ := filepath.Glob(filepath.Join(n.dir, "kept", "*"))
	must.True(t, len(here) == 0, "kept on the controller's own host: %v", here)
	do(0, "undo", "--kept", ops)
	isOlder(t, etc)
	server.signal(t, syscall.SIGTERM)
	server.wait(t, patience).ends(t, 0)
	lines := audited(t, log)
	for _, want := range []string{
		"event=keep protocol=linerate key=ops address=10.77.0.1 place=/etc/" + kept + " outcome=ok",
		"event=restore protocol=linerate key=ops address=10.77.0.1 place=/etc/" + kept + " outcome=ok",
	} {
		must.True(t, tells(lines, want), "the audit log has no %s", want)
	}
	must.True(t, !tells(lines, "event=keep key=default"), "a refused attempt is written down as one that was kept")
}
