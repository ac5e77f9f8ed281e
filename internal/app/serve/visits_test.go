package serve

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/core/model"
	"linerate/internal/measure/program"
	"linerate/internal/must"
)

// told writes events of visits down, a word each.
func told(all *[]string) func(app.Event) {
	return func(e app.Event) {
		var line string
		switch e := e.(type) {
		case app.VisitBegan:
			line = fmt.Sprintf("%d began: %s %s %s", e.Visit.ID, e.Visit.Protocol, e.Visit.From, e.Visit.Key)
		case app.VisitRuns:
			line = fmt.Sprintf("%d runs %s", e.ID, e.Flow.Direction)
		case app.VisitSampled:
			line = fmt.Sprintf("%d sampled %g", e.ID, e.Samples[0].Value)
		case app.VisitRan:
			line = fmt.Sprintf("%d ran: sent %d, received %d, %v", e.ID, e.Sent, e.Received, e.Err)
		case app.VisitEnded:
			line = fmt.Sprintf("%d ended: %v", e.ID, e.Err)
		case app.VisitRefused:
			line = fmt.Sprintf("refused %s %s: %v", e.Visit.Protocol, e.Visit.From, e.Err)
		default:
			line = fmt.Sprintf("%T", e)
		}
		*all = append(*all, line)
	}
}

// TestForeignVisits: two tests of one address are told apart by their ports, also when
// they end in another order than they began; who is refused is no visit; and what comes
// of a test that is over is told to nobody.
func TestForeignVisits(t *testing.T) {
	var got []string
	v := newVisits(told(&got))
	from := netip.MustParseAddr("::ffff:192.0.2.7") // as a socket of both families has it
	event := func(port uint16, d model.Direction, began, over bool, err error) program.Event {
		e := program.Event{Test: program.Test{From: from, Key: "anna", Flow: model.Flow{Direction: d}, Took: time.Second, Err: err}, Port: port, Began: began, Over: over}
		if over && began {
			e.Ends = []model.EndReport{{Flows: []model.FlowReport{{Role: model.Receiver, Bytes: 9}, {Role: model.Sender, Bytes: 4}}}}
		}
		return e
	}
	samples := []model.Sample{{Value: 5}}
	sampled := func(port uint16) { v.foreignSampled("iperf3", netip.AddrPortFrom(from, port), samples) }
	v.foreign("iperf3", event(1001, model.To, true, false, nil))
	v.foreign("iperf3", event(1002, model.From, true, false, nil))
	sampled(1002)
	samples[0].Value = 6 // as a buffer that is used again
	sampled(1001)
	sampled(1003)
	v.foreign("iperf3", event(1001, model.To, true, true, nil))
	sampled(1001)
	v.foreign("iperf3", event(1003, model.To, false, true, errors.New("full")))
	v.foreign("iperf3", event(1002, model.From, true, true, errors.New("cut")))
	want := []string{
		"1 began: iperf3 192.0.2.7 anna", "1 runs to", "2 began: iperf3 192.0.2.7 anna", "2 runs from",
		"2 sampled 5", "1 sampled 6", "1 ran: sent 4, received 9, <nil>", "1 ended: <nil>", "refused iperf3 192.0.2.7: full",
		"2 ran: sent 4, received 9, cut", "2 ended: cut",
	}
	must.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"))
	must.True(t, len(v.open) == 0, "remembers %d visits that are over", len(v.open))
}
