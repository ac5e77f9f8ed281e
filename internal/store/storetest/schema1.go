package storetest

import (
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// Schema1 compares a store of testdata/schema1.sql with what the first release wrote there.
func Schema1(t *testing.T, st Store) {
	t.Helper()
	s, err := st.Session(t.Context(), "20261121")
	if err != nil || len(s.Runs) != 2 || len(s.Changes) != 1 || len(s.Verdicts) != 1 {
		t.Fatalf("%d runs, %d changes, %d verdicts, %v", len(s.Runs), len(s.Changes), len(s.Verdicts), err)
	}
	if rate, ok := s.WireRate.Get(); !ok || rate != 1e9 || !s.Created.Equal(time.Date(2026, 11, 21, 1, 32, 9, 500, time.UTC)) {
		t.Errorf("wire rate %v, known %v; created %v", rate, ok, s.Created)
	}
	if s.Plan.Margin != units.Percent(3) || s.Plan.Seed != 18446744073709551615 || s.Plan.Decides() != model.Goodput {
		t.Errorf("plan margin %v, seed %d, %s decides", s.Plan.Margin, s.Plan.Seed, s.Plan.Decides())
	}
	r := s.Runs[1]
	if v, ok := r.Value(model.To, model.Goodput); !ok || v != 941.5e6 || r.Flow.Duration != 20*time.Second || r.Flow.Params != `{"rate":1000}` {
		t.Errorf("run 2: goodput %v, %v; flow %+v", v, ok, r.Flow)
	}
	if s.Note != "before the new switch" || s.Changes[0].Host != model.Far {
		t.Errorf("note %q, changes %+v", s.Note, s.Changes)
	}
	if v := s.Verdicts[0]; v.Outcome != model.Better || v.Evidence == nil || *v.Evidence != 138.859354 || v.P != nil {
		t.Errorf("verdict %+v", v)
	}
	samples, err := st.Samples(t.Context(), "last", 2)
	if err != nil || len(samples) != 2 || !samples[0].Omitted || samples[1].Value != 941.5e6 {
		t.Errorf("samples %v, %v", samples, err)
	}
}
