package watchdog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// scopePrefix is the prefix of a watchdog's unit name.
const scopePrefix = "linerate-undo-"

// entering is how long systemd may take to make a scope.
const entering = 5 * time.Second

// scope is the way for a watchdog out of its agent's unit, whose end would end it too:
// systemctl stop of a service, or the end of a login session with KillUserProcesses=yes
// (logind.conf(5)), kills everything in its cgroup.
type scope struct {
	unit   string   // the agent's unit; "" if nothing needs to be done
	prefix []string // prefix of the command that starts the watchdog elsewhere
	why    string   // why there is no prefix
}

// findScope finds the unit of this process. root is Config.Root.
func findScope(root string) scope {
	at := func(path string) string { return filepath.Join(root, filepath.FromSlash(path)) }
	if root == "" {
		at = func(path string) string { return path }
	}
	if _, err := os.Stat(at("/run/systemd/system")); err != nil { // sd_booted(3)
		return scope{}
	}
	text, err := os.ReadFile(at("/proc/self/cgroup"))
	if err != nil {
		return scope{}
	}
	s := scope{unit: unitOf(string(text))}
	program := at("/usr/bin/systemd-run")
	switch _, err := os.Stat(program); {
	case s.unit == "" || strings.HasPrefix(s.unit, scopePrefix):
		return scope{}
	case os.Geteuid() != 0:
		s.why = "only root may ask systemd for a scope"
	case err != nil:
		s.why = err.Error()
	default:
		s.prefix = []string{
			program, "--scope", "--quiet", "--collect", fmt.Sprintf("--unit=%s%d-%x", scopePrefix, os.Getpid(), time.Now().UnixNano()),
			"--description=linerate: puts settings back", "--",
		}
	}
	return s
}

// unitOf returns the systemd unit in a text of /proc/self/cgroup, "" for none (cgroups(7)):
//
//	0::/user.slice/user-0.slice/session-3.scope
//	1:name=systemd:/system.slice/linerate.service
func unitOf(text string) string {
	unit := ""
	for l := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSpace(l), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		if !ok || controllers != "" && controllers != "name=systemd" {
			continue
		}
		for _, word := range slices.Backward(strings.Split(path, "/")) {
			if strings.HasSuffix(word, ".service") || strings.HasSuffix(word, ".scope") {
				unit = word
				break
			}
		}
	}
	return unit
}

// warning returns the warning that the end of the unit ends the undo.
func (s scope) warning(why string) string {
	return fmt.Sprintf("the watchdog shares the cgroup of %s: to stop that ends the undo too, and the next start of linerate finishes it (%s)",
		s.unit, strings.Join(strings.Fields(why), " "))
}

// startScoped starts the watchdog outside the agent's unit, or, if that fails, inside it with
// a warning.
func startScoped(ctx context.Context, cfg Config, command []string) (*Client, error) {
	if cfg.sys != nil && cfg.sys.start != nil {
		return startProcess(ctx, cfg, nil, "")
	}
	s := findScope(cfg.Root)
	why := s.why
	if s.prefix != nil {
		c, err := startProcess(ctx, cfg, slices.Concat(s.prefix, command), s.prefix[0])
		switch {
		case err == nil && cfg.Root == "" && s.shared(c.process.pid):
			why = "it did not leave it"
		case err == nil:
			return c, nil
		case !errors.Is(err, ErrGone) || ctx.Err() != nil:
			return nil, err
		default:
			why = err.Error()
		}
		if c != nil {
			newBoot(cfg, "", nil).talkf(UndoMark, "%s", s.warning(why))
			return c, nil
		}
	}
	if s.unit != "" {
		newBoot(cfg, "", nil).talkf(UndoMark, "%s", s.warning(why))
	}
	return startProcess(ctx, cfg, command, "")
}

// shared reports whether a process is in the unit.
func (s scope) shared(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && unitOf(string(text)) == s.unit
}

// watchEntering kills the process if it is still the program that should have executed the
// watchdog: systemd does not answer.
func (c *Client) watchEntering(program string) {
	late := time.NewTimer(entering)
	defer late.Stop()
	select {
	case <-c.gone:
		return
	case <-late.C:
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.process.pid))
	if first, _, _ := strings.Cut(string(line), "\x00"); err == nil && first == program {
		_ = c.process.kill() // the process may be gone already
	}
}
