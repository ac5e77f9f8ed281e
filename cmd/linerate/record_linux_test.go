package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestClientsAreKept: what clients of iperf3 and iperf 2 measured with serve is in the
// results, listed and shown, also where the server gave up root.
func TestClientsAreKept(t *testing.T) {
	state, home := t.TempDir(), t.TempDir()
	if err := os.Chmod(filepath.Dir(state), 0o755); err != nil { // whom the server becomes has to reach its folder
		t.Fatal(err)
	}
	cmd := command(t, "serve", "--json", "--listen", "127.0.0.1:0", "--iperf3=127.0.0.1:0", "--iperf2=127.0.0.1:0", "--state", state)
	cmd.Env = append(slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "LINERATE_DB=") }), "XDG_DATA_HOME="+home)
	p := start(t, cmd)
	t.Cleanup(func() { _ = p.cmd.Process.Signal(os.Interrupt); p.wait(t, 10*time.Second) })
	eventually(t, 10*time.Second, "the server's document", func() bool { return strings.HasSuffix(strings.TrimSpace(p.said()), "}") })
	d := decode[struct {
		Foreign map[string]string `json:"foreign"`
	}](t, p.said())
	foreignClient(t, func(string) string { return "" }, "iperf3", "-c", "127.0.0.1", "-p", portOf(d.Foreign["iperf3"]), "-n", "5M", "-J")
	foreignClient(t, func(string) string { return "" }, "iperf", "-c", "127.0.0.1", "-p", portOf(d.Foreign["iperf2"]), "-n", "5M")
	db := filepath.Join(home, "linerate", "linerate.db")
	if os.Getuid() == 0 {
		db = filepath.Join(state, "copies-of-serve", "results.db")
	}
	type list struct {
		Sessions []struct {
			ID    string `json:"id"`
			Kind  string `json:"kind"`
			Title string `json:"title"`
		} `json:"sessions"`
	}
	var l list
	eventually(t, 20*time.Second, "both tests in "+db, func() bool {
		if _, err := os.Stat(db); err != nil {
			return false
		}
		l = decode[list](t, succeed(t, "list", "--kind", "served", "--json", "--db", db).out)
		return len(l.Sessions) >= 2
	})
	var titles []string
	for _, s := range l.Sessions {
		titles = append(titles, s.Title)
		shown := succeed(t, "show", s.ID, "--db", db).out
		if !strings.Contains(shown, "bit/s") || !strings.Contains(shown, "127.0.0.1") {
			t.Errorf("%s is shown as\n%s", s.Title, shown)
		}
		if err := validate("linerate/session/v2", succeed(t, "show", s.ID, "--json", "--db", db).out); err != nil {
			t.Error(err)
		}
	}
	for _, want := range []string{"iperf3 client", "iperf2 client"} {
		if !slices.Contains(titles, want) {
			t.Errorf("no %s in %q", want, titles)
		}
	}
}
