package engines

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/traffic/packets"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/must"
)

// TestKnownMetrics: a reader with only a stored plan knows the metrics of each engine.
func TestKnownMetrics(t *testing.T) {
	for _, kind := range List(nil).Kinds() {
		f := model.Flow{Engine: kind.Name, Params: kind.Initial, Lead: time.Second}
		got, ok := metric.OfFlow(f)
		switch {
		case kind.Metrics == nil && kind.Command == "":
			t.Errorf("%s is compared by plans, and does not say what it measures", kind.Name)
		case kind.Metrics == nil:
		case !ok || !reflect.DeepEqual(got, kind.Metrics(f)):
			t.Errorf("%s: %+v is known, it measures %+v", kind.Name, got, kind.Metrics(f))
		}
	}
}

// TestParamsAreDescribed: docs/wire describes the parameters of each engine.
func TestParamsAreDescribed(t *testing.T) {
	text := must.Get(os.ReadFile("../../../docs/wire/params.md"))(t)
	for _, kind := range List(nil).Kinds() {
		must.Contain(t, string(text), "`"+kind.Name+"`", "%s is not described", kind.Name)
	}
	for _, p := range []any{udp.Params{}, requests.Params{}, probes.Params{}, sizes.Params{}, files.Params{}, packets.Params{}} {
		of := reflect.TypeOf(p)
		for field := range of.Fields() {
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			must.True(t, key != "" && strings.Contains(string(text), "`"+key+"`"), "%s: key %q of %s is not described", of.PkgPath(), key, field.Name)
		}
	}
}

func TestByName(t *testing.T) {
	seen := map[string]bool{}
	all := All(Options{State: t.TempDir()})
	for _, e := range all {
		must.True(t, !seen[e.Name()], "two engines are called %q", e.Name())
		seen[e.Name()] = true
		got, err := ByName(all, e.Name())
		must.True(t, err == nil && got.Name() == e.Name(), "ByName(%q) = %v, %v", e.Name(), got, err)
	}
	_, err := ByName(all, "carrier-pigeon")
	must.True(t, err != nil && strings.Contains(err.Error(), "carrier-pigeon") && strings.Contains(err.Error(), "tcpbulk"),
		"error %v names neither what was asked nor what there is", err)
}
