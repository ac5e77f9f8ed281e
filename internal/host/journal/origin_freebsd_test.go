package journal

import (
	"os"
	"regexp"
	"testing"

	"linerate/internal/must"
)

// TestOriginOfThisStart: the ID of a boot is the same each time, and text that fits into a
// line of the journal. It is part of what the machine lab runs in FreeBSD.
func TestOriginOfThisStart(t *testing.T) {
	must.SkipIf(t, os.Getenv("LINERATE_MACHINE") == "", "may add to the kernel's environment: only where LINERATE_MACHINE says that the machine is for tests")
	first := Here()
	must.True(t, regexp.MustCompile(`^[0-9a-f.]{8,}$`).MatchString(first.Boot), "the start is %q", first.Boot)
	second := Here()
	must.True(t, second.Boot == first.Boot && second.SameBoot(first), "the start is %q, then %q", first.Boot, second.Boot)
}
