package model

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// fill puts a mark into every text of v, however deep, and 1 into every number.
func fill(v reflect.Value) {
	if v.CanAddr() {
		switch f := v.Addr().Interface().(type) {
		case *fact.Of[string]:
			*f = fact.Known("MARK", "MARK of a source")
			return
		case *fact.Of[[]string]:
			*f = fact.Known([]string{"MARK"}, "MARK of a source")
			return
		case *fact.Of[int]:
			*f = fact.Unknown[int]("MARK of a reason")
			return
		case *fact.Of[units.BitRate]:
			*f = fact.Unknown[units.BitRate]("MARK of a reason")
			return
		}
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("MARK")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	default: // a number holds no text
	}
}

// TestPublicIsAList has a host of which every field holds something, also those
// that come to be: only what is on the list is told.
func TestPublicIsAList(t *testing.T) {
	var f HostFacts
	fill(reflect.ValueOf(&f).Elem())
	for _, s := range []*string{&f.OS, &f.Arch, &f.Version, &f.Address} {
		*s = "told"
	}
	f.Host, f.Congestion, f.Qdisc = Far, fact.Known("cubic", "MARK"), fact.Known("fq", "MARK")
	f.Knobs["tcp.sack"] = fact.Known("1", "MARK")
	b := must.Get(json.Marshal(f.Public()))(t)
	must.True(t, !strings.Contains(string(b), "MARK"), "told: %s", b)
	for _, want := range []string{`"cubic"`, `"fq"`, `"tcp.sack"`, `"told"`} {
		must.Contain(t, string(b), want)
	}
}

// TestEndNames: ends beside each other have names by which they can be told apart.
func TestEndNames(t *testing.T) {
	for _, c := range []struct{ targets, want []string }{
		{[]string{"root@nas", "pi:5299", "nas2"}, []string{"nas", "pi", "nas2"}},
		{[]string{"nas:5299", "nas:5300"}, []string{"nas", "nas:5300"}},
		{[]string{"exec:10.99.0.2 a", "exec:10.99.0.2 b", "nas"}, []string{"exec:10.99.0.2 a", "exec:10.99.0.2 b", "nas"}},
		{[]string{"linerate://K1@nas", "linerate://K2@nas"}, []string{"linerate://K1@nas", "linerate://K2@nas"}},
		{[]string{"root@nas", "root@nas"}, []string{"nas", "nas"}},
	} {
		must.Same(t, EndNames(c.targets), c.want, "%q", c.targets)
	}
}

// TestNames: the far end is called what the person called it, and the near one what it
// calls itself.
func TestNames(t *testing.T) {
	for _, c := range []struct{ near, far, nearSelf, farSelf, arrow, way string }{
		{ThisMachine, "db1", "desk", "vm7", "desk -> db1", "from db1"},
		{ThisMachine, "root@10.0.0.7", "desk", "vm7", "desk -> 10.0.0.7", "from 10.0.0.7"},
		{"root@db0", "ssh://root@db1:2222", "vm6", "vm7", "db0 -> db1:2222", "from db1:2222"},
		{ThisMachine, "linerate://PIN.SECRET@nas:5299", "", "vm7", "this machine -> nas", "from nas"},
		{ThisMachine, "exec:10.0.0.2 ip netns exec b linerate agent", "desk", "desk", "desk -> 10.0.0.2", "from 10.0.0.2"},
		{ThisMachine, "iperf3://[fd00::2]:5201", "desk", "", "desk -> [fd00::2]:5201", "from [fd00::2]:5201"},
		{ThisMachine, "root@desk", "desk", "desk", "desk (near) -> desk (far)", "from desk (far)"},
		{"lab:rate=1gbit", "lab:rate=1gbit", "near", "far", "near -> far", "from far"},
		{"10.0.0.9", ThisMachine, "", "desk", "10.0.0.9 -> desk", "from desk"},
		{"", "", "", "", "near -> far", "from far"},
	} {
		s := Session{Near: c.near, Far: c.far, Hosts: []HostFacts{{Host: Near, Name: c.nearSelf}, {Host: Far, Name: c.farSelf}}}
		n := s.Names()
		must.Equal(t, n.Arrow(To), c.arrow, "%+v", c)
		must.Equal(t, n.Way(From), c.way, "%+v", c)
	}
}
