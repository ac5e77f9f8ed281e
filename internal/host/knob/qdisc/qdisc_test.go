package qdisc

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

func TestParse(t *testing.T) {
	for raw, want := range map[string]string{
		"fq":                                     "default (fq)", // requested, without a handle: equal to no reading
		"default":                                "default (none)",
		"default (pfifo_fast)":                   "default (pfifo_fast)",
		"pfifo (handle 8001:)":                   "pfifo (handle 8001:)",
		"tbf (handle 1: options 00ff)":           "tbf (handle 1: options 00ff)",
		" fq_codel  (handle ffff:\toptions 01) ": "fq_codel (handle ffff: options 01)",
	} {
		s, err := parse(raw)
		got := s.text()
		must.True(t, got == want && err == nil, "parse(%q) = %q, %v, want %q", raw, got, err, want)
	}
	for _, bad := range []string{"", "fq (", "fq (handle)", "fq (handle 0:)", "fq (handle 12345:)", "fq (handle x:)", "fq (handle 1: options)", "fq (handle 1: options zz)", "FQ", "a b", "fq)", "a_name_that_is_too_long"} {
		must.Fail(t, must.Err(parse(bad)), "parse(%q)", bad)
	}
	must.Is(t, must.Err(parse("htb (handle 1: with filters)")), errors.ErrUnsupported, "a scheduler that is not known whole")
}

// TestTextIsAFixedPoint: parsing the text of a state returns that state.
func TestTextIsAFixedPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := state{
			kind: rapid.StringMatching(`[a-z_]{1,15}`).Draw(t, "kind"), handle: rapid.Uint32Range(0, 0xffff).Draw(t, "major") << 16,
			options: rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "options"),
		}
		if s.handle == 0 {
			s.options = nil
		}
		back, err := parse(s.text())
		must.Need(t, err == nil && back.text() == s.text(), "%q became %q, %v", s.text(), back.text(), err)
	})
}

func TestOnlySimpleKindsAreReplaced(t *testing.T) {
	for _, s := range []state{
		{kind: "htb", handle: 0x10000}, {kind: "prio", handle: 0x80010000}, {kind: "fq", handle: 0x10000, complex: "filters"}, {kind: "mq", complex: "other schedulers below it"},
	} {
		must.Is(t, s.restorable(), errors.ErrUnsupported, "%s may be replaced", s.text())
	}
	for _, s := range []state{{kind: "mq"}, {kind: "pfifo_fast"}, {kind: "fq", handle: 0x10000}, {}} {
		must.OK(t, s.restorable(), "%s may not be replaced", s.text())
	}
}

func FuzzParse(f *testing.F) {
	f.Add("fq (handle 8001: options 00)")
	f.Add("default (mq)")
	f.Fuzz(func(t *testing.T, raw string) {
		s, err := parse(raw)
		if err != nil {
			return
		}
		must.Equal(t, must.Get(parse(s.text()))(t).text(), s.text(), "parsed")
	})
}
