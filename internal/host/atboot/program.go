package atboot

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"linerate/internal/host/durable"
)

// copyProgram has a copy of linerate on disk and returns its size in bytes.
func (k Keeper) copyProgram() (size int64, err error) {
	from := k.Program
	if from == "" {
		if from, err = running(); err != nil {
			return 0, err
		}
	}
	in, err := os.Open(from)
	if err != nil {
		return 0, fmt.Errorf("copy linerate: %w", err)
	}
	defer in.Close()
	temp := k.program() + newSuffix
	out, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, fmt.Errorf("copy linerate: %w", err)
	}
	size, err = io.Copy(out, in)
	if err = errors.Join(err, seal(out, 0o700)); err == nil {
		err = os.Rename(temp, k.program())
	}
	if err == nil {
		err = errors.Join(durable.SyncDir(k.dir()), executable(k.program()))
	}
	if err != nil {
		return 0, fmt.Errorf("copy linerate: %w", err)
	}
	return size, nil
}

// plain fails for a state directory whose name would mean something else to one
// of those that read the job: systemd, sh, cron.
func plain(dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("state directory %q: want an absolute path", dir)
	}
	odd := func(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune("\"'`\\$", r) }
	if strings.ContainsFunc(dir, odd) || strings.TrimSpace(dir) != dir {
		return errors.New("the name of the state directory has quotes, $, a backslash, blanks at its end or invisible characters: choose another one with --state")
	}
	return nil
}

// shellLine is a line for sh that becomes the job. The names are plain.
func (k Keeper) shellLine() string {
	return fmt.Sprintf("exec '%s' undo --at-boot --state '%s'", k.program(), k.State)
}

// xmlText escapes text for XML.
func xmlText(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return b.String()
}

// windowsWord makes one argument of s as CommandLineToArgvW reads it: backslashes
// before a quote count, so those at the end are doubled. A file name of Windows
// has no quotes.
func windowsWord(s string) string {
	end := len(s) - len(strings.TrimRight(s, `\`))
	return `"` + s + strings.Repeat(`\`, end) + `"`
}
