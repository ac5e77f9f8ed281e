package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"linerate/internal/must"
)

// TestCrashAtEveryByte: bytes reach the disk in the order in which Append writes them.
// Wherever that ends, the records that Append promised are there and nothing is damaged.
func TestCrashAtEveryByte(t *testing.T) {
	text, ends := sampleText(t)
	from := 0
	for i, to := range ends {
		for cut := from; cut <= to; cut++ {
			for name, copies := range map[string][2][]byte{"first": {text[:cut], text[:from]}, "second": {text[:to], text[:cut]}} {
				got, damage, dir := state(t, cut-from, copies[0], copies[1])
				want := sample()[:i]
				if name == "second" || cut >= to-1 { // a record without its line feed is a record
					want = sample()[:i+1]
				}
				must.Need(t, same(got, want) && len(damage) == 0,
					"record %d cut at byte %d of the %s copy: %d records, damage %v", i+1, cut-from, name, len(got), damage)
				expectKept(t, dir, false, nil)
			}
		}
		from = to
	}
}

// interrupted is the panic after which a process counts as gone.
type interrupted struct{}

// TestCrashWhileMending ends the process after every step of opening, appending and
// compacting: the next one has all records, and saves what is damaged.
func TestCrashWhileMending(t *testing.T) {
	text, ends := sampleText(t)
	flipped := bytes.Clone(text)
	flipped[ends[0]+30] ^= 4
	for name, c := range map[string]struct {
		a, b []byte
		want []Record
		lost bool
	}{
		"both whole": {text, text, sample(), false}, "no second": {text, nil, sample(), false},
		"first damaged": {flipped, text, sample(), false}, "second damaged": {text, flipped, sample(), false},
		"both damaged": {flipped, flipped, slices.Delete(sample(), 1, 2), true},
		"second torn":  {text, text[:ends[4]+5], sample(), false},
	} {
		for at, last := 1, false; !last; at++ {
			dir := put(t, c.a, c.b)
			n := 0
			l := must.Get(Dir{Path: dir}.acquire(lockName))(t)
			j := &Journal{dir: Dir{Path: dir}, lock: l, after: func(string) {
				if n++; n == at {
					panic(interrupted{})
				}
			}}
			last = !crashes(func() {
				must.OK(t, errors.Join(j.begin(), j.Append(end(KindClosed, "t", 0)), j.Compact()))
			})
			must.Do(t, j.Close()) // as at the end of the process
			records, damage := opened(t, dir)
			want := OpenIntents(c.want)
			got := OpenIntents(records)
			must.True(t, cmp.Equal(got, want, cmpopts.EquateEmpty()), "%s, step %d: open %+v", name, at, got)
			kept := must.Get(Unacknowledged(dir))(t)
			must.True(t, (len(kept) == 2) == c.lost && (c.lost || len(damage) == 0), "%s, step %d: kept %q, damage %v", name, at, kept, damage)
		}
	}
}

// crashes reports whether f was interrupted.
func crashes(f func()) (yes bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(interrupted); !ok {
				panic(r)
			}
			yes = true
		}
	}()
	f()
	return false
}

func TestConfirmedIntentsAreNotOpen(t *testing.T) {
	j := open(t, t.TempDir())
	appendAll(t, j, intent("t1", 1, "1", "2"), intent("t1", 2, "1", "2"), intent("t2", 1, "1", "2"),
		end(KindConfirmed, "t1", 0), end(KindClosed, "t2", 0))
	must.Equal(t, numbers(j.OpenIntents()), "", "open")
	must.Equal(t, numbers(j.ConfirmedIntents()), "t1/1 t1/2", "confirmed")
	err := j.Compact() // what the user may still undo is not dropped
	must.Need(t, err == nil, "%v", err)
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
		must.Equal(t, must.Get(j.Confirmation())(t), id)
	}
	for range 2 {
		must.OK(t, j.DropConfirmation())
	}
	left, _ := filepath.Glob(filepath.Join(dir, confirmationName+"*"))
	must.True(t, len(left) == 0, "left: %q", left)
	must.Fail(t, (Dir{Path: filepath.Join(dir, "none")}).Confirm("t"), "a directory that does not exist takes a confirmation")
	must.Do(t, os.Mkdir(filepath.Join(dir, confirmationName), 0o700))
	id, err = j.Confirmation()
	must.True(t, id == "" && err != nil, "unreadable: %q, %v", id, err)
	must.Fail(t, (Dir{Path: dir}).Confirm("t"), "a confirmation that cannot be put in place is no error")
}

// TestUnfinishedConfirmation has a process killed between writing a confirmation and giving
// it its name: it has no effect, and is removed. That needs no further Open, whether the
// process was killed before the journal was opened or since.
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
	must.Equal(t, must.Get(j.Confirmation())(t), "", "Confirmation")
	gone("opened")
}
