package target

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"linerate/internal/must"
)

// Issue 10, item 16: the next lab removes the folder of a killed one; folders of running
// labs, and of others, stay.
func TestFirstHour16LabsAreSweptUp(t *testing.T) {
	dir := t.TempDir()
	for name, stays := range map[string]bool{
		fmt.Sprintf("%s%d-1", labFolder, os.Getpid()): true, labFolder + "4194305-2": false, // beyond the kernel's greatest PID
		labFolder + "-3": true, labFolder + "old": true, "mine-4194305-2": true,
	} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, name, "a"), 0o700))
		sweepLabs(dir)
		_, err := os.Stat(filepath.Join(dir, name))
		must.True(t, (err == nil) == stays, "%s: %v, want it to stay: %v", name, err, stays)
	}
}
