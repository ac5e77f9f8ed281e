package knob_test

import (
	"testing"

	hostknob "linerate/internal/host/knob"
	"linerate/internal/host/knob/knobtest"
)

func TestMemoryConforms(t *testing.T) {
	var m knobtest.Memory
	here, gone := hostknob.Place{Native: "a"}, hostknob.Place{Native: "b"}
	m.Set(here, "1 2  3")
	b, err := m.Open(here)
	if err != nil {
		t.Fatal(err)
	}
	absent, err := m.Open(gone)
	if err != nil {
		t.Fatal(err)
	}
	knobtest.Run(t, knobtest.Case{Backend: b, Other: "4", Bad: []string{""}, Absent: absent})
}
