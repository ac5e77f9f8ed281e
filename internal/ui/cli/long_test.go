package cli

import (
	"context"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/confined"
	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/store/tables"
)

// long is a source with one session of one block with this many runs, each with samples and with
// latencies of both ends.
type long int

func (n long) Pieces(context.Context, string) iter.Seq2[tables.Piece, error] {
	var times hist.Recorder
	for i := range 50 {
		times.Record(10*time.Millisecond + time.Duration(i)*500*time.Microsecond)
	}
	ends := []model.EndReport{{Host: model.Near}, {Host: model.Far}}
	for i := range ends {
		ends[i].Flows = []model.FlowReport{{Direction: model.To, UDP: &model.UDPSummary{Variation: times.Histogram()}}}
		one := model.Latency{Name: "loaded udp", Direction: model.To, Times: times.Histogram(), Sent: 50}
		ends[i].Latencies = []model.Latency{one, one, one}
		ends[i].Counters = slices.Repeat([]model.Counter{{Name: "udp_receive_buffer_errors", Of: "eth0", Value: 1 << 30}}, 40)
	}
	samples := make([]model.Sample, 200)
	for i := range samples {
		samples[i] = model.Sample{Host: model.Far, Direction: model.To, Metric: model.Goodput, Start: time.Duration(i) * time.Millisecond, Length: time.Millisecond, Value: float64(i % 7)}
	}
	return func(yield func(tables.Piece, error) bool) {
		s := model.Session{ID: "long", Kind: model.KindRun, State: model.SessionDone, Plan: model.Plan{
			Settings: []model.Setting{{Name: "now"}}, Baseline: "now", Directions: []model.Direction{model.To}, Mode: model.FixedBlocks}}
		if !yield(tables.Piece{Session: &s}, nil) {
			return
		}
		for i := range int(n) {
			r := model.Run{Number: i + 1, Block: 1, Setting: "now", State: model.RunValid, Flow: model.Flow{Direction: model.To, Duration: time.Second}, Ends: ends,
				Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: 9e8}}}
			if !yield(tables.Piece{Run: &r}, nil) || !yield(tables.Piece{Samples: samples}, nil) {
				return
			}
		}
	}
}

// TestLongSession: a session with many runs is shown, listed, reported in every format and
// exported in little memory. One with 9,018 runs, 72,000 histograms and 1.8 million samples once
// took 2.2 GB to show.
func TestLongSession(t *testing.T) {
	confined.Run(t, 250<<20, 300, func(t *testing.T) {
		w, out := newWorld(t), t.TempDir()
		st := must.Get(openStoreAt(t.Context(), w.vars["LINERATE_DB"]))(t)
		must.Do(t, st.Import(t.Context(), long(3_000), []string{"long"}))
		must.Do(t, st.Close())
		all := []string{"list", "show long", "export --archive " + filepath.Join(out, "a.linerate")}
		for _, f := range formats() {
			all = append(all, "report long --format "+f.name+" --output "+filepath.Join(out, "a"+f.suffix))
		}
		for _, args := range all {
			must.Equal(t, w.main(t, strings.Fields(args)...), 0, "%s: %s", args, w.err.String())
		}
	})
}
