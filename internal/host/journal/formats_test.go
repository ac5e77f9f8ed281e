package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"linerate/internal/must"
)

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
		if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "linerate 9.8.7") || !strings.Contains(err.Error(), "version 2") {
			t.Errorf("%s: Open = %v", name, err)
		}
		if _, _, err := Read(dir); !errors.Is(err, ErrNewer) {
			t.Errorf("%s: Read = %v", name, err)
		}
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
