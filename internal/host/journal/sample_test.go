package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"linerate/internal/must"
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
		raw := must.Get(encode(r, uint64(i+1), uint64(i), "1.4.0"))(t)
		text = append(text, raw...)
		ends = append(ends, len(text))
	}
	return text, ends
}

// put has a state directory with these two copies; nil is none.
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

// opened opens a state directory, demands that both copies are one then and read
// the same again, and returns the records that it began with, without those of
// healing, and what is lost.
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
	s := scan(texts[0])
	must.Need(t, s.exact && bytes.Equal(texts[0], texts[1]), "the copies are not whole and alike:\n%q\n%q", texts[0], texts[1])
	after, again, err := Read(dir)
	diff := cmp.Diff(append(slices.Clone(records), end(KindApplied, "later", 1)), ours(after), cmpopts.EquateEmpty())
	must.Need(t, diff == "" && len(again) == 0 && err == nil, "after mending: %s\n%v, %v", diff, again, err)
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

// expectKept demands that damaged copies are kept until a person acknowledges them,
// and stay.
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

// BenchmarkAppend is what a record costs: the time of two fsyncs.
func BenchmarkAppend(b *testing.B) {
	j := must.Get(Open(b.TempDir()))(b)
	for b.Loop() {
		must.Do(b, j.Append(intent("t", 1, "4096\t131072\t33554432", "4096 65536 65536")))
	}
	must.Do(b, j.Close())
}

// TestNewerFormatIsLeftAlone: a record of a newer linerate is neither guessed at
// nor dropped, and its linerate is named.
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

// TestFormat1 holds the lines of the first release: every later linerate reads them.
func TestFormat1(t *testing.T) {
	const line = `{"crc":"aa4a05ab","v":1,"seq":2,"prev":1,"record":{"kind":"applied","transaction":"t","number":1,"time":"2026-01-02T03:04:05Z"}}`
	e := must.Get(decode([]byte(line)))(t)
	must.Need(t, e.seq == 2 && e.prev == 1 && e.Kind == KindApplied && e.Transaction == "t" && e.Number == 1, "%+v", e)
	again := must.Get(encode(e.Record, e.seq, e.prev, ""))(t)
	must.True(t, string(again) == line+"\n", "%s", again)
}
