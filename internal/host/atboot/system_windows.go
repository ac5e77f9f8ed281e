package atboot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/windows"
)

const programName = "linerate.exe"

func executable(string) error { return nil }

// discard removes a program. A running one cannot be removed, but moved: it gets a name that
// nothing else will ever have, and Windows removes it at its next start (MoveFileEx,
// MOVEFILE_DELAY_UNTIL_REBOOT). Programs that were moved earlier, and no longer run, are
// removed now.
func discard(program string) (later string, err error) {
	dir := filepath.Dir(program)
	old, _ := filepath.Glob(filepath.Join(dir, "gone-*.exe"))
	for _, name := range old {
		if os.Remove(name) != nil {
			later = "its program ends with this process and goes at the next start of Windows"
		}
	}
	if err = os.Remove(program); err == nil || errors.Is(err, fs.ErrNotExist) {
		return later, nil
	}
	gone := filepath.Join(dir, "gone-"+strconv.FormatInt(time.Now().UnixNano(), 36)+".exe")
	if err := os.Rename(program, gone); err != nil {
		return "", err
	}
	name, err := windows.UTF16PtrFromString(gone)
	if err == nil {
		err = windows.MoveFileEx(name, nil, windows.MOVEFILE_DELAY_UNTIL_REBOOT)
	}
	if err != nil {
		return fmt.Sprintf("its program stays at %s: %v", gone, err), nil
	}
	return "its program is running and goes at the next start of Windows", nil
}
