package kenv

import (
	"os"
	"strings"
	"testing"

	"linerate/internal/must"
)

func TestSetIsRead(t *testing.T) {
	must.SkipIf(t, os.Getenv("LINERATE_MACHINE") == "", "adds to the kernel's environment: only where LINERATE_MACHINE says that the machine is for tests")
	const name = "linerate.test"
	v, err := Get(name)
	must.Need(t, err != nil, "there already: %q", v)
	for _, value := range []string{"one", strings.Repeat("x", 127)} {
		must.Do(t, Set(name, value))
		must.Equal(t, must.Get(Get(name))(t), value)
	}
	must.Fail(t, Set(name, strings.Repeat("x", 128)), "128 bytes were taken")
}
