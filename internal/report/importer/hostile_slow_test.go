//go:build slow

package importer

import "testing"

// TestHostileLargest reads files of the largest allowed size, whatever they hold, in a process
// with little memory.
func TestHostileLargest(t *testing.T) { readHostile(t, int(MaxBytes), false) }
