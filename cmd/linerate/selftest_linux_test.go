package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/must"
)

// selftestDocument is what these tests read of linerate/selftest/v1.
type selftestDocument struct {
	Lines []struct{ Part, Name, State, Text string }
}

// TestSelftestInALab: in a host of its own every harmless setting that may be written
// there is set, comes back and is read again by sysctl; and the whole report is in its
// file.
func TestSelftestInALab(t *testing.T) {
	t.Parallel()
	needLab(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "report.json")
	names := "net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.ipv4.tcp_mtu_probing net.core.somaxconn net.ipv4.tcp_max_syn_backlog"
	script := "sysctl " + names + "; '" + binary + "' selftest --settings --yes --json -o '" + file + "' --db '" + dir + "/r.db' --state '" + dir + "/state' >/dev/null; echo code $?; sysctl " + names
	r := run(t, command(t, "lab", "rate=100mbit,rtt=2ms", "--", "sh", "-c", script))
	before, after, ok := strings.Cut(r.out, "code 0\n")
	must.Need(t, r.code == 0 && ok && before == after && strings.Contains(before, "tcp_rmem"), "exit code %d, before:\n%safter:\n%s%s", r.code, before, after, r.err)
	b := must.Get(os.ReadFile(file))(t)
	must.OK(t, validate("linerate/selftest/v1", string(b)))
	changed := map[string]string{}
	for _, l := range decode[selftestDocument](t, string(b)).Lines {
		if l.Part == "changes" {
			changed[l.Name] = l.State + ": " + l.Text
		}
		must.True(t, l.State != "wrong", "%+v", l)
	}
	for _, name := range []string{"tcp.recv_buffer_max", "tcp.send_buffer_max", "tcp.mtu_probing", "tcp.listen_queue", "tcp.syn_queue"} {
		must.True(t, strings.HasPrefix(changed[name], "ok: ") && strings.HasSuffix(changed[name], " again"), "%s: %q", name, changed[name])
	}
	run(t, command(t, "selftest", "-o", file)).ends(t, 2, "there is such a file")
}
