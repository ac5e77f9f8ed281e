package main

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// lineOf returns the first line of an audit log that has all the fields of want,
// once it is there.
func lineOf(t testing.TB, log, want string) (found map[string]any) {
	t.Helper()
	eventually(t, patience, "the audit line "+want, func() bool {
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

// saying connects to addr, says something, and reads until the server closes.
func saying(t testing.TB, addr, what string) {
	t.Helper()
	c := must.Get((&net.Dialer{}).DialContext(t.Context(), "tcp", addr))(t)
	defer func() { _ = c.Close() }()
	_, _ = io.WriteString(c, what)
	_ = c.SetReadDeadline(time.Now().Add(patience))
	_, _ = io.ReadAll(c)
}

// TestAuditOfTheDoor: connections that are dropped before TLS have a line with
// their number, and a handshake that fails has one of its own.
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

// TestAuditOfForeignListeners: clients of other programs have their lines: admitted,
// refused, and ended with what was moved.
func TestAuditOfForeignListeners(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "audit.log")
	foreign := serveJSON(t, serveEverything(t, "--audit", log)).Foreign
	// moves demands the line of a test's end with at least a megabyte each way asked
	// for: "sent", "received".
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
