package regex

import (
	"testing"

	"linerate/internal/must"
)

// TestNew: a wrong expression ends every test program of its package.
func TestNew(t *testing.T) {
	must.True(t, New("^a+$").MatchString("aaa"), "aaa does not match")
	defer func() { must.True(t, recover() != nil, "a wrong expression is taken") }()
	New("(")
}
