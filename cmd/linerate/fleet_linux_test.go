package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/must"
)

// TestFleetSays: the hub prints commands that work, and an agent says that it has not joined, that
// its link is one for people, that its name is taken, and what a copy of a disk does.
func TestFleetSays(t *testing.T) {
	t.Parallel()
	dir := must.Get(os.MkdirTemp("", "fleet"))(t) //nolint:usetesting // agents that gave up root pass it, and none of a test
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must.Do(t, os.Chmod(dir, 0o755)) //nolint:gosec // the same
	of := func(name string) string { return filepath.Join(dir, name) }
	agent := func(name, state, link string) *process {
		return start(t, command(t, "agent", "--hub", link, "--name", name, "--listen", "127.0.0.1:0", "--host", "127.0.0.1", "--state", of(state)))
	}
	says := func(p *process, text string) {
		t.Helper()
		must.Until(t, text, func() bool { return strings.Contains(strings.Join(strings.Fields(p.complaints()), " "), text) })
	}
	hub := start(t, command(t, "hub", "--listen", "127.0.0.1:0", "--state", of("hub")))
	says(hub, "linerate fleet --state "+of("hub")+".")
	must.Until(t, "a link", func() bool { return strings.HasSuffix(hub.said(), "\n") })
	link := strings.Trim(strings.Fields(hub.said())[3], "'")
	succeed(t, "fleet", "--state", of("hub"))

	early := agent("nas", "early", "linerate://abc.abcd@"+closedPort(t))
	says(early, "connection refused; this host has not joined yet; trying again")
	must.True(t, !strings.Contains(early.complaints(), "serve:") && !strings.Contains(early.complaints(), "https://"), "%s", early.complaints())
	early.signal(t, os.Interrupt)
	early.wait(t, patience)
	agent("desk", "eyes", "@"+must.Get(filepath.Glob(of("hub/hub/view.link")))(t)[0]).wait(t, patience).ends(t, 3, "this is the link in view.link, for people")
	first := agent("nas", "nas", link)
	says(first, "nas is a host of the fleet")
	second := agent("nas", "nas2", link)
	says(second, "nas is taken; this host is nas-2")
	must.Do(t, exec.CommandContext(t.Context(), "cp", "-a", of("nas"), of("copy")).Run())
	twin := agent("nas", "copy", link)
	first.wait(t, patience).ends(t, 3, "started later", "start linerate agent there once with", "same flags and --rejoin")
	for _, p := range []*process{second, twin, hub} {
		p.signal(t, syscall.SIGTERM)
		p.wait(t, patience)
	}
	must.Equal(t, strings.Count(hub.complaints(), "use one key"), 1, "%s", hub.complaints())
}
