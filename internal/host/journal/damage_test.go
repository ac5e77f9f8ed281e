package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// sample are six records: one transaction that is over, one that is not.
func sample() []Record {
	return []Record{
		intent("t", 1, "4096\t131072\t33554432", "1 2 3"), end(KindUndone, "t", 1), end(KindClosed, "t", 0),
		intent("u", 1, "1", "0"), end(KindApplied, "u", 1), intent("u", 2, "a", "b"),
	}
}

// sampleText is what is on disk of them, and where each of them ends.
func sampleText(t testing.TB) (text []byte, ends []int) {
	t.Helper()
	for i, r := range sample() {
		raw, err := encode(r, uint64(i+1), uint64(i), "1.4.0")
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, raw...)
		ends = append(ends, len(text))
	}
	return text, ends
}

// lineOfV1 is a record as linerate wrote it before there were two copies.
func lineOfV1(t testing.TB, r Record) []byte {
	t.Helper()
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, `{"v":1,"crc":"%s","record":%s}`+"\n", checksum(body), body)
}

// put has a state directory with these two copies; nil is none.
func put(t *testing.T, a, b []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for i, text := range [][]byte{a, b} {
		if text == nil {
			continue
		}
		if err := os.WriteFile(Files(dir)[i], text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// opened opens a state directory, demands that both copies are one then and read
// the same again, and returns the records that it began with, without those of
// healing, and what is lost.
func opened(t *testing.T, dir string) ([]Record, []Damage) {
	t.Helper()
	before, beforeLost, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	j, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	records, damage := ours(j.Records()), j.Damage()
	if diff := cmp.Diff(ours(before), records, cmpopts.EquateEmpty()); diff != "" || len(beforeLost) != len(damage) {
		t.Fatalf("Read and Open differ: %s\n%v\n%v", diff, beforeLost, damage)
	}
	if err := errors.Join(j.Append(end(KindApplied, "later", 1)), j.Close()); err != nil {
		t.Fatal(err)
	}
	var texts [2][]byte
	for i, path := range Files(dir) {
		texts[i], _ = os.ReadFile(path)
	}
	if s := scan(texts[0]); !s.exact || !bytes.Equal(texts[0], texts[1]) {
		t.Fatalf("the copies are not whole and alike:\n%q\n%q", texts[0], texts[1])
	}
	after, again, err := Read(dir)
	if diff := cmp.Diff(append(slices.Clone(records), end(KindApplied, "later", 1)), ours(after), cmpopts.EquateEmpty()); diff != "" || len(again) > 0 || err != nil {
		t.Fatalf("after mending: %s\n%v, %v", diff, again, err)
	}
	return records, damage
}

// disk is how many of the many cases go through a directory, which takes a while;
// the others are only read.
const disk = 61

// stride is from one bit that is flipped to the next: every byte has one, and of
// eight bytes each has another.
const stride = 7

// state is opened for every disk-th case, and the same without a disk for others.
func state(t *testing.T, n int, a, b []byte) (records []Record, damage []Damage, dir string) {
	t.Helper()
	if n%disk == 0 {
		dir = put(t, a, b)
		records, damage = opened(t, dir)
		return records, damage, dir
	}
	m := merge([2][]byte{a, b})
	if err := m.newer(""); err != nil {
		t.Fatal(err)
	}
	return m.records(), m.lost, ""
}

func ours(all []Record) []Record {
	return slices.DeleteFunc(slices.Clone(all), func(r Record) bool { return r.Kind == KindHealed })
}

func same(a, b []Record) bool { return cmp.Equal(a, b, cmpopts.EquateEmpty()) }

// TestCrashAtEveryByte: bytes get to the disk in the order in which Append writes
// them. Wherever that ends, the promised records are there and nothing is damaged.
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
				if !same(got, want) || len(damage) > 0 {
					t.Fatalf("record %d cut at byte %d of the %s copy: %d records, damage %v", i+1, cut-from, name, len(got), damage)
				}
				expectKept(t, dir, false, nil)
			}
		}
		from = to
	}
}

// TestOneCopyDamaged cuts one copy at every byte, flips every bit of it, or takes
// it away: nothing is lost.
func TestOneCopyDamaged(t *testing.T) {
	text, _ := sampleText(t)
	for which := range 2 {
		expect := func(n int, what string, spoilt []byte) {
			t.Helper()
			copies := [2][]byte{text, text}
			copies[which] = spoilt
			got, damage, dir := state(t, n, copies[0], copies[1])
			if !same(got, sample()) || len(damage) > 0 {
				t.Fatalf("%s of copy %d: %d records, damage %v", what, which+1, len(got), damage)
			}
			expectKept(t, dir, false, nil)
		}
		expect(0, "absence", nil)
		for cut := range text {
			expect(cut, fmt.Sprintf("cut at %d", cut), text[:cut])
		}
		for bit := 0; bit < 8*len(text); bit += stride {
			expect(bit/stride, fmt.Sprintf("bit %d of byte %d", bit%8, bit/8), flip(text, bit))
		}
	}
}

// flip returns text with one bit changed.
func flip(text []byte, bit int) []byte {
	flipped := bytes.Clone(text)
	flipped[bit/8] ^= 1 << (bit % 8)
	return flipped
}

// TestHealingIsWrittenDown: the journal tells what was damaged in one copy.
func TestHealingIsWrittenDown(t *testing.T) {
	text, ends := sampleText(t)
	dir := put(t, text, flip(text, 8*(ends[2]+40)))
	opened(t, dir)
	records, _, err := Read(dir)
	if i := slices.IndexFunc(records, func(r Record) bool { return r.Kind == KindHealed }); i < 0 || err != nil ||
		records[i].Detail != "journal-b.jsonl line 4: checksum does not match" {
		t.Errorf("%+v, %v", records, err)
	}
}

// TestBothCopiesDamaged has the same damage in both: every record but the one that
// it hit is there, the files are kept as they were until a person has seen them,
// and the journal goes on.
func TestBothCopiesDamaged(t *testing.T) {
	text, ends := sampleText(t)
	for bit := 0; bit < 8*len(text); bit += stride {
		at, flipped := bit/8, flip(text, bit)
		hit := slices.IndexFunc(ends, func(e int) bool { return at < e })
		want := sample()
		if at != ends[hit]-1 { // what parts two records is none
			want = slices.Delete(want, hit, hit+1)
		}
		got, damage, dir := state(t, bit/stride, flipped, flipped)
		if !same(got, want) || (len(damage) > 0) != (len(want) < len(ends)) {
			t.Fatalf("bit %d of byte %d: %d records, damage %v", bit%8, at, len(got), damage)
		}
		expectKept(t, dir, len(damage) > 0, flipped)
	}
	for cut := range text {
		whole := 0
		for _, e := range ends {
			if e-1 <= cut {
				whole++
			}
		}
		torn := !slices.Contains(ends, cut) && !slices.Contains(ends, cut+1) && cut > 0
		got, damage, dir := state(t, cut, text[:cut], text[:cut])
		if !same(got, sample()[:whole]) || (len(damage) > 0) != torn {
			t.Fatalf("cut at %d: %d records, want %d, damage %v", cut, len(got), whole, damage)
		}
		expectKept(t, dir, torn, text[:cut])
	}
}

// expectKept demands that damaged copies are kept until a person acknowledges them,
// and stay.
func expectKept(t *testing.T, dir string, lost bool, text []byte) {
	t.Helper()
	if dir == "" {
		return
	}
	kept, err := Unacknowledged(dir)
	if err != nil || (len(kept) == 2) != lost || (len(kept) == 0) == lost {
		t.Fatalf("kept %q, %v, lost something: %v", kept, err, lost)
	}
	done, err := Acknowledge(dir)
	if err != nil || len(done) != len(kept) {
		t.Fatalf("Acknowledge = %q, %v", done, err)
	}
	for _, path := range done {
		if have, err := os.ReadFile(path); !bytes.Equal(have, text) || err != nil {
			t.Fatalf("%s is not what was there: %v", path, err)
		}
	}
	if left, err := Unacknowledged(dir); len(left) > 0 || err != nil {
		t.Fatalf("still %q, %v", left, err)
	}
}

// TestDamageInDifferentRecords: what one copy has lost the other one has.
func TestDamageInDifferentRecords(t *testing.T) {
	text, ends := sampleText(t)
	for i := range ends {
		for k := range ends {
			a, b := bytes.Clone(text), bytes.Clone(text)
			a[ends[i]-9] ^= 0x10
			b[ends[k]-9] ^= 0x10
			got, damage := opened(t, put(t, a, b))
			want := sample()
			if i == k {
				want = slices.Delete(want, i, i+1)
			}
			if !same(got, want) || (len(damage) > 0) != (i == k) {
				t.Errorf("records %d and %d: %d records, damage %v", i+1, k+1, len(got), damage)
			}
		}
	}
}

// TestMissingRecord: a line that is cleanly gone from both copies is missed.
func TestMissingRecord(t *testing.T) {
	text, ends := sampleText(t)
	less := slices.Concat(text[:ends[1]], text[ends[2]:])
	got, damage := opened(t, put(t, less, less))
	if len(got) != 5 || len(damage) != 1 || !strings.Contains(damage[0].String(), "record 3") {
		t.Errorf("%d records, damage %v", len(got), damage)
	}
}

// TestDamageIsKeptOnce: the names of kept files are never used again.
func TestDamageIsKeptOnce(t *testing.T) {
	dir := t.TempDir()
	for n := 1; n <= 3; n++ {
		for _, path := range Files(dir) {
			if err := os.WriteFile(path, fmt.Appendf(nil, "nonsense %d\n", n), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		opened(t, dir)
		if n == 2 {
			if _, err := Acknowledge(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	var names []string
	left, err := os.ReadDir(dir)
	for _, e := range left {
		names = append(names, e.Name())
	}
	want := []string{
		"journal-b.jsonl", "journal-b.jsonl.damaged-1.seen", "journal-b.jsonl.damaged-2.seen", "journal-b.jsonl.damaged-3",
		"journal.jsonl", "journal.jsonl.damaged-1.seen", "journal.jsonl.damaged-2.seen", "journal.jsonl.damaged-3", "lock",
	}
	if !slices.Equal(names, want) || err != nil {
		t.Errorf("%q, %v", names, err)
	}
	if all, err := Unacknowledged(filepath.Join(dir, "none")); all != nil || err != nil {
		t.Errorf("of no directory: %q, %v", all, err)
	}
}

// TestJournalOfOneCopy: what linerate wrote before there were two copies is read
// and becomes two, also when its last line is torn. What else is damaged in it
// has nobody to tell it.
func TestJournalOfOneCopy(t *testing.T) {
	var text []byte
	for _, r := range sample() {
		text = append(text, lineOfV1(t, r)...)
	}
	last := lineOfV1(t, end(KindUndone, "u", 2))
	for cut := 0; cut < len(last); cut = min(cut+9, max(cut+1, len(last)-3)) {
		want := sample()
		if cut == len(last)-1 {
			want = append(want, end(KindUndone, "u", 2))
		}
		if got, damage := opened(t, put(t, append(slices.Clone(text), last[:cut]...), nil)); !same(got, want) || len(damage) > 0 {
			t.Fatalf("cut at %d: %d records, damage %v", cut, len(got), damage)
		}
	}
	flipped := bytes.Replace(text, []byte(`"new":"0"`), []byte(`"new":"1"`), 1)
	dir := put(t, flipped, nil)
	got, damage := opened(t, dir)
	if want := slices.Delete(sample(), 3, 4); !same(got, want) || len(damage) == 0 || !strings.Contains(damage[len(damage)-1].String(), "journal.jsonl line 4: checksum") {
		t.Errorf("%d records, damage %v", len(got), damage)
	}
	if kept, err := Unacknowledged(dir); err != nil || len(kept) != 1 {
		t.Errorf("kept %q, %v", kept, err)
	}
}

// TestNewerFormatIsLeftAlone: a record of a newer linerate is neither guessed at
// nor dropped, and its linerate is named.
func TestNewerFormatIsLeftAlone(t *testing.T) {
	text, ends := sampleText(t)
	newer := `"v":3,"seq":7,"prev":6,"by":"9.8.7","mode":"unheard of","record":[1]}`
	for name, c := range map[string][2][]byte{
		"in both":   {fmt.Appendf(bytes.Clone(text), "%s%s\",%s\n", lineStart, checksum([]byte(newer)), newer), text},
		"in second": {text[:ends[2]], fmt.Appendf(nil, "%s%s\",%s\n", lineStart, checksum([]byte(newer)), newer)},
	} {
		dir := put(t, c[0], c[1])
		_, err := Open(dir)
		if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "linerate 9.8.7") || !strings.Contains(err.Error(), "version 3") {
			t.Errorf("%s: Open = %v", name, err)
		}
		if _, _, err := Read(dir); !errors.Is(err, ErrNewer) {
			t.Errorf("%s: Read = %v", name, err)
		}
		for i, path := range Files(dir) {
			if have, err := os.ReadFile(path); !bytes.Equal(have, c[i]) || err != nil {
				t.Errorf("%s: copy %d was changed: %v", name, i+1, err)
			}
		}
	}
}

// interrupted is the panic of a step after which the process is gone.
type interrupted struct{}

// TestCrashWhileMending ends the process after every step of opening, appending
// and compacting: the next one has all records, and keeps what is damaged.
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
			l, err := acquire(dir)
			if err != nil {
				t.Fatal(err)
			}
			j := &Journal{dir: dir, lock: l, after: func(string) {
				if n++; n == at {
					panic(interrupted{})
				}
			}}
			last = !crashes(func() {
				if err := errors.Join(j.begin(), j.Append(end(KindClosed, "t", 0)), j.Compact()); err != nil {
					t.Error(err)
				}
			})
			if err := j.Close(); err != nil { // as the end of the process does
				t.Fatal(err)
			}
			records, damage := opened(t, dir)
			want := OpenIntents(c.want)
			if got := OpenIntents(records); !cmp.Equal(got, want, cmpopts.EquateEmpty()) {
				t.Errorf("%s, step %d: open %+v", name, at, got)
			}
			kept, err := Unacknowledged(dir)
			if err != nil || (len(kept) == 2) != c.lost || !c.lost && len(damage) > 0 {
				t.Errorf("%s, step %d: kept %q, %v, damage %v", name, at, kept, err, damage)
			}
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

func FuzzMerge(f *testing.F) {
	text, ends := sampleText(f)
	v1 := lineOfV1(f, sample()[0])
	f.Add(text, text)
	f.Add(text[:ends[3]+7], text[:ends[3]])
	f.Add(v1, []byte{})
	f.Add([]byte("{}\n\x00\x00\n"), text[ends[0]:])
	f.Add(slices.Concat(text[:ends[0]], v1, text[ends[1]:]), bytes.Repeat([]byte(lineStart), 40))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		m := merge([2][]byte{a, b})
		for i, s := range m.scans {
			n := 0
			for _, r := range s.regions {
				n += r.bytes
			}
			if n > len(s.text) || s.exact && n > 0 {
				t.Errorf("copy %d: %d bytes of %d are no record, exact: %v", i+1, n, len(s.text), s.exact)
			}
			for _, e := range s.entries {
				if !slices.ContainsFunc(m.entries, func(o entry) bool { return o.seq == e.seq }) && m.exact < 0 {
					t.Errorf("record %d of copy %d is forgotten", e.seq, i+1)
				}
			}
		}
		if !slices.IsSortedFunc(m.entries, func(a, b entry) int { return int(int64(a.seq) - int64(b.seq)) }) {
			t.Error("out of order")
		}
		OpenIntents(m.records())
		j := &Journal{}
		entries, again, err := j.chain(m.entries)
		if err != nil {
			return // text that this program does not write
		}
		if s := scan(again); !s.exact || len(s.entries) != len(entries) {
			t.Errorf("written anew, %d records become %d, exact: %v", len(entries), len(s.entries), s.exact)
		}
	})
}

// FuzzSalvage puts anything between two records: both are found.
func FuzzSalvage(f *testing.F) {
	text, ends := sampleText(f)
	f.Add([]byte(""), []byte("\n"), []byte("#"))
	f.Add([]byte(lineStart), []byte(lineV1), text[:ends[0]-2])
	f.Add([]byte("\x00\x00"), []byte("\"\\"), []byte(`{"crc":"00000000","v":2,"record":"`))
	f.Fuzz(func(t *testing.T, before, between, behind []byte) {
		s := scan(slices.Concat(before, text[:ends[0]], between, text[ends[0]:ends[1]], behind))
		for _, want := range []uint64{1, 2} {
			alien := slices.ContainsFunc(s.entries, func(e entry) bool { return !bytes.Contains(text, e.raw) || e.seq > 2 })
			if !alien && !slices.ContainsFunc(s.entries, func(e entry) bool { return e.seq == want }) {
				t.Errorf("record %d is lost", want)
			}
		}
	})
}

func TestHeldSaysWhatIsOpen(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	j.Note("1 of 2 open: tcp.sack:\ndevice busy")
	_, err := Open(dir)
	held, ok := errors.AsType[*HeldError](err)
	if !ok || !errors.Is(err, ErrLocked) || held.Undo != "1 of 2 open: tcp.sack: device busy" ||
		!strings.Contains(err.Error(), fmt.Sprintf("an undo is still being retried by process %d, since 2", os.Getpid())) {
		t.Errorf("Open = %v", err)
	}
	j.Note("")
	if _, err := Open(dir); !errors.Is(err, ErrLocked) || strings.Contains(err.Error(), "retried") {
		t.Errorf("Open = %v", err)
	}
}
