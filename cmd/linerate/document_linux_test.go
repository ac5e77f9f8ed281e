package main

import (
	"testing"

	"linerate/internal/core/knob"
	"linerate/internal/must"
)

// sessionDocument is what these tests read of linerate/session/v1.
type sessionDocument struct {
	Detail  string `json:"detail"`
	Session struct {
		Hosts []struct {
			Settings *struct {
				Known   int            `json:"known"`
				Unknown map[string]int `json:"unknown"`
			} `json:"settings"`
			Knobs map[string]struct {
				Value   *string `json:"value"`
				Source  string  `json:"source"`
				Unknown string  `json:"unknown"`
			} `json:"knobs"`
			Machine *struct{} `json:"machine"`
			Route   *struct{} `json:"route"`
			NICs    []struct {
				Name string `json:"name"`
			} `json:"nics"`
		} `json:"hosts"`
		Runs []struct {
			Ends []struct {
				Counters []struct{} `json:"counters"`
			} `json:"ends"`
		} `json:"runs"`
	} `json:"session"`
}

// TestDocumentOfAQuickTest: a person can read the document of a quick test, and the
// full one of the same session holds every fact, out of the store.
func TestDocumentOfAQuickTest(t *testing.T) {
	t.Parallel()
	needLab(t)
	db := t.TempDir() + "/r.db"
	short := succeed(t, "--db", db, "test", "-q", "-t", "200ms", "--omit", "0s", "--idle", "0s", "lab:rate=20mbit,rtt=2ms", "--json").out
	whole := succeed(t, "--db", db, "show", "last", "--json=full").out
	t.Logf("%d bytes in brief, %d in full", len(short), len(whole))
	must.True(t, len(short) < 15_000, "%d bytes:\n%s", len(short), short)
	for _, text := range []string{short, whole} {
		must.OK(t, validate("linerate/session/v1", text))
	}
	brief, full := decode[sessionDocument](t, short), decode[sessionDocument](t, whole)
	must.Need(t, brief.Detail == "brief" && full.Detail == "full" && len(brief.Session.Hosts) == 2 && len(full.Session.Hosts) == 2, "%+v", brief)
	ofHosts := 0
	for _, k := range knob.Catalogue() {
		if k.Scope != knob.ScopeFlow {
			ofHosts++
		}
	}
	for i, h := range full.Session.Hosts {
		counts := brief.Session.Hosts[i].Settings
		if counts == nil || h.Settings != nil || h.Machine == nil || h.Route == nil || len(h.NICs) == 0 || len(h.Knobs) != ofHosts {
			t.Fatalf("host %d: %d of %d settings, %d interfaces; in brief %+v", i, len(h.Knobs), ofHosts, len(h.NICs), counts)
		}
		known, unknown := 0, map[string]int{}
		for id, v := range h.Knobs {
			switch {
			case v.Value != nil && v.Source != "":
				known++
			case v.Value == nil && v.Unknown != "" && v.Unknown != string(knob.OtherReason):
				unknown[v.Unknown]++
			default:
				t.Errorf("%s: %+v", id, v)
			}
		}
		must.True(t, known == counts.Known && known >= 20 && len(unknown) == len(counts.Unknown), "host %d: %d known in full, %d in brief; unknown %v and %v", i, known, counts.Known, unknown, counts.Unknown)
		for why, n := range unknown {
			must.True(t, counts.Unknown[why] == n, "host %d: %s: %d in full, %d in brief", i, why, n, counts.Unknown[why])
		}
		if v := brief.Session.Hosts[i].Knobs["tcp.congestion_control"]; v.Value == nil || len(brief.Session.Hosts[i].Knobs) > 10 {
			t.Errorf("host %d in brief: %+v", i, brief.Session.Hosts[i].Knobs)
		}
	}
	for i, r := range full.Session.Runs {
		if len(r.Ends) != 2 || len(r.Ends[0].Counters) == 0 || len(brief.Session.Runs[i].Ends) != 0 {
			t.Errorf("run %d: %d ends, %d in brief", i, len(r.Ends), len(brief.Session.Runs[i].Ends))
		}
	}
}
