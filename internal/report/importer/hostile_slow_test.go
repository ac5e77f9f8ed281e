//go:build slow

package importer

import "testing"

// TestHostileLargest: a file as large as it may be is read in a process with little
// memory, whatever is in it.
func TestHostileLargest(t *testing.T) { readHostile(t, int(MaxBytes), false) }
