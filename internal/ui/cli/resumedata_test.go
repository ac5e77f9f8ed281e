package cli

import (
	"strings"
	"testing"

	"linerate/internal/must"
)

// TestDataOfAResumedSession: the budget of data may be given anew with more blocks, and
// with them only.
func TestDataOfAResumedSession(t *testing.T) {
	for _, c := range []struct {
		flags string
		bad   bool
	}{{"data", true}, {"data max-blocks", false}, {"margin max-blocks", true}} {
		err := (&runFlags{}).onlyResume(func(flag string) bool { return strings.Contains(" "+c.flags+" ", " "+flag+" ") })
		must.Equal(t, (err != nil), c.bad, "%s: %v", c.flags, err)
	}
}
