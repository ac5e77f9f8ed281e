package plan

import (
	"testing"
	"time"

	"linerate/internal/core/model"
)

// TestPayload counts each direction once, the warm-up too, the messages of a sweep there
// and back, and a run without an end as the largest.
func TestPayload(t *testing.T) {
	end := func(f ...model.FlowReport) model.EndReport { return model.EndReport{Flows: f} }
	to := model.FlowReport{Direction: model.To, Bytes: 1000, Window: 2 * time.Second}
	from := model.FlowReport{Direction: model.From, Bytes: 600, Window: 2 * time.Second}
	timed := model.Run{Flow: model.Flow{Duration: 2 * time.Second, Omit: time.Second}, Ends: []model.EndReport{end(to, from), end(to, from)}}
	counted := model.Run{Flow: model.Flow{Bytes: 1000}, Ends: []model.EndReport{end(), end(to)}}
	points := model.Run{Ends: []model.EndReport{{Points: []model.Point{{Size: 10, Rounds: 5, Trials: make([]time.Duration, 3)}}}, end()}}
	for name, c := range map[string]struct {
		runs []model.Run
		want int64
	}{
		"nothing": {nil, 0}, "both directions with warm-up": {[]model.Run{timed}, 2400}, "by bytes": {[]model.Run{counted}, 1000},
		"what waits at its sender": {[]model.Run{{Flow: counted.Flow, Ends: []model.EndReport{
			end(model.FlowReport{Direction: model.To, Role: model.Sender, Bytes: 1000}), end(model.FlowReport{Direction: model.To, Role: model.Receiver, Bytes: 700}),
		}}}, 700},
		"a sweep": {[]model.Run{points}, 300}, "cut short": {[]model.Run{counted, {}}, 2000}, "cut short first": {[]model.Run{{}, counted}, 1000},
	} {
		if got := Payload(c.runs); int64(got) != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
