package journal

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
)

// Here returns the origin of changes that this process makes. What this system
// does not tell is left unknown.
func Here() Origin {
	o := here()
	o.PID = os.Getpid()
	return o
}

// SameBoot reports whether the machine was not restarted between o and p, as
// far as that is known: unknown counts as the same.
func (o Origin) SameBoot(p Origin) bool {
	return o.Boot == "" || p.Boot == "" || o.Boot == p.Boot
}

// SameNamespace reports whether o and p saw the same network settings, as far
// as that is known. It means something within one boot only.
func (o Origin) SameNamespace(p Origin) bool {
	return o.Netns == 0 || p.Netns == 0 || o.Netns == p.Netns
}

// DefaultDir returns where the journal of this user is: LINERATE_STATE where
// it is set; /var/lib/linerate for root (the Filesystem Hierarchy Standard 3.0
// section 5.8); else linerate below XDG_STATE_HOME, which is ~/.local/state by
// default (XDG Base Directory Specification 0.8).
func DefaultDir() (string, error) {
	if dir := os.Getenv("LINERATE_STATE"); dir != "" {
		return dir, nil
	}
	if os.Geteuid() == 0 {
		return "/var/lib/linerate", nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "linerate"), nil
	}
	home, err := os.UserHomeDir()
	if u, uerr := user.Current(); err != nil && uerr == nil && filepath.IsAbs(u.HomeDir) {
		home, err = u.HomeDir, nil // HOME is not set, as in a job of cron
	}
	if err != nil {
		return "", fmt.Errorf("find a state directory: %w; set LINERATE_STATE", err)
	}
	return filepath.Join(home, ".local", "state", "linerate"), nil
}
