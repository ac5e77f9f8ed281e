package storetest

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/store"
	"linerate/internal/store/tables"
)

// Notes demands that a note is kept across later updates of the session, is found and listed,
// and is removed by an empty one.
func Notes(t *testing.T, s Store) {
	sess := small(1)
	create(t, s, sess)
	create(t, s, small(2))
	for _, note := range []string{"bad cable", "Übergang 3, after the new cable", ""} {
		if err := s.SetNote(t.Context(), sess.ID, note); err != nil {
			t.Fatal(err)
		}
		if err := s.UpdateSession(t.Context(), sess); err != nil { // as the measuring process knows it
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

// Import demands that sessions are copied unchanged from another store, all or none.
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

func (s source) Pieces(_ context.Context, id string) iter.Seq2[tables.Piece, error] {
	return func(yield func(tables.Piece, error) bool) {
		sess, ok := s[id]
		if !ok {
			yield(tables.Piece{}, store.ErrNotFound)
			return
		}
		runs := sess.Runs
		sess.Runs = nil
		all := []tables.Piece{{Session: &sess}}
		for i := range runs {
			all = append(all, tables.Piece{Run: &runs[i]})
			for some := range slices.Chunk(Samples().Example(runs[i].Number), 2) {
				all = append(all, tables.Piece{Samples: some})
			}
		}
		for _, p := range all {
			if !yield(p, nil) {
				return
			}
		}
	}
}
