package must

import (
	"flag"
	"os"
	"strings"
)

var update = flag.Bool("update", false, "write the files that tests compare texts with")

// Updating reports whether the flag -update asks for the files anew.
func Updating() bool { return *update }

// Golden reports got if it is not the text of the file at path, which people have reviewed. With
// -update, it writes the file.
func Golden(t TB, path, got string) {
	t.Helper()
	if Updating() {
		Do(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want := string(Get(os.ReadFile(path))(t))
	if got == want {
		return
	}
	is, was := strings.Split(got, "\n"), strings.Split(want, "\n")
	line := 0
	for line < min(len(is), len(was))-1 && is[line] == was[line] {
		line++
	}
	t.Errorf("%s differs (renew it with -update): line %d is %q, and was %q; all of it:\n%s", path, line+1, is[line], was[line], got)
}
