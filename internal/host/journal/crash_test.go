package journal

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"linerate/internal/must"
)

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
				must.Need(t, same(got, want) && len(damage) == 0,
					"record %d cut at byte %d of the %s copy: %d records, damage %v", i+1, cut-from, name, len(got), damage)
				expectKept(t, dir, false, nil)
			}
		}
		from = to
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
			l := must.Get(Dir{Path: dir}.acquire(lockName))(t)
			j := &Journal{dir: Dir{Path: dir}, lock: l, after: func(string) {
				if n++; n == at {
					panic(interrupted{})
				}
			}}
			last = !crashes(func() {
				must.OK(t, errors.Join(j.begin(), j.Append(end(KindClosed, "t", 0)), j.Compact()))
			})
			if err := j.Close(); err != nil { // as the end of the process does
				t.Fatal(err)
			}
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
