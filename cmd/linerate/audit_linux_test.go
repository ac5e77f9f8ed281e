package main

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// lineOf waits for the first line of an audit log with all fields of want, and returns it.
func lineOf(t testing.TB, log, want string) (found map[string]any) {
	t.Helper()
	must.Until(t, "the audit line "+want, func() bool {
		for _, m := range audited(t, log) {
			if tells([]map[string]any{m}, want) {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

// saying connects to addr, sends a text, and reads until the server closes.
func saying(t testing.TB, addr, what string) {
	t.Helper()
	c := must.Get((&net.Dialer{}).DialContext(t.Context(), "tcp", addr))(t)
	defer func() { _ = c.Close() }()
	_, _ = io.WriteString(c, what)
	_ = c.SetReadDeadline(time.Now().Add(patience))
	_, _ = io.ReadAll(c)
}

// TestAuditOfTheDoor: connections dropped before TLS get a line with their number, and a failed
// handshake gets a line of its own.
func TestAuditOfTheDoor(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "audit.log")
	v := serveJSON(t, command(t, "serve", "--json", "--listen", "127.0.0.1:0", "--state", t.TempDir(), "--audit", log))
	for range 30 {
		saying(t, v.Address, "GET / HTTP/1.1\r\n\r\n")
	}
	saying(t, v.Address, "lr-data1"+strings.Repeat("x", 36))
	first := lineOf(t, log, "event=dropped protocol=linerate address=127.0.0.1 outcome=denied count=1")
	must.Equal(t, first["reason"], "spoke another protocol", "%v", first)
	if c, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}}).DialContext(t.Context(), "tcp", v.Address); err == nil {
		t.Error("TLS 1.2 is accepted")
		_ = c.Close()
	}
	m := lineOf(t, log, "event=refused protocol=linerate address=127.0.0.1 outcome=denied")
	must.True(t, strings.Contains(m["reason"].(string), "handshake: "), "%v", m)
	v.p.signal(t, os.Interrupt)
	v.p.wait(t, patience)
	total := map[string]float64{}
	lines := 0
	for _, m := range audited(t, log) {
		if m["event"] == "dropped" {
			total[m["reason"].(string)] += m["count"].(float64)
			lines++
		}
	}
	must.True(t, total["spoke another protocol"] == 30 && total["a data connection that no run waits for"] == 1 && lines <= 4, "%d lines tell of %v", lines, total)
}

// TestAuditOfForeignListeners: clients of other programs get lines: admitted, refused, and ended
// with the bytes moved.
func TestAuditOfForeignListeners(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "audit.log")
	foreign := serveJSON(t, serveEverything(t, "--audit", log)).Foreign
	// moves requires the line of a test's end, with at least a megabyte in each of ways:
	// "sent", "received".
	moves := func(protocol, engine string, ways ...string) {
		t.Helper()
		m := lineOf(t, log, "event=run-end protocol="+protocol+" address=127.0.0.1 outcome=ok engine="+engine)
		for _, way := range ways {
			n, _ := m[way].(float64)
			must.True(t, n >= 1e5, "%s: %v %s: %v", protocol, m[way], way, m)
		}
		s, _ := m["seconds"].(float64)
		must.True(t, s > 0, "%s: how long it took is missing: %v", protocol, m)
	}
	port := portOf(foreign["iperf3"])
	foreignClient(t, iperf3Fault, "iperf3", "-c", "127.0.0.1", "-p", port, "-n", "2M", "-J")
	lineOf(t, log, "event=run-begin protocol=iperf3 address=127.0.0.1")
	moves("iperf3", "tcpbulk", "received")
	r := run(t, exec.CommandContext(t.Context(), "iperf3", "-c", "127.0.0.1", "-p", port, "-P", "17", "-t", "1"))
	must.True(t, r.code != 0, "17 streams were given to iperf3")
	m := lineOf(t, log, "event=refused protocol=iperf3 address=127.0.0.1 outcome=denied")
	must.True(t, m["reason"] != nil, "%v", m)

	port = portOf(foreign["iperf2"])
	foreignClient(t, iperf2Fault, "iperf", "-c", "127.0.0.1", "-p", port, "-n", "2M", "-y", "C")
	lineOf(t, log, "event=run-begin protocol=iperf2 address=127.0.0.1")
	moves("iperf2", "tcpbulk", "received")
	saying(t, foreign["iperf2"], "GET / HTTP/1.1\r\n\r\n"+strings.Repeat("x", 100))
	lineOf(t, log, "event=refused protocol=iperf2 address=127.0.0.1 outcome=denied")

	foreignClient(t, unchecked, "NPtcp", "-h", "127.0.0.1", "-P", portOf(foreign["netpipe"]), "-n", "20", "-u", "65536", "-o", os.DevNull)
	lineOf(t, log, "event=run-begin protocol=netpipe address=127.0.0.1")
	moves("netpipe", "netpipe", "sent")
	saying(t, foreign["netpipe"], "GET / HTTP/1.1\r\n\r\n")
	lineOf(t, log, "event=refused protocol=netpipe address=127.0.0.1 outcome=denied")
}

// keeping returns a serve command with JSON and these flags, and the file in which it stores what
// its clients measure: its own file if it gives up root.
func keeping(t testing.TB, flags ...string) (cmd *exec.Cmd, db string) {
	t.Helper()
	state, home := t.TempDir(), t.TempDir()
	must.Do(t, errors.Join(os.Chmod(filepath.Dir(state), 0o755), os.Chmod(state, 0o700))) // as linerate creates it below /var/lib
	cmd = command(t, append([]string{"serve", "--json", "--listen", "127.0.0.1:0", "--state", state}, flags...)...)
	cmd.Env = append(slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "LINERATE_DB=") }), "XDG_DATA_HOME="+home)
	if os.Getuid() == 0 {
		return cmd, filepath.Join(state, "copies-of-serve", "results.db")
	}
	return cmd, filepath.Join(home, "linerate", "linerate.db")
}

// keptList is the part of linerate/list/v1 that these tests need.
type keptList struct {
	Sessions []struct {
		ID     string `json:"id"`
		Title  string `json:"title"`
		State  string `json:"state"`
		Reason string `json:"reason"`
	} `json:"sessions"`
}

// TestClientsAreKept: what clients of iperf3, iperf 2 and NetPIPE measured with serve is in the
// results, listed and shown, even if the server gave up root: one row per test, however many
// connections it had, and one per failed test.
func TestClientsAreKept(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "audit.log")
	cmd, db := keeping(t, "--iperf3=127.0.0.1:0", "--iperf2=127.0.0.1:0", "--netpipe=127.0.0.1:0", "--audit", log)
	v := serveJSON(t, cmd)
	foreign := v.Foreign
	seen := map[string]bool{}
	for _, c := range []struct {
		title, state string
		says         []string // in the report
		argv         []string
	}{
		{"iperf3 client", "done", []string{"to ", "bit/s"}, []string{"iperf3", "-c", "127.0.0.1", "-p", portOf(foreign["iperf3"]), "-n", "5M", "-J"}},
		{"iperf2 client", "done", []string{"to ", "bit/s"}, []string{"iperf", "-c", "127.0.0.1", "-p", portOf(foreign["iperf2"]), "-n", "5M", "-P", "4"}},
		{"iperf2 client", "done", []string{"from ", "bit/s"}, []string{"iperf", "-c", "127.0.0.1", "-p", portOf(foreign["iperf2"]), "-t", "1", "-R", "-P", "2"}},
		{"iperf2 client", "done", []string{"messages a second were returned"}, []string{"iperf", "-c", "127.0.0.1", "-p", portOf(foreign["iperf2"]), "-t", "1", "--bounceback"}},
		{"netpipe client", "done", []string{"64 B", "bit/s"}, []string{"NPtcp", "-h", "127.0.0.1", "-P", portOf(foreign["netpipe"]), "-n", "20", "-u", "64", "-o", os.DevNull}},
		{"iperf3 client", "failed", []string{"failed: the client left"}, []string{"iperf3", "-c", "127.0.0.1", "-p", portOf(foreign["iperf3"]), "-t", "60"}},
	} {
		if c.state == "failed" { // killed during the test
			needProgram(t, c.argv[0])
			p := start(t, exec.CommandContext(t.Context(), c.argv[0], c.argv[1:]...))
			must.Until(t, "the second run of iperf3", func() bool {
				text, err := os.ReadFile(log)
				return err == nil && len(regexp.MustCompile(`"run-begin".*"iperf3"`).FindAll(text, -1)) == 2
			})
			p.signal(t, os.Kill)
			p.wait(t, patience)
		} else {
			foreignClient(t, unchecked, c.argv...)
		}
		var l keptList
		must.Until(t, strings.Join(c.argv, " ")+" in "+db, func() bool {
			if _, err := os.Stat(db); err != nil {
				return false
			}
			l = decode[keptList](t, succeed(t, "list", "--kind", "served", "--json", "--db", db).out)
			return len(l.Sessions) > len(seen)
		})
		must.Need(t, len(l.Sessions) == len(seen)+1, "%q made %d rows of %d", c.argv, len(l.Sessions)-len(seen), len(l.Sessions))
		for _, s := range l.Sessions {
			if seen[s.ID] {
				continue
			}
			seen[s.ID] = true
			shown := succeed(t, "show", s.ID, "--db", db).out
			for _, part := range append(c.says, "127.0.0.1") {
				must.Contain(t, shown, part, "%q:", c.argv)
			}
			must.True(t, s.Title == c.title && s.State == c.state, "%q is kept as %s, %s", c.argv, s.Title, s.State)
			must.OK(t, validate("linerate/session/v1", succeed(t, "show", s.ID, "--json", "--db", db).out))
		}
	}
	must.True(t, os.Getuid() != 0 || strings.Contains(v.p.complaints(), "list --kind served --db "+db), "it does not say where:\n%s", v.p.complaints())
}

// TestKeptNowhereIsToldOnce: a server that cannot store results says so once, at its start, and
// serves anyway.
func TestKeptNowhereIsToldOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	cmd, _ := keeping(t, "--iperf2=127.0.0.1:0", "--db", filepath.Join(file, "results.db"))
	v := serveJSON(t, cmd)
	const told = "what clients of other programs measure is not kept"
	must.Until(t, "word of it before any client", func() bool { return strings.Contains(v.p.complaints(), told) })
	for range 2 {
		foreignClient(t, unchecked, "iperf", "-c", "127.0.0.1", "-p", portOf(v.Foreign["iperf2"]), "-n", "1M")
	}
	n := strings.Count(v.p.complaints(), "not kept")
	must.True(t, n == 1, "said %d times:\n%s", n, v.p.complaints())
}
