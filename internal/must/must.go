// Package must ends a test at an error that the test does not expect.
package must

import "fmt"

// TB is the part of testing.TB that rapid.T has as well.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// Do ends t if err is not nil.
func Do(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Dof ends t if err is not nil, with what failed before the error.
func Dof(t TB, err error, format string, args ...any) {
	t.Helper()
	if err != nil {
		t.Fatal(fmt.Sprintf(format, args...) + ": " + err.Error())
	}
}

// Get returns the function that returns v, or ends its test if err is not nil:
// must.Get(os.ReadFile(path))(t).
func Get[T any](v T, err error) func(TB) T {
	return func(t TB) T {
		t.Helper()
		Do(t, err)
		return v
	}
}
