package timer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/fault"
	"linerate/internal/host/referee"
	"linerate/internal/must"
)

func exists(paths ...string) func(string) bool {
	return func(path string) bool { return slices.Contains(paths, path) }
}

// TestEntry: each system's files and commands for a job whose arguments need quoting everywhere.
func TestEntry(t *testing.T) {
	const systemd, crond = "/run/systemd/system", "/etc/cron.d"
	for name, c := range map[string]struct {
		m     Machine
		every time.Duration
		files string
		has   []string
		fails string // with a hint that contains this
	}{
		"systemd": {m: Machine{OS: "linux", Root: true, Exists: exists(systemd, crond)}, files: "/etc/systemd/system/w.service /etc/systemd/system/w.timer", has: []string{
			`ExecStart=/bin/linerate watch "--exec=mail -s \"100 %% & $$X\""`, "OnUnitActiveSec=5400s\nRandomizedDelaySec=60s\n", "systemctl enable --now w.timer", "Type=oneshot",
		}},
		"systemd of a user": {m: Machine{OS: "linux", Home: "/home/x", Exists: exists(systemd)}, files: "/home/x/.config/systemd/user/w.service /home/x/.config/systemd/user/w.timer", has: []string{"systemctl --user enable --now w.timer", "enable-linger"}},
		"cron":              {m: Machine{OS: "linux", Root: true, Exists: exists(crond)}, every: time.Hour, files: "/etc/cron.d/w", has: []string{"\n7 * * * * root /bin/linerate watch '--exec=mail -s \"100 \\% & $X\"' -q\n"}},
		"FreeBSD":           {m: Machine{OS: "freebsd", Root: true, Exists: exists(crond)}, every: 15 * time.Minute, files: "/etc/cron.d/w", has: []string{"*/15 * * * * root "}},
		"a day":             {m: Machine{OS: "freebsd", Root: true, Exists: exists(crond)}, every: 24 * time.Hour, files: "/etc/cron.d/w", has: []string{"7 5 * * * root "}},
		"cron, 90 min":      {m: Machine{OS: "linux", Root: true, Exists: exists(crond)}, fails: "15m, 1h or 6h"},
		"cron of a user":    {m: Machine{OS: "freebsd", Exists: exists(crond)}, every: 6 * time.Hour, fails: "crontab -e: 7 */6 * * * /bin/linerate watch"},
		"launchd":           {m: Machine{OS: "darwin", Root: true}, files: "/Library/LaunchDaemons/w.plist", has: []string{"<integer>5400</integer>", "<string>--exec=mail -s &#34;100 % &amp; $X&#34;</string>", "launchctl bootstrap system /Library/"}},
		"launchd of a user": {m: Machine{OS: "darwin", Home: "/Users/x", User: "501"}, files: "/Users/x/Library/LaunchAgents/w.plist", has: []string{"launchctl bootout gui/501/w"}},
		"Windows":           {m: Machine{OS: "windows"}, fails: "schtasks /Create /TN w /SC MINUTE /MO 90 "},
	} {
		if c.every == 0 {
			c.every = 90 * time.Minute
		}
		e, err := c.m.Entry(Job{Name: "w", What: "looks", Argv: []string{"/bin/linerate", "watch", `--exec=mail -s "100 % & $X"`}, Quiet: "-q", Every: c.every})
		if c.fails != "" {
			must.True(t, fault.KindOf(err) == fault.Unsupported && strings.Contains(fault.HintOf(err), c.fails), "%s: %v; %s", name, err, fault.HintOf(err))
			continue
		}
		must.Dof(t, err, name)
		var paths []string
		all := e.Start + "\n" + e.Stop + "\n" + e.Note + "\n"
		for _, f := range e.Files {
			paths, all = append(paths, f.Path), all+f.Text
			must.Contain(t, f.Text, "Made by linerate", name)
		}
		must.Equal(t, strings.Join(paths, " "), c.files, name)
		for _, part := range c.has {
			must.Contain(t, all, part, name)
		}
	}
}

// TestInstall: Install writes files that only their owner can read and starts the job, also a
// second time; Remove removes them. A file that linerate did not make stays.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	path, began := filepath.Join(dir, "a", "w.timer"), filepath.Join(dir, "began")
	e := Entry{Files: []File{{path, "# " + marker + "\n1\n"}}, Start: "echo x >> '" + began + "'", Stop: "rm '" + began + "'"}
	if os.PathSeparator == '\\' {
		e.Start, e.Stop = "", ""
		must.Do(t, os.WriteFile(began, nil, 0o600))
	}
	for range 2 {
		must.Do(t, e.Install(t.Context()))
	}
	must.Do(t, must.Err(os.Stat(began)))
	info := must.Get(os.Stat(path))(t)
	must.True(t, os.PathSeparator == '\\' || info.Mode().Perm() == 0o600, "mode %v", info.Mode())
	must.Same(t, must.Get(e.Remove(t.Context()))(t), []string{path}, "removed")
	must.Is(t, must.Err(os.Stat(path)), os.ErrNotExist)
	must.Len(t, must.Get(e.Remove(t.Context()))(t), 0, "removed again")
	must.Do(t, os.WriteFile(path, []byte("of another"), 0o600))
	must.Fail(t, e.Install(t.Context()))
	must.Fail(t, must.Err(e.Remove(t.Context())))
}

// TestSystemdVerify asks the real systemd what it thinks of the service and its timer.
func TestSystemdVerify(t *testing.T) {
	analyze := referee.Program(t, "systemd-analyze")
	dir := t.TempDir()
	m := Machine{OS: "linux", Root: true, Exists: exists("/run/systemd/system")}
	e := must.Get(m.Entry(Job{Name: "w", What: "looks 100 %", Argv: []string{"/bin/sh", `--exec=mail -s "100 % & $X"`}, Every: time.Hour}))(t)
	args := []string{"verify", "--man=no"}
	for _, f := range e.Files {
		name := filepath.Join(dir, filepath.Base(f.Path))
		must.Do(t, os.WriteFile(name, []byte(f.Text), 0o600))
		args = append(args, name)
	}
	out, err := referee.Command(t, analyze, args...).CombinedOutput()
	must.True(t, err == nil && !strings.Contains(string(out), "w."), "systemd-analyze verify: %v\n%s", err, out)
}
