package target

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"linerate/internal/host/durable"
)

// Files of the user's configuration folder, with what linerate remembers of hosts.
const (
	knownFile = "known_servers" // the pin of each server that was named without one
	keepFile  = "kept_programs" // whether a copy of this program may stay on a host
)

// configVariable overrides the user's configuration folder.
const configVariable = "LINERATE_CONFIG"

// notes are words about hosts: a file with one line, HOST WORD, for each.
type notes struct{ path string }

// note opens the notes in a file of the configuration folder.
func note(getenv func(string) string, file string) (notes, error) {
	if dir := getenv(configVariable); dir != "" {
		return notes{filepath.Join(dir, file)}, nil
	}
	dir, err := os.UserConfigDir()
	if u, uerr := user.Current(); err != nil && uerr == nil && filepath.IsAbs(u.HomeDir) {
		dir, err = filepath.Join(u.HomeDir, ".config"), nil // HOME is not set, as in a cron job
	}
	if err != nil {
		return notes{}, fmt.Errorf("there is no folder to remember hosts in: %w", err)
	}
	return notes{filepath.Join(dir, "linerate", file)}, nil
}

// lines returns the lines of the file, none if there is no file yet.
func (n notes) lines() ([]string, error) {
	b, err := os.ReadFile(n.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what is remembered of hosts: %w", err)
	}
	return strings.Split(strings.TrimRight(string(b), "\n"), "\n"), nil
}

// of returns the words about a host.
func (n notes) of(host string) (words []string, err error) {
	lines, err := n.lines()
	for _, line := range lines {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == host {
			words = append(words, f[1])
		}
	}
	return words, err
}

// set makes word the only one about a host.
func (n notes) set(host, word string) error {
	lines, err := n.lines()
	if err != nil {
		return err
	}
	lines = slices.DeleteFunc(lines, func(line string) bool {
		f := strings.Fields(line)
		return len(f) == 0 || len(f) >= 2 && f[0] == host
	})
	if err := os.MkdirAll(filepath.Dir(n.path), 0o700); err != nil {
		return fmt.Errorf("remember %s: %w", host, err)
	}
	text := strings.Join(append(lines, host+" "+word), "\n") + "\n"
	if err := durable.Replace(durable.OS{}, n.path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("remember %s: %w", host, err)
	}
	return nil
}
