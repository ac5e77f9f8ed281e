package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

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
