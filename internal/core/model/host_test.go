package model

import (
	"testing"

	"linerate/internal/must"
)

func TestHostNames(t *testing.T) {
	for word, want := range map[string]Host{"near": Near, "far": Far, "a": "", "b": "", "Far": "", "": ""} {
		h, ok := ParseHost(word)
		must.True(t, h == want && ok == (want != ""), "%q is host %q, %v", word, h, ok)
	}
	name := Far.Of("tcp.sack")
	must.True(t, name == "far.tcp.sack" && Host("").Of("window") == "window", "a knob of the far host is %s", name)
}
