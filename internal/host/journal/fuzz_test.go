package journal

import (
	"bytes"
	"slices"
	"testing"

	"linerate/internal/must"
)

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
		j := &Journal{}
		entries, again, err := j.chain(m.entries)
		if err != nil {
			return // text that this program does not write
		}
		s := scan(again)
		must.True(t, s.exact && len(s.entries) == len(entries), "written anew, %d records become %d, exact: %v", len(entries), len(s.entries), s.exact)
	})
}

// FuzzSalvage puts anything between two records: both are found.
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
