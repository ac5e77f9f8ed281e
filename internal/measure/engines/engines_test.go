package engines

import (
	"strings"
	"testing"
)

func TestByName(t *testing.T) {
	seen := map[string]bool{}
	all := All(Options{State: t.TempDir()})
	for _, e := range all {
		if seen[e.Name()] {
			t.Errorf("two engines are called %q", e.Name())
		}
		seen[e.Name()] = true
		got, err := ByName(all, e.Name())
		if err != nil || got.Name() != e.Name() {
			t.Errorf("ByName(%q) = %v, %v", e.Name(), got, err)
		}
	}
	_, err := ByName(all, "carrier-pigeon")
	if err == nil || !strings.Contains(err.Error(), "carrier-pigeon") || !strings.Contains(err.Error(), "tcpbulk") {
		t.Errorf("error %v names neither what was asked nor what there is", err)
	}
}
