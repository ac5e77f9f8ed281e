// Package must holds what tests check most. Do, Dof and Get end a test at an error that
// it does not expect, Need at a condition that does not hold. After the others a test that
// failed goes on. SkipIf skips a test. what is a format and its arguments, which name what
// failed.
package must

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// TB is the part of testing.TB that rapid.T has as well.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// Often returns few, or many if tests are to be thorough.
func Often(few, many int) int {
	if Slow {
		return many
	}
	return few
}

// Do ends t if err is not nil.
func Do(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Dof ends t if err is not nil, with what failed before the error.
func Dof(t TB, err error, what ...any) {
	t.Helper()
	if err != nil {
		t.Fatal(named(what) + err.Error())
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

// Err returns the error of a call that returns a value as well.
func Err[T any](_ T, err error) error { return err }

// OK reports err if it is not nil.
func OK(t TB, err error, what ...any) {
	t.Helper()
	if err != nil {
		t.Errorf("%s%v", named(what), err)
	}
}

// Fail reports that err is nil.
func Fail(t TB, err error, what ...any) {
	t.Helper()
	if err == nil {
		t.Errorf("%sno error", named(what))
	}
}

// Is reports err if errors.Is does not find target in it.
func Is(t TB, err, target error, what ...any) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s%v, want %v", named(what), err, target)
	}
}

// Say reports err if it is nil or does not contain text.
func Say(t TB, err error, text string, what ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s%v, want %q in it", named(what), err, text)
	}
}

// True reports a condition that does not hold: format and args say what is wrong.
func True(t TB, ok bool, format string, args ...any) {
	if !ok {
		t.Helper()
		t.Errorf("%s", fmt.Sprintf(format, args...))
	}
}

// Need ends t if a condition does not hold: format and args say what is wrong.
func Need(t TB, ok bool, format string, args ...any) {
	if !ok {
		t.Helper()
		t.Fatal(fmt.Sprintf(format, args...))
	}
}

// Skipper is the part of testing.TB that SkipIf needs.
type Skipper interface {
	Helper()
	Skip(args ...any)
}

// SkipIf skips t if this system lacks what it needs: format and args say what.
func SkipIf(t Skipper, lacking bool, format string, args ...any) {
	if lacking {
		t.Helper()
		t.Skip(fmt.Sprintf(format, args...))
	}
}

// Len reports list if it does not hold n values.
func Len[T any](t TB, list []T, n int, what ...any) {
	if len(list) != n {
		t.Helper()
		t.Errorf("%s%d, want %d, in %+v", named(what), len(list), n, list)
	}
}

// Same reports got if it does not hold the values of want in their order.
func Same[T comparable](t TB, got, want []T, what ...any) {
	if !slices.Equal(got, want) {
		t.Helper()
		t.Errorf("%s%+v, want %+v", named(what), got, want)
	}
}

// Contain reports text if it does not contain part.
func Contain(t TB, text, part string, what ...any) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%sno %q in:\n%s", named(what), part, text)
	}
}

// Equal reports got if it is not want.
func Equal[T comparable](t TB, got, want T, what ...any) {
	t.Helper()
	if got == want {
		return
	}
	format := "%s%+v, want %+v"
	if _, text := any(got).(string); text {
		format = "%s%q, want %q"
	}
	t.Errorf(format, named(what), got, want)
}

// NoDiff reports diff, of package cmp, if it is not empty.
func NoDiff(t TB, diff string, what ...any) {
	t.Helper()
	if diff != "" {
		t.Errorf("%s(-want +got):\n%s", named(what), diff)
	}
}

// named formats what, which names what failed, for the front of a message.
func named(what []any) string {
	if len(what) == 0 {
		return ""
	}
	return fmt.Sprintf(what[0].(string), what[1:]...) + ": "
}
