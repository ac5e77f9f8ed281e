// Package timer has the system of this machine run a command again and again: a timer of
// systemd, a file of cron, or a job of launchd.
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

// Job is what is run again and again.
type Job struct {
	Name  string // "linerate-watch"
	What  string // for people, in a few words
	Argv  []string
	Quiet string // a word more for cron, which mails all that is said
	Every time.Duration
}

// Machine is where it is run.
type Machine struct {
	OS     string // GOOS
	Root   bool   // for the whole machine; else for a user
	User   string // number
	Home   string
	Exists func(path string) bool
}

// Here is this machine.
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

// File is one that a job consists of.
type File struct{ Path, Text string }

// Entry is all that a system needs to run a job.
type Entry struct {
	Files []File
	Start string // commands of the shell that begin it
	Stop  string // that end it
	Gone  string // after its files went away
	Note  string // what else a person has to know
}

// marker is in every file, so that no other one is ever replaced or removed.
const marker = "Made by linerate, which removes it again: linerate watch --remove"

// Entry returns what has m run j. Its error, of kind fault.Unsupported, says what to do by
// hand.
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

// systemd is a service and a timer (systemd.timer(5)).
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

// launchd is a job of launchd.plist(5).
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

// cron is a file of /etc/cron.d (crontab(5)), which the cron of most Linux and that of FreeBSD
// read.
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

// cronTime is the time fields of a crontab(5).
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

// made reports whether the file in a place is of a job, and whether one is there.
func made(path string) (ours, there bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	return strings.Contains(string(text), strings.SplitN(marker, ":", 2)[0]), true, err
}

// patience bounds the commands of a system.
const patience = 30 * time.Second

// Install puts an entry in place of the one before, and begins it. Only those who install it can
// read its files, which may hold a secret.
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

// Remove ends what Install began and returns the files that went away, none where there are
// none.
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
