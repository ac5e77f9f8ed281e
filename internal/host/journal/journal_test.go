package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/host/durable"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/must"
)

func open(t *testing.T, dir string) *Journal {
	t.Helper()
	j := must.Get(Open(dir))(t)
	t.Cleanup(func() { must.OK(t, j.Close()) })
	return j
}

func appendAll(t *testing.T, j *Journal, records ...Record) {
	t.Helper()
	for _, r := range records {
		must.Dof(t, j.Append(r), "Append")
	}
}

func intent(transaction string, number int, was, new string) Record {
	return Record{
		Kind: KindIntent, Transaction: transaction, Number: number, Time: time.Unix(1_800_000_000, 0).UTC(),
		Intent: &Intent{
			Host: "near", Knob: "tcp.recv_buffer_max", Place: hostknob.Place{Mechanism: knob.Sysctl, Native: "net.ipv4.tcp_rmem"},
			Old: was, New: new, Deadline: time.Unix(1_800_000_060, 0).UTC(), Origin: Origin{Boot: "b", Netns: 7, PID: 9},
		},
	}
}

func end(k Kind, transaction string, number int) Record {
	return Record{Kind: k, Transaction: transaction, Number: number, Time: time.Unix(1_800_000_001, 0).UTC()}
}

func numbers(open []Unfinished) string {
	s := lists.Each(open, func(o Unfinished) string { return fmt.Sprintf("%s/%d", o.Transaction, o.Number) })
	return strings.Join(s, " ")
}

func TestRecordsSurviveReopening(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "state")
	j := open(t, dir)
	want := []Record{intent("t1", 1, "4096\t1\t2", "1 2 3"), {Kind: KindApplied, Transaction: "t1", Number: 1, Text: "1\t2\t3", Time: time.Unix(1, 0).UTC()}}
	appendAll(t, j, want...)
	must.Do(t, j.Close())
	must.OK(t, j.Close(), "second Close")
	j = open(t, dir)
	must.NoDiff(t, cmp.Diff(want, j.Records()))
	got := j.OpenIntents()
	must.True(t, numbers(got) == "t1/1" && slices.Equal(got[0].Wrote, []string{"1 2 3", "1\t2\t3"}), "OpenIntents = %+v", got)
	info, err := os.Stat(dir)
	must.True(t, err == nil && info.Mode().Perm()&0o077 == 0, "directory mode %v, %v: others may read it", info.Mode(), err)
}

func TestOpenIntents(t *testing.T) {
	for name, c := range map[string]struct {
		records []Record
		want    string
	}{
		"nothing":         {nil, ""},
		"oldest first":    {[]Record{intent("t", 1, "a", "b"), intent("t", 2, "a", "c"), intent("u", 1, "x", "y")}, "t/1 t/2 u/1"},
		"undone":          {[]Record{intent("t", 1, "a", "b"), intent("t", 2, "a", "c"), end(KindUndone, "t", 2)}, "t/1"},
		"foreign":         {[]Record{intent("t", 1, "a", "b"), end(KindForeign, "t", 1)}, ""},
		"failed":          {[]Record{intent("t", 1, "a", "b"), end(KindFailed, "t", 1)}, ""},
		"applied is open": {[]Record{intent("t", 1, "a", "b"), end(KindApplied, "t", 1)}, "t/1"},
		"closed ends all": {[]Record{intent("t", 1, "a", "b"), intent("t", 2, "a", "b"), end(KindClosed, "t", 0)}, ""},
	} {
		must.Equal(t, numbers(OpenIntents(c.records)), c.want, "%s", name)
	}
}

func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	_, err := Open(dir)
	must.Need(t, errors.Is(err, ErrLocked) && strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())),
		"second Open = %v, want ErrLocked and the holder", err)
	must.Do(t, first.Close())
	open(t, dir)
}

// between calls at before a file is locked.
type between struct {
	durable.OS
	at func()
}

type betweenFile struct {
	durable.File
	at func()
}

func (b between) Open(path string, flag int, mode fs.FileMode) (durable.File, error) {
	f, err := b.OS.Open(path, flag, mode)
	return betweenFile{f, b.at}, err
}

func (f betweenFile) Lock() error {
	f.at()
	return f.File.Lock()
}

// TestOneRetries: even if one ends while the next begins.
func TestOneRetries(t *testing.T) {
	dir := t.TempDir()
	end := must.Get(Dir{Path: dir}.Retry())(t)
	must.Is(t, must.Err(Dir{Path: dir}.Retry()), ErrLocked, "a second Retry")
	next := must.Get(Dir{Path: dir, FS: between{at: end}}.Retry())(t)
	must.Is(t, must.Err(Dir{Path: dir}.Retry()), ErrLocked, "Retry behind one that began while another ended")
	next()
	must.Get(Dir{Path: dir}.Retry())(t)()
}

func TestCompaction(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	for n := range 3 {
		appendAll(t, j, intent("old", n+1, "a", strings.Repeat("b", compactAbove/2)), end(KindUndone, "old", n+1))
	}
	appendAll(t, j, end(KindClosed, "old", 0), intent("live", 1, "a", "b"))
	must.Do(t, j.Close())
	j = open(t, dir)
	must.True(t, len(j.Records()) == 8, "a journal with an open intent was compacted on opening: %d records", len(j.Records()))
	must.Do(t, j.Compact())
	got := numbers(j.OpenIntents())
	must.True(t, got == "live/1" && len(j.Records()) == 1, "Compact left %d records, open %q", len(j.Records()), got)
	for n := range 3 { // too long again, and all of it over
		appendAll(t, j, intent("old", n+1, "a", strings.Repeat("b", compactAbove/2)))
	}
	appendAll(t, j, end(KindClosed, "old", 0), end(KindUndone, "live", 1))
	must.Do(t, j.Close())
	j = open(t, dir)
	for _, path := range Files(dir) {
		info, err := os.Stat(path)
		must.True(t, err == nil && info.Size() == 0 && len(j.Records()) == 0, "after reopening %d records, %v", len(j.Records()), err)
	}
	appendAll(t, j, intent("next", 1, "a", "b"))
}

func TestTextThatJSONCannotKeepIsRefused(t *testing.T) {
	j := open(t, t.TempDir())
	must.Say(t, j.Append(intent("t", 1, "\xff", "b")), "UTF-8", "Append")
	must.Equal(t, len(j.Records()), 0, "the record is there")
}

func TestOrigins(t *testing.T) {
	a, b := Origin{Boot: "1", Netns: 1}, Origin{Boot: "2", Netns: 2}
	must.True(t, !a.SameBoot(b) && !a.SameNamespace(b) && a.SameBoot(a) && a.SameNamespace(a), "different boots or namespaces are taken for the same")
	must.True(t, a.SameBoot(Origin{}) && a.SameNamespace(Origin{}), "unknown counts as different")
	must.Equal(t, Here().PID, os.Getpid(), "Here does not know this process")
}

func TestDefaultDir(t *testing.T) {
	t.Setenv("LINERATE_STATE", "/x/y")
	must.Equal(t, must.Get(DefaultDir())(t), "/x/y", "DefaultDir")
	t.Setenv("LINERATE_STATE", "")
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	want := filepath.Join(state, "linerate")
	if os.Geteuid() == 0 {
		want = "/var/lib/linerate"
	}
	must.Equal(t, must.Get(DefaultDir())(t), want, "DefaultDir")
}

func TestHeldSaysWhatIsOpen(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	j.Note("1 of 2 open: tcp.sack:\ndevice busy")
	_, err := Open(dir)
	held, ok := errors.AsType[*HeldError](err)
	must.True(t, ok && errors.Is(err, ErrLocked) && held.Undo == "1 of 2 open: tcp.sack: device busy" &&
		strings.Contains(err.Error(), fmt.Sprintf("an undo is still being retried by process %d, since 2", os.Getpid())),
		"Open = %v", err)
	j.Note("")
	_, err = Open(dir)
	must.True(t, errors.Is(err, ErrLocked) && !strings.Contains(err.Error(), "retried"), "Open = %v", err)
}

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
			last = !crashes(func() { must.OK(t, errors.Join(j.begin(), j.Append(end(KindClosed, "t", 0)), j.Compact())) })
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
	killed := func() { must.Do(t, os.WriteFile(half, []byte("t\n"), 0o600)) }
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
