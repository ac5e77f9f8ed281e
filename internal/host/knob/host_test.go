package knob_test

import (
	"testing"

	hostknob "linerate/internal/host/knob"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

func TestMemoryConforms(t *testing.T) {
	var m knobtest.Memory
	here, gone := hostknob.Place{Native: "a"}, hostknob.Place{Native: "b"}
	m.Set(here, "1 2  3")
	b := must.Get(m.Open(here))(t)
	knobtest.Run(t, knobtest.Case{Backend: b, Other: "4", Bad: []string{""}, Absent: must.Get(m.Open(gone))(t)})
}
