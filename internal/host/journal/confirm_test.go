package journal

import (
	"os"
	"path/filepath"
	"testing"

	"linerate/internal/must"
)

func TestConfirmedIntentsAreNotOpen(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	appendAll(t, j, intent("t1", 1, "1", "2"), intent("t1", 2, "1", "2"), intent("t2", 1, "1", "2"),
		end(KindConfirmed, "t1", 0), end(KindClosed, "t2", 0))
	must.Equal(t, numbers(j.OpenIntents()), "", "open")
	must.Equal(t, numbers(j.ConfirmedIntents()), "t1/1 t1/2", "confirmed")
	if err := j.Compact(); err != nil { // what a person may still undo is not dropped
		t.Fatal(err)
	}
	got := numbers(j.ConfirmedIntents())
	must.True(t, got == "t1/1 t1/2" && len(j.Records()) == 3, "confirmed after Compact: %s of %d records", got, len(j.Records()))
	appendAll(t, j, end(KindRevoked, "t1", 2))
	open, kept := numbers(j.OpenIntents()), numbers(j.ConfirmedIntents())
	must.True(t, open == "t1/2" && kept == "t1/1", "after one was revoked: open %s, confirmed %s", open, kept)
	appendAll(t, j, end(KindUndone, "t1", 2))
	must.Equal(t, numbers(j.ConfirmedIntents()), "t1/1", "confirmed")
	appendAll(t, j, end(KindForeign, "t1", 1))
	must.Equal(t, numbers(j.ConfirmedIntents()), "", "confirmed")
}

func TestStateOf(t *testing.T) {
	records := []Record{
		intent("pending", 1, "1", "2"), end(KindApplied, "pending", 1),
		intent("kept", 1, "1", "2"), end(KindConfirmed, "kept", 0),
		intent("back", 1, "1", "2"), end(KindUndone, "back", 1),
		intent("half back", 1, "1", "2"), intent("half back", 2, "1", "2"), end(KindUndone, "half back", 2),
		intent("revoked", 1, "1", "2"), intent("revoked", 2, "1", "2"), end(KindConfirmed, "revoked", 0), end(KindRevoked, "revoked", 1), end(KindRevoked, "revoked", 2), end(KindUndone, "revoked", 1),
		intent("kept and back", 1, "1", "2"), end(KindConfirmed, "kept and back", 0), end(KindClosed, "kept and back", 0),
	}
	for id, want := range map[string]State{
		"pending": Pending, "kept": Confirmed, "back": Over, "half back": Leaving, "revoked": Leaving, "kept and back": Over, "none": Unheard,
	} {
		must.Equal(t, StateOf(records, id), want, "%s", id)
	}
}

func TestConfirmation(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	id, err := j.Confirmation()
	must.True(t, id == "" && err == nil, "before: %q, %v", id, err)
	for _, id := range []string{"first", "second"} {
		must.Do(t, (Dir{Path: dir}).Confirm(id))
		got, err := j.Confirmation()
		must.True(t, got == id && err == nil, "%q, %v, want %q", got, err, id)
	}
	for range 2 {
		must.OK(t, j.DropConfirmation())
	}
	left, _ := filepath.Glob(filepath.Join(dir, confirmationName+"*"))
	must.True(t, len(left) == 0, "left: %q", left)
	must.Fail(t, (Dir{Path: filepath.Join(dir, "none")}).Confirm("t"), "a directory that does not exist takes a confirmation")
	must.Do(t, os.Mkdir(filepath.Join(dir, confirmationName), 0o700))
	if id, err := j.Confirmation(); id != "" || err == nil {
		t.Errorf("unreadable: %q, %v", id, err)
	}
	must.Fail(t, (Dir{Path: dir}).Confirm("t"), "a confirmation that cannot be put in place is no error")
}

// TestUnfinishedConfirmation has a process killed between writing a confirmation
// and giving it its name: it counts for nothing, and does not stay. Whether it was
// killed before the journal was opened or since, nobody has to open it once more.
func TestUnfinishedConfirmation(t *testing.T) {
	dir := t.TempDir()
	half := filepath.Join(dir, confirmationName+".4711")
	killed := func() {
		must.Do(t, os.WriteFile(half, []byte("t\n"), 0o600))
	}
	gone := func(when string) {
		_, err := os.Stat(half)
		must.True(t, os.IsNotExist(err), "%s it is still there: %v", when, err)
	}
	j := open(t, dir)
	appendAll(t, j, intent("t", 1, "1", "2"))
	killed()
	must.Do(t, j.Close())
	gone("closed")
	killed()
	j = open(t, dir)
	id, err := j.Confirmation()
	must.True(t, id == "" && err == nil, "Confirmation = %q, %v", id, err)
	gone("opened")
}
