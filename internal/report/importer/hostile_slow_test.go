//go:build slow

package importer

import "testing"

// TestHostileLargest: a file of the largest size is read or refused in a process with
// little memory, whatever is in it.
func TestHostileLargest(t *testing.T) { readHostile(t, int(MaxBytes), false) }
