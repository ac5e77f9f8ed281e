package must

import (
	"errors"
	"io"
	"testing"
)

// end is a test that keeps what ended it.
type end struct{ said []any }

func (e *end) Helper()           {}
func (e *end) Fatal(args ...any) { e.said = args }

func TestMust(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(TB, error)
		want string
	}{
		"Do":  {Do, "EOF"},
		"Dof": {func(t TB, err error) { Dof(t, err, "file %d", 3) }, "file 3: EOF"},
		"Get": {func(t TB, err error) { Get(1, err)(t) }, "EOF"},
	} {
		var good, bad end
		c.do(&good, nil)
		c.do(&bad, io.EOF)
		if good.said != nil || len(bad.said) != 1 || !says(bad.said[0], c.want) {
			t.Errorf("%s: %v without an error, %v with one", name, good.said, bad.said)
		}
	}
	if got := Get(7, error(nil))(t); got != 7 {
		t.Errorf("Get returns %d", got)
	}
}

func says(what any, want string) bool {
	if err, ok := what.(error); ok {
		return errors.Is(err, io.EOF) && err.Error() == want
	}
	return what == want
}
