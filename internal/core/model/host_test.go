package model

import "testing"

func TestHostNames(t *testing.T) {
	for word, want := range map[string]Host{"near": Near, "far": Far, "a": "", "b": "", "Far": "", "": ""} {
		if h, ok := ParseHost(word); h != want || ok != (want != "") {
			t.Errorf("%q is host %q, %v", word, h, ok)
		}
	}
	if name := Far.Of("tcp.sack"); name != "far.tcp.sack" || Host("").Of("window") != "window" {
		t.Errorf("a knob of the far host is %s", name)
	}
}
