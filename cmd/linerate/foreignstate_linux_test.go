package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/must"
)

// somebody is a user who is not root.
const somebody = 65534

// TestForeignState has root find a state directory that another user could have
// filled: by --state, by LINERATE_STATE, as an agent, and as the job for the next
// start. It believes nothing that is in there.
func TestForeignState(t *testing.T) {
	t.Parallel()
	needRoot(t)
	n := newNetns(t)
	before := n.knobs(t, "far")
	for name, prepare := range map[string]func(dir string) string{
		"of another user": func(dir string) string { return dir },
		"a link to it": func(dir string) string {
			link := filepath.Join(n.dir, "link")
			must.Do(t, errors.Join(os.MkdirAll(dir, 0o755), os.Symlink(dir, link)))
			return link
		},
		"below it": func(dir string) string { return filepath.Join(dir, "linerate") },
	} {
		dir := filepath.Join(t.TempDir(), "home")
		state := prepare(dir)
		must.Do(t, os.MkdirAll(state, 0o755))
		// What he forges would take effect: the host holds what he says that linerate
		// had written.
		forged := journal.Record{Kind: journal.KindIntent, Transaction: "forged", Number: 1, Intent: &journal.Intent{
			Host: model.Near, Knob: sackKnob, Place: hostknob.Place{Mechanism: knob.Sysctl, Native: "net.ipv4.tcp_sack"}, Old: "0", New: before.sack,
		}}
		j := must.Get(journal.Open(state))(t)
		must.Do(t, j.Append(forged))
		must.Do(t, j.Close())
		must.Do(t, os.Chown(dir, somebody, somebody))
		for _, c := range []struct {
			args []string
			env  string
		}{
			{args: []string{"undo", "--state", state}},
			{args: []string{"undo", "--at-boot", "--state", state}},
			{args: []string{"undo"}, env: "LINERATE_STATE=" + state},
			{args: []string{"undo", "--kept"}, env: "LINERATE_STATE=" + state},
			{args: []string{"set", "tcp.timestamps=off", "--for", "1s"}, env: "LINERATE_STATE=" + state},
			{args: []string{"undo", "exec:" + farAddr + " ip netns exec " + n.far + " " + binary + " agent --state " + state}},
		} {
			cmd := n.inside(t, "far", c.args...)
			cmd.Env = append(cmd.Env, c.env)
			r := run(t, cmd)
			must.True(t, r.code != 0 && strings.Contains(r.err, "belongs to another user (uid 65534)"), "%s: %q: exit code %d\n%s%s", name, c.args, r.code, r.out, r.err)
			must.True(t, !strings.HasPrefix(c.args[0], "undo") || len(c.args) <= 1 || c.args[1] != "--state" || strings.Contains(r.err, "root keeps its state only where no other user may write"), "%s: no hint: %s", name, r.err)
			now := n.knobs(t, "far")
			must.Need(t, now == before, "%s: %q: it believed what another user wrote: %+v, before %+v", name, c.args, now, before)
		}
	}
	// A user may have his own where he likes.
	own := filepath.Join(t.TempDir(), "own")
	must.Do(t, os.Mkdir(own, 0o777))
	must.Do(t, os.Chmod(own, 0o777))
	for dir := own; dir != os.TempDir(); dir = filepath.Dir(dir) {
		must.Do(t, os.Chmod(dir, 0o755))
	}
	must.Do(t, os.Chown(own, somebody, somebody))
	program := filepath.Join(own, "linerate")
	must.Do(t, os.Link(binary, program)) // a copy could not run while a fork holds the file that wrote it
	cmd := n.inside(t, "far", "undo", "--state", filepath.Join(own, "state"))
	cmd.Args = append([]string{"ip", "netns", "exec", n.far, "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", program}, cmd.Args[5:]...)
	r := run(t, cmd)
	must.True(t, r.code == 0 && r.out == "nothing to undo\n", "a user's own: exit code %d\n%s%s", r.code, r.out, r.err)
}
