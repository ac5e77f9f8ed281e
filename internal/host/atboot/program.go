package atboot

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"linerate/internal/host/durable"
)

// copyProgram writes a copy of linerate to disk and returns its size in bytes.
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
	err = durable.Fill(temp, 0o700, func(out *os.File) error {
		size, err = io.Copy(out, in)
		return err
	})
	if err == nil {
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

// plain refuses a state directory whose name would mean something else to a reader of the
// job: systemd, sh or cron.
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

// shellLine returns a line for sh that execs the job. The names are plain.
func (k Keeper) shellLine() string {
	return fmt.Sprintf("exec '%s' undo --at-boot --state '%s'", k.program(), k.State)
}

// windowsWord quotes s as one argument for CommandLineToArgvW: backslashes before a quote
// count, so those at the end are doubled. A Windows file name has no quotes.
func windowsWord(s string) string {
	end := len(s) - len(strings.TrimRight(s, `\`))
	return `"` + s + strings.Repeat(`\`, end) + `"`
}
