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

// TestFirstHour16NoHome is somebody whom the system's list of users does not know, as in
// a container: without HOME there is no folder for results, which is said, and nothing
// is written into the present folder. What is given instead is used; relative folders of
// XDG are none.
func TestFirstHour16NoHome(t *testing.T) {
	t.Parallel()
	needRoot(t)
	const nobodyKnows = 54321
	dir, err := os.MkdirTemp("", "linerate-nohome-") //nolint:usetesting // a folder that others may enter
	must.Do(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	own, here := filepath.Join(dir, "own"), filepath.Join(dir, "here")
	program := filepath.Join(dir, "linerate")
	text, err := os.ReadFile(binary)
	if err == nil {
		err = os.WriteFile(program, text, 0o755)
	}
	must.Do(t, err)
	for _, d := range []string{own, here} {
		must.Do(t, os.Mkdir(d, 0o700))
		must.Do(t, os.Chown(d, nobodyKnows, nobodyKnows))
	}
	must.Do(t, os.Chmod(dir, 0o755))
	for name, c := range map[string]struct {
		env  []string
		args string
		code int
		says string
		db   string // where the results are then, below own
	}{
		"nothing":      {args: "list", code: 6, says: "set HOME, name a file with --db FILE"},
		"relative XDG": {env: []string{"XDG_DATA_HOME=data", "XDG_CONFIG_HOME=config", "XDG_STATE_HOME=state"}, args: "list", code: 6, says: "set HOME"},
		"a host":       {args: "test nosuch.invalid --db :memory:", code: 3, says: "LINERATE_CONFIG"},
		"undo":         {args: "undo", code: 1, says: "LINERATE_STATE"},
		"in memory":    {args: "list --db :memory:"},
		"HOME":         {env: []string{"HOME=" + own}, args: "list", db: ".local/share/linerate/linerate.db"},
		"XDG":          {env: []string{"HOME=" + dir, "XDG_DATA_HOME=" + own}, args: "list", db: "linerate/linerate.db"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), program, strings.Fields(c.args)...)
			cmd.Dir, cmd.Env = here, append([]string{"PATH=" + os.Getenv("PATH"), "LINERATE_MDNS=off", "LINERATE_WAIT=0s"}, c.env...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyKnows, Gid: nobodyKnows}}
			run(t, cmd).ends(t, c.code, c.says)
			left := must.Get(os.ReadDir(here))(t)
			must.True(t, len(left) == 0, "in the present folder: %v", left)
			if c.db != "" {
				must.OK(t, must.Err(os.Stat(filepath.Join(own, c.db))))
			}
		})
	}
}
