// Package timer has this machine's system run a command periodically: with a systemd timer, a
// cron file or a launchd job.
package timer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/host/command"
	"linerate/internal/host/durable"
	"linerate/internal/host/files"
)

// Job is a command to run periodically.
type Job struct {
	Name  string // "linerate-watch"
	What  string // short description for users
	Argv  []string
	Quiet string // extra argument under cron, which mails all output
	Every time.Duration
}

// Machine is the machine that runs the job.
type Machine struct {
	OS     string // GOOS
	Root   bool   // for the whole machine, otherwise for a user
	User   string // user ID
	Home   string
	Exists func(path string) bool
}

// Here returns this machine.
func Here() (Machine, error) {
	home, err := os.UserHomeDir()
	m := Machine{OS: runtime.GOOS, Root: os.Geteuid() == 0, User: fmt.Sprint(os.Geteuid()), Home: home, Exists: func(name string) bool {
		_, err := os.Stat(name)
		return err == nil
	}}
	if m.Root {
		err = nil
	}
	return m, err
}

// File is one of a job's files.
type File struct{ Path, Text string }

// Entry holds the files and commands with which a system runs a job.
type Entry struct {
	Files []File
	Start string // shell commands that start the job
	Stop  string // that stop it
	Gone  string // that run after its files are removed
	Note  string // a further note for the user
}

// marker is in every file of a job; files without it are never replaced or removed.
const marker = "Made by linerate, which removes it again: linerate watch --remove"

// Entry returns the entry with which m runs j. Its error is of kind fault.Unsupported and says
// what to do by hand.
func (m Machine) Entry(j Job) (Entry, error) {
	switch {
	case m.OS == "linux" && m.Exists("/run/systemd/system"): // sd_booted(3)
		return m.systemd(j), nil
	case m.OS == "darwin":
		return m.launchd(j), nil
	case m.OS == "windows":
		return Entry{}, fault.New(fault.Unsupported, errors.New("linerate does not write tasks of Windows"),
			"%s", fmt.Sprintf(`add it by hand: schtasks /Create /TN %s /SC MINUTE /MO %.0f /TR "%s"`, j.Name, j.Every.Minutes(), plain.ShellLine(j.Argv)))
	}
	return m.cron(j)
}

// systemd returns a service and a timer (systemd.timer(5)).
func (m Machine) systemd(j Job) Entry {
	words := make([]string, len(j.Argv))
	for i, w := range j.Argv {
		words[i] = plain.UnitWord(w)
	}
	dir, systemctl := "/etc/systemd/system", "systemctl"
	var e Entry
	if !m.Root {
		dir, systemctl = path.Join(m.Home, ".config/systemd/user"), "systemctl --user" // systemd.unit(5)
		e.Note = "it runs while you are logged in; to have it run always: loginctl enable-linger"
	}
	e.Files = []File{{path.Join(dir, j.Name+".service"), fmt.Sprintf(`# %s
[Unit]
Description=%s
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStart=%s
TimeoutStartSec=1h
`, marker, j.What, strings.Join(words, " "))}, {path.Join(dir, j.Name+".timer"), fmt.Sprintf(`# %s
[Unit]
Description=%s

[Timer]
OnActiveSec=1min
OnUnitActiveSec=%.0fs
RandomizedDelaySec=%.0fs

[Install]
WantedBy=timers.target
`, marker, j.What, j.Every.Seconds(), min(j.Every/10, time.Minute).Seconds())}}
	e.Start = fmt.Sprintf("%s daemon-reload && %s enable --now %s.timer", systemctl, systemctl, j.Name)
	e.Stop, e.Gone = fmt.Sprintf("%s disable --now %s.timer", systemctl, j.Name), systemctl+" daemon-reload"
	return e
}

// launchd returns a launchd job (launchd.plist(5)).
func (m Machine) launchd(j Job) Entry {
	dir, domain := "/Library/LaunchDaemons", "system"
	if !m.Root {
		dir, domain = path.Join(m.Home, "Library/LaunchAgents"), "gui/"+m.User
	}
	var words strings.Builder
	for _, w := range j.Argv {
		fmt.Fprintf(&words, "    <string>%s</string>\n", files.XML(w))
	}
	plist := path.Join(dir, j.Name+".plist")
	return Entry{Files: []File{{plist, fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- %s -->
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>%s</string>
  <key>StartInterval</key>
  <integer>%.0f</integer>
  <key>ProgramArguments</key>
  <array>
%s  </array>
</dict>
</plist>
`, strings.ReplaceAll(marker, "--", "- -"), j.Name, j.Every.Seconds(), words.String())}},
		Start: fmt.Sprintf("launchctl bootstrap %s %s", domain, plain.ShellWord(plist)), Stop: fmt.Sprintf("launchctl bootout %s/%s", domain, j.Name)}
}

// cron returns a file in /etc/cron.d (crontab(5)), which cron reads on most Linux systems and on
// FreeBSD.
func (m Machine) cron(j Job) (Entry, error) {
	when, err := cronTime(j.Every)
	if err != nil {
		return Entry{}, err
	}
	line := strings.ReplaceAll(plain.ShellLine(append(slices.Clone(j.Argv), j.Quiet)), "%", `\%`)
	const dir = "/etc/cron.d"
	if !m.Root || !m.Exists(dir) {
		return Entry{}, fault.New(fault.Unsupported, errors.New("linerate writes no crontab of a user"), "%s", "add this line with crontab -e: "+when+" "+line)
	}
	return Entry{Files: []File{{path.Join(dir, j.Name), "# " + marker + "\n" + when + " root " + line + "\n"}}}, nil
}

// cronTime returns the time fields of a crontab(5) line.
func cronTime(every time.Duration) (string, error) {
	minutes := int(every.Minutes())
	switch {
	case time.Duration(minutes)*time.Minute != every:
	case minutes == 24*60:
		return "7 5 * * *", nil
	case minutes < 60 && 60%minutes == 0:
		return fmt.Sprintf("*/%d * * * *", minutes), nil
	case minutes == 60:
		return "7 * * * *", nil
	case minutes%60 == 0 && minutes < 24*60 && 24%(minutes/60) == 0:
		return fmt.Sprintf("7 */%d * * *", minutes/60), nil
	}
	return "", fault.WithHint(fault.WithKind(fault.Unsupported, fmt.Errorf("cron cannot run something every %s", units.FormatDuration(every))), "take a part of an hour or of a day, as 15m, 1h or 6h")
}

// made reports whether a file belongs to a job, and whether it exists.
func made(path string) (ours, there bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	return strings.Contains(string(text), strings.SplitN(marker, ":", 2)[0]), true, err
}

// patience is the timeout of the start and stop commands.
const patience = 30 * time.Second

// Install writes an entry's files over an earlier entry's, and starts the job. Only the user who
// installs it can read the files, which may hold a secret.
func (e Entry) Install(ctx context.Context) error {
	for _, f := range e.Files {
		if ours, there, err := made(f.Path); err != nil || there && !ours {
			return errors.Join(err, fault.WithHint(fault.Usagef("%s is there already, and linerate did not make it", f.Path), "remove it by hand, if it is a leftover"))
		}
	}
	for _, f := range e.Files {
		err := os.MkdirAll(path.Dir(f.Path), 0o755)
		if err == nil {
			err = durable.Replace(durable.OS{}, f.Path, []byte(f.Text), 0o600)
		}
		if err != nil {
			return err
		}
	}
	return shell(ctx, e.Start)
}

// Remove stops the job and removes its files. It returns their paths, nil if no file exists.
func (e Entry) Remove(ctx context.Context) (gone []string, err error) {
	for _, f := range e.Files {
		ours, there, err := made(f.Path)
		switch {
		case err != nil:
			return gone, err
		case there && !ours:
			return gone, fault.Usagef("%s was not made by linerate and stays", f.Path)
		case there:
			gone = append(gone, f.Path)
		}
	}
	if len(gone) == 0 {
		return nil, nil
	}
	err = shell(ctx, e.Stop)
	for _, name := range gone {
		err = errors.Join(err, os.Remove(name))
	}
	return gone, errors.Join(err, shell(ctx, e.Gone))
}

func shell(ctx context.Context, text string) error {
	if text == "" {
		return nil
	}
	return command.Run(ctx, text, patience)
}
