package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"linerate/internal/core/lists"
	"linerate/internal/must"
)

// TestOneCopyDamaged cuts one copy at every byte, flips every bit of it, or removes it:
// nothing is lost.
func TestOneCopyDamaged(t *testing.T) {
	text, _ := sampleText(t)
	for which := range 2 {
		expect := func(n int, what string, spoilt []byte) {
			t.Helper()
			copies := [2][]byte{text, text}
			copies[which] = spoilt
			got, damage, dir := state(t, n, copies[0], copies[1])
			must.Need(t, same(got, sample()) && len(damage) == 0, "%s of copy %d: %d records, damage %v", what, which+1, len(got), damage)
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

// TestHealingIsWrittenDown: the journal records what was damaged in one copy.
func TestHealingIsWrittenDown(t *testing.T) {
	text, ends := sampleText(t)
	dir := put(t, text, flip(text, 8*(ends[2]+40)))
	opened(t, dir)
	records, _, err := Read(dir)
	i := slices.IndexFunc(records, func(r Record) bool { return r.Kind == KindHealed })
	must.True(t, i >= 0 && err == nil && records[i].Detail == "journal-b.jsonl line 4: checksum does not match", "%+v, %v", records, err)
}

// TestBothCopiesDamaged has the same damage in both: every record but the one hit is there,
// the damaged files are saved until the user has seen them, and the journal goes on.
func TestBothCopiesDamaged(t *testing.T) {
	text, ends := sampleText(t)
	for bit := 0; bit < 8*len(text); bit += stride {
		at, flipped := bit/8, flip(text, bit)
		hit := slices.IndexFunc(ends, func(e int) bool { return at < e })
		want := sample()
		if at != ends[hit]-1 { // a line feed between records is no record
			want = slices.Delete(want, hit, hit+1)
		}
		got, damage, dir := state(t, bit/stride, flipped, flipped)
		must.Need(t, same(got, want) && (len(damage) > 0) == (len(want) < len(ends)), "bit %d of byte %d: %d records, damage %v", bit%8, at, len(got), damage)
		expectKept(t, dir, len(damage) > 0, flipped)
	}
	for cut := range text {
		whole := lists.Count(ends, func(e int) bool { return e-1 <= cut })
		torn := !slices.Contains(ends, cut) && !slices.Contains(ends, cut+1) && cut > 0
		got, damage, dir := state(t, cut, text[:cut], text[:cut])
		must.Need(t, same(got, sample()[:whole]) && (len(damage) > 0) == torn, "cut at %d: %d records, want %d, damage %v", cut, len(got), whole, damage)
		expectKept(t, dir, torn, text[:cut])
	}
}

// TestDamageInDifferentRecords: what one copy has lost the other has.
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
			must.True(t, same(got, want) && (len(damage) > 0) == (i == k), "records %d and %d: %d records, damage %v", i+1, k+1, len(got), damage)
		}
	}
}

// TestMissingRecord: a line that is cleanly missing from both copies is detected.
func TestMissingRecord(t *testing.T) {
	text, ends := sampleText(t)
	less := slices.Concat(text[:ends[1]], text[ends[2]:])
	got, damage := opened(t, put(t, less, less))
	must.True(t, len(got) == 5 && len(damage) == 1 && strings.Contains(damage[0].String(), "record 3"), "%d records, damage %v", len(got), damage)
}

// TestDamageIsKeptOnce: names of saved files are never reused.
func TestDamageIsKeptOnce(t *testing.T) {
	dir := t.TempDir()
	for n := 1; n <= 3; n++ {
		for _, path := range Files(dir) {
			must.Do(t, os.WriteFile(path, fmt.Appendf(nil, "nonsense %d\n", n), 0o600))
		}
		opened(t, dir)
		if n == 2 {
			must.Get(Acknowledge(dir))(t)
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
	must.True(t, slices.Equal(names, want) && err == nil, "%q, %v", names, err)
	all, err := Unacknowledged(filepath.Join(dir, "none"))
	must.True(t, all == nil && err == nil, "of no directory: %q, %v", all, err)
}

func FuzzMerge(f *testing.F) {
	text, ends := sampleText(f)
	f.Add(text, text)
	f.Add(text[:ends[3]+7], text[:ends[3]])
	f.Add([]byte("{}\n\x00\x00\n"), text[ends[0]:])
	f.Add(slices.Concat(text[:ends[0]], text[ends[1]:]), bytes.Repeat([]byte(lineStart), 40))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		m := merge([2][]byte{a, b})
		for i, s := range m.scans {
			n := 0
			for _, r := range s.regions {
				n += r.bytes
			}
			must.True(t, n <= len(s.text) && (!s.exact || n <= 0), "copy %d: %d bytes of %d are no record, exact: %v", i+1, n, len(s.text), s.exact)
			for _, e := range s.entries {
				must.True(t, slices.ContainsFunc(m.entries, func(o entry) bool { return o.seq == e.seq }) || m.exact >= 0,
					"record %d of copy %d is forgotten", e.seq, i+1)
			}
		}
		must.True(t, slices.IsSortedFunc(m.entries, func(a, b entry) int { return int(int64(a.seq) - int64(b.seq)) }), "out of order")
		OpenIntents(m.records())
		entries, again, err := (&Journal{}).chain(m.entries)
		if err != nil {
			return // text that this program does not write
		}
		s := scan(again)
		must.True(t, s.exact && len(s.entries) == len(entries), "written anew, %d records become %d, exact: %v", len(entries), len(s.entries), s.exact)
	})
}

// FuzzSalvage puts any bytes between two records: both are found.
func FuzzSalvage(f *testing.F) {
	text, ends := sampleText(f)
	f.Add([]byte(""), []byte("\n"), []byte("#"))
	f.Add([]byte(lineStart), []byte("{}"), text[:ends[0]-2])
	f.Add([]byte("\x00\x00"), []byte("\"\\"), []byte(`{"crc":"00000000","v":1,"record":"`))
	f.Fuzz(func(t *testing.T, before, between, behind []byte) {
		s := scan(slices.Concat(before, text[:ends[0]], between, text[ends[0]:ends[1]], behind))
		for _, want := range []uint64{1, 2} {
			alien := slices.ContainsFunc(s.entries, func(e entry) bool { return !bytes.Contains(text, e.raw) || e.seq > 2 })
			must.True(t, alien || slices.ContainsFunc(s.entries, func(e entry) bool { return e.seq == want }), "record %d is lost", want)
		}
	})
}

// sample returns six records: one transaction that is over, one that is not.
func sample() []Record {
	return []Record{
		intent("t", 1, "4096\t131072\t33554432", "1 2 3"), end(KindUndone, "t", 1), end(KindClosed, "t", 0),
		intent("u", 1, "1", "0"), end(KindApplied, "u", 1), intent("u", 2, "a", "b"),
	}
}

// sampleText returns these as on disk, and where each of them ends.
func sampleText(t testing.TB) (text []byte, ends []int) {
	t.Helper()
	for i, r := range sample() {
		text = append(text, must.Get(encode(r, uint64(i+1), uint64(i), "1.4.0"))(t)...)
		ends = append(ends, len(text))
	}
	return text, ends
}

// put returns a state directory with these two copies; nil for none.
func put(t *testing.T, a, b []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for i, text := range [][]byte{a, b} {
		if text == nil {
			continue
		}
		must.Do(t, os.WriteFile(Files(dir)[i], text, 0o600))
	}
	return dir
}

// opened opens a state directory, checks that both copies are then equal and read the same
// again, and returns the records that it started with, without those of healing, and the
// damage.
func opened(t *testing.T, dir string) ([]Record, []Damage) {
	t.Helper()
	before, beforeLost, err := Read(dir)
	must.Do(t, err)
	j := must.Get(Open(dir))(t)
	records, damage := ours(j.Records()), j.Damage()
	if diff := cmp.Diff(ours(before), records, cmpopts.EquateEmpty()); diff != "" || len(beforeLost) != len(damage) {
		t.Fatalf("Read and Open differ: %s\n%v\n%v", diff, beforeLost, damage)
	}
	must.Do(t, errors.Join(j.Append(end(KindApplied, "later", 1)), j.Close()))
	var texts [2][]byte
	for i, path := range Files(dir) {
		texts[i], _ = os.ReadFile(path)
	}
	must.Need(t, scan(texts[0]).exact && bytes.Equal(texts[0], texts[1]), "the copies are not whole and alike:\n%q\n%q", texts[0], texts[1])
	after, again, err := Read(dir)
	diff := cmp.Diff(append(slices.Clone(records), end(KindApplied, "later", 1)), ours(after), cmpopts.EquateEmpty())
	must.Need(t, diff == "" && len(again) == 0 && err == nil, "after mending: %s\n%v, %v", diff, again, err)
	return records, damage
}

// disk: every disk-th case uses a directory, which takes a while; the others are only read.
const disk = 61

// stride is the distance between the flipped bits: one per byte, at a different place in each
// of eight bytes.
const stride = 7

// state is opened for every disk-th case, and the same without a disk for the others.
func state(t *testing.T, n int, a, b []byte) (records []Record, damage []Damage, dir string) {
	t.Helper()
	if n%disk == 0 {
		dir = put(t, a, b)
		records, damage = opened(t, dir)
		return records, damage, dir
	}
	m := merge([2][]byte{a, b})
	must.Do(t, m.newer(""))
	return m.records(), m.lost, ""
}

func ours(all []Record) []Record {
	return slices.DeleteFunc(slices.Clone(all), func(r Record) bool { return r.Kind == KindHealed })
}

func same(a, b []Record) bool { return cmp.Equal(a, b, cmpopts.EquateEmpty()) }

// flip returns text with one bit changed.
func flip(text []byte, bit int) []byte {
	flipped := bytes.Clone(text)
	flipped[bit/8] ^= 1 << (bit % 8)
	return flipped
}

// expectKept checks that damaged copies are saved until the user acknowledges them, and stay.
func expectKept(t *testing.T, dir string, lost bool, text []byte) {
	t.Helper()
	if dir == "" {
		return
	}
	kept, err := Unacknowledged(dir)
	must.Need(t, err == nil && (len(kept) == 2) == lost && (len(kept) == 0) != lost, "kept %q, %v, lost something: %v", kept, err, lost)
	done, err := Acknowledge(dir)
	must.Need(t, err == nil && len(done) == len(kept), "Acknowledge = %q, %v", done, err)
	for _, path := range done {
		have, err := os.ReadFile(path)
		must.Need(t, bytes.Equal(have, text) && err == nil, "%s is not what was there: %v", path, err)
	}
	left, err := Unacknowledged(dir)
	must.Need(t, len(left) == 0 && err == nil, "still %q, %v", left, err)
}

// BenchmarkAppend measures a record: the time of two fsyncs.
func BenchmarkAppend(b *testing.B) {
	j := must.Get(Open(b.TempDir()))(b)
	for b.Loop() {
		must.Do(b, j.Append(intent("t", 1, "4096\t131072\t33554432", "4096 65536 65536")))
	}
	must.Do(b, j.Close())
}

// TestNewerFormatIsLeftAlone: a record of a newer linerate is neither interpreted nor
// dropped, and the error names that linerate.
func TestNewerFormatIsLeftAlone(t *testing.T) {
	text, ends := sampleText(t)
	newer := `"v":2,"seq":7,"prev":6,"by":"9.8.7","mode":"unheard of","record":[1]}`
	for name, c := range map[string][2][]byte{
		"in both":   {fmt.Appendf(bytes.Clone(text), "%s%s\",%s\n", lineStart, checksum([]byte(newer)), newer), text},
		"in second": {text[:ends[2]], fmt.Appendf(nil, "%s%s\",%s\n", lineStart, checksum([]byte(newer)), newer)},
	} {
		dir := put(t, c[0], c[1])
		_, err := Open(dir)
		must.True(t, errors.Is(err, ErrNewer) && strings.Contains(err.Error(), "linerate 9.8.7") && strings.Contains(err.Error(), "version 2"),
			"%s: Open = %v", name, err)
		_, _, err = Read(dir)
		must.True(t, errors.Is(err, ErrNewer), "%s: Read = %v", name, err)
		for i, path := range Files(dir) {
			have, err := os.ReadFile(path)
			must.True(t, bytes.Equal(have, c[i]) && err == nil, "%s: copy %d was changed: %v", name, i+1, err)
		}
	}
}

// TestFormat1 has the lines of the first release: every later linerate must read them.
func TestFormat1(t *testing.T) {
	const line = `{"crc":"aa4a05ab","v":1,"seq":2,"prev":1,"record":{"kind":"applied","transaction":"t","number":1,"time":"2026-01-02T03:04:05Z"}}`
	e := must.Get(decode([]byte(line)))(t)
	must.Need(t, e.seq == 2 && e.prev == 1 && e.Kind == KindApplied && e.Transaction == "t" && e.Number == 1, "%+v", e)
	again := must.Get(encode(e.Record, e.seq, e.prev, ""))(t)
	must.True(t, string(again) == line+"\n", "%s", again)
}
