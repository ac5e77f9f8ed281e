package main

import "testing"

// TestFactsOfALab reads a host over a session: what the agent there knows, in
// the published form, with the interface that leads here first.
func TestFactsOfALab(t *testing.T) {
	needLab(t)
	out := succeed(t, "facts", "lab:rate=100mbit,mtu=1400", "--json").out
	if err := validate("linerate/facts/v1", out); err != nil {
		t.Error(err)
	}
	type text struct {
		Value string `json:"value"`
	}
	type number struct {
		Value float64 `json:"value"`
	}
	doc := decode[struct {
		Facts struct {
			Host    string `json:"host"`
			Machine struct {
				Threads number `json:"threads"`
				Memory  number `json:"memory"`
			} `json:"machine"`
			Route struct {
				Interface text `json:"interface"`
				Source    text `json:"source"`
			} `json:"route"`
			NICs []struct {
				Name     string `json:"name"`
				Kind     text   `json:"kind"`
				MTU      number `json:"mtu"`
				MTUMax   number `json:"mtu_max"`
				Offloads struct {
					Value []struct {
						Name string `json:"name"`
					} `json:"value"`
				} `json:"offloads"`
			} `json:"nics"`
		} `json:"facts"`
	}](t, out)
	f := doc.Facts
	if f.Host != "b" || f.Machine.Threads.Value < 1 || f.Machine.Memory.Value < 1<<26 || f.Route.Source.Value == "" {
		t.Errorf("%+v", f)
	}
	if len(f.NICs) == 0 || f.NICs[0].Name != f.Route.Interface.Value || f.NICs[0].Kind.Value == "" || f.NICs[0].MTU.Value < 68 || f.NICs[0].MTUMax.Value < 1500 || len(f.NICs[0].Offloads.Value) == 0 {
		t.Errorf("%+v", f.NICs)
	}
}

// TestFactsAreStored: a session keeps them, and shows them again.
func TestFactsAreStored(t *testing.T) {
	needLab(t)
	db := t.TempDir() + "/r.db"
	succeed(t, "--db", db, "test", "-q", "-t", "500ms", "--omit", "0s", "lab:rate=100mbit")
	out := succeed(t, "--db", db, "show", "last", "--json=full").out
	if err := validate("linerate/session/v2", out); err != nil {
		t.Error(err)
	}
	doc := decode[struct {
		Session struct {
			Hosts []struct {
				Machine *struct{} `json:"machine"`
				Route   *struct{} `json:"route"`
				NICs    []struct {
					Name string `json:"name"`
				} `json:"nics"`
			} `json:"hosts"`
		} `json:"session"`
	}](t, out)
	for i, h := range doc.Session.Hosts {
		if h.Machine == nil || h.Route == nil || len(h.NICs) == 0 {
			t.Errorf("host %d: %+v", i, h)
		}
	}
	if len(doc.Session.Hosts) != 2 {
		t.Errorf("%d hosts", len(doc.Session.Hosts))
	}
}
