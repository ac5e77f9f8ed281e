package storetest

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/store"
)

// Notes demands that a note is kept whatever the session says later, is found and listed,
// and goes with an empty one.
func Notes(t *testing.T, s Store) {
	sess := small(1)
	create(t, s, sess)
	create(t, s, small(2))
	for _, note := range []string{"bad cable", "Übergang 3, after the new cable", ""} {
		if err := s.SetNote(t.Context(), sess.ID, note); err != nil {
			t.Fatal(err)
		}
		if err := s.UpdateSession(t.Context(), sess); err != nil { // as who measures it knows it
			t.Fatal(err)
		}
		if got := read(t, s, sess.ID).Note; got != note {
			t.Errorf("%q is read as %q", note, got)
		}
		items, err := s.Sessions(t.Context(), store.Filter{Text: strings.ToUpper(note), Limit: 1})
		if want := note; err != nil || len(items) != 1 || items[0].Note != want {
			t.Errorf("%q: %+v, %v", note, items, err)
		}
	}
}

// Import demands that sessions come from another store as they are there, all or none.
func Import(t *testing.T, s Store) {
	from := source{}
	var ids []string
	for n := range 3 {
		sess := Session(id(n)).Example(n)
		from[sess.ID] = sess
		ids = append(ids, sess.ID)
	}
	create(t, s, from[ids[2]])
	if err := s.Import(t.Context(), from, ids); !errors.Is(err, fs.ErrExist) {
		t.Errorf("one is there already: %v", err)
	}
	if err := s.Import(t.Context(), from, []string{ids[0], "nobody"}); err == nil {
		t.Error("one is not there")
	}
	if items, err := s.Sessions(t.Context(), store.Filter{}); err != nil || len(items) != 1 {
		t.Errorf("after imports that failed: %+v, %v", items, err)
	}
	if err := s.Import(t.Context(), from, ids[:2]); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if d := Diff(from[id], read(t, s, id)); d != "" {
			t.Errorf("there (-), here (+):\n%s", d)
		}
	}
	for _, r := range from[ids[0]].Runs {
		want := Samples().Example(r.Number)
		if got, err := s.Samples(t.Context(), ids[0], r.Number); err != nil || Diff(want, got) != "" {
			t.Errorf("samples: %v\n%s", err, Diff(want, got))
		}
	}
}

// source is a store in memory.
type source map[string]model.Session

func (s source) Session(_ context.Context, id string) (model.Session, error) {
	if sess, ok := s[id]; ok {
		return sess, nil
	}
	return model.Session{}, store.ErrNotFound
}

func (s source) EachSamples(_ context.Context, _ string, run int, f func([]model.Sample) error) error {
	for some := range slices.Chunk(Samples().Example(run), 2) {
		if err := f(some); err != nil {
			return err
		}
	}
	return nil
}
