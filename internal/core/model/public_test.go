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
