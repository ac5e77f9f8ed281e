package probe

import (
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

func TestLost(t *testing.T) {
	before := []Result{{Target: "a", OK: true}, {Target: "a", Full: true}, {Target: "b", OK: true}, {Target: "b", Full: true, Bytes: 1500, OK: true}}
	after := []Result{{Target: "a", OK: true}, {Target: "a", Full: true}, {Target: "b", OK: true}, {Target: "b", Full: true, Bytes: 9000, Detail: "no answer in time"}, {Target: "new"}}
	got := Lost(before, after)
	must.True(t, len(got) == 1 && got[0].String() == "b (packets of 9000 bytes) does not answer: no answer in time", "%+v", got)
	must.Len(t, Lost(before, before), 0, "of itself")
}

func TestValid(t *testing.T) {
	for target, ok := range map[string]bool{
		"10.0.0.1": true, "nas:22": true, "https://example.net/": true, "": false, "ftp://example.net": false, "a b": false, strings.Repeat("x", 3000): false,
	} {
		must.Equal(t, Valid(target) == nil, ok, "%.20q", target)
	}
}

func TestPathOf(t *testing.T) {
	answers := []Result{
		{Target: "10.0.0.9"},
		{Target: "path://10.0.0.2/9000", Full: true, Bytes: 1500, Detail: "1500 bytes pass, 1501 do not: no answer in time"},
		{Target: "address path://10.0.0.2/9000", OK: true, Detail: "10.0.0.2"},
		{Target: "router path://10.0.0.2/9000", Bytes: 1500, OK: true, Detail: "10.0.0.1"},
		{Target: "path://b/9000", Bytes: 4000, Detail: "at least 4000 bytes pass, 4050 do not"},
	}
	p, ok := PathOf(answers, "path://10.0.0.2/9000")
	want := (Path{Host: "10.0.0.2", Address: "10.0.0.2", Asked: 9000, Passes: 1500, Exact: true, Router: "10.0.0.1", Reported: true, MTU: 1500})
	must.True(t, ok && p == want, "%+v", p)
	p, ok = PathOf(answers, "path://b/9000")
	must.True(t, ok && !p.Exact && !p.Reported && p.Passes == 4000, "%+v", p)
	_, ok = PathOf(answers, "path://b/1500")
	must.True(t, !ok, "an answer to another question")
}

func TestValidPath(t *testing.T) {
	for target, ok := range map[string]bool{
		"path://10.0.0.1/1500": true, "path://fe80::1%eth0/1500": true, "small://10.0.0.1": true, "path://10.0.0.1": false,
		"path://10.0.0.1/70000": false, "path:///1500": false,
		"path://b/1500?bind=10.0.0.2&bind_dev=v1&dscp=46": true, "path://b/1500?bind=b": false, "path://b/1500?dscp=64": false, "path://b/1500?bind_dev=a+b": false,
		PathFrom(model.Egress{Bind: "fe80::1%eth0", DSCP: 8}, "fe80::2%eth0", 1500): true, "small://": false, "path://a/b/1500": false, "path://a/x": false,
	} {
		must.Equal(t, Valid(target) == nil, ok, "%s", target)
	}
}
