package journal

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestHeldSaysWhatIsOpen(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	j.Note("1 of 2 open: tcp.sack:\ndevice busy")
	_, err := Open(dir)
	held, ok := errors.AsType[*HeldError](err)
	if !ok || !errors.Is(err, ErrLocked) || held.Undo != "1 of 2 open: tcp.sack: device busy" ||
		!strings.Contains(err.Error(), fmt.Sprintf("an undo is still being retried by process %d, since 2", os.Getpid())) {
		t.Errorf("Open = %v", err)
	}
	j.Note("")
	if _, err := Open(dir); !errors.Is(err, ErrLocked) || strings.Contains(err.Error(), "retried") {
		t.Errorf("Open = %v", err)
	}
}
