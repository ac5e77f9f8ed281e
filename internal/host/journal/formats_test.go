package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
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
			if have, err := os.ReadFile(path); !bytes.Equal(have, c[i]) || err != nil {
				t.Errorf("%s: copy %d was changed: %v", name, i+1, err)
			}
		}
	}
}
