package journal

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
)

// Here returns the origin of changes that this process makes. What the system does not report
// is unknown.
func Here() Origin {
	o := here()
	o.PID = os.Getpid()
	return o
}

// SameBoot reports whether o and p are of the same boot of the machine; unknown counts as the
// same.
func (o Origin) SameBoot(p Origin) bool {
	return o.Boot == "" || p.Boot == "" || o.Boot == p.Boot
}

// SameNamespace reports whether o and p are in the same network namespace; unknown counts as
// the same. It is meaningful only within one boot.
func (o Origin) SameNamespace(p Origin) bool {
	return o.Netns == 0 || p.Netns == 0 || o.Netns == p.Netns
}

// DefaultDir returns the journal's directory for this user: LINERATE_STATE if it is set;
// /var/lib/linerate for root (Filesystem Hierarchy Standard 3.0 section 5.8); else linerate
// below XDG_STATE_HOME, by default ~/.local/state (XDG Base Directory Specification 0.8).
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
		home, err = u.HomeDir, nil // HOME is not set, as in a cron job
	}
	if err != nil {
		return "", fmt.Errorf("find a state directory: %w; set LINERATE_STATE", err)
	}
	return filepath.Join(home, ".local", "state", "linerate"), nil
}
