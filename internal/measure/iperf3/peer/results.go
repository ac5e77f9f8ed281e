package peer

import (
	"fmt"
	"io"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/iperf3"
)

// exchange sends our results to the server, and returns its own.
func (t *clientTest) exchange(near model.EndReport) (iperf3.Results, error) {
	body, err := ownResults(near, t.ways).Marshal()
	if err != nil {
		return iperf3.Results{}, err
	}
	if err := t.ctl.message(body); err != nil {
		return iperf3.Results{}, fmt.Errorf("send results: %w", err)
	}
	answer, err := t.ctl.read(iperf3.MaxResults)
	if err != nil {
		return iperf3.Results{}, fmt.Errorf("wait for the server's results: %w", err)
	}
	theirs, err := iperf3.ParseResults(answer)
	if err == nil {
		err = assign(theirs, t.ways)
	}
	if err != nil {
		return theirs, err
	}
	s, err := t.ctl.next()
	if err != nil {
		return theirs, fmt.Errorf("wait for the server's end: %w", err)
	}
	if s != iperf3.DisplayResults {
		return theirs, t.refusal(s, iperf3.DisplayResults)
	}
	if t.ServerOutput != nil {
		t.ServerOutput(theirs.ServerText, theirs.ServerJSON)
	}
	// The server has sent everything: whether it reads our final message, and whatever follows,
	// changes nothing (section 7).
	_ = t.ctl.state(iperf3.Done)
	t.ctl.farewell()
	return theirs, nil
}

// farewell waits for the other end to close, ignoring what it sends, so that it is ready for
// the next test when farewell returns.
func (c control) farewell() {
	if err := c.conn.SetReadDeadline(time.Now().Add(farewell)); err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(c.conn, maxFarewell))
}

// maxFarewell is more than any version sends after the end.
const maxFarewell = 4096

// ownResults returns this end's results of the test.
func ownResults(own model.EndReport, ways []*way) iperf3.Results {
	r := iperf3.Results{SenderHasRetransmits: -1}
	if own.CPUWindow > 0 {
		percent := func(d time.Duration) float64 { return 100 * d.Seconds() / own.CPUWindow.Seconds() }
		r.CPUUser, r.CPUSystem = percent(own.CPUUser), percent(own.CPUSystem)
		r.CPUTotal = r.CPUUser + r.CPUSystem
	}
	for _, l := range ways {
		f, _ := l.flow()
		if l.role == model.Sender {
			r.SenderHasRetransmits = max(r.SenderHasRetransmits, 0)
		}
		if f.TCP != nil && f.TCP.Congestion.IsKnown() {
			r.CongestionUsed = f.TCP.Congestion.Or("")
		}
		for _, s := range l.results {
			if s.Retransmits.IsKnown() {
				r.SenderHasRetransmits = 1
			}
			s.EndSeconds = fact.Known(f.Window.Seconds(), "clock")
			r.Streams = append(r.Streams, s)
		}
	}
	return r
}

// fromPeer is the source of facts that the peer sent.
const fromPeer = "iperf3 peer"

// assign gives each way the other end's results of its streams.
func assign(r iperf3.Results, ways []*way) error {
	var all []iperf3.Stream
	for _, l := range ways {
		all = append(all, l.streams...)
	}
	streams, err := r.Match(all)
	if err != nil {
		return err
	}
	for _, l := range ways {
		l.theirs = streams[:len(l.streams)]
		streams = streams[len(l.streams):]
	}
	return nil
}

// farReport returns the report of the other end, host, for ways that are over. Its receivers
// were idle for the last part of the time that it reports, because this end had sent
// everything.
func farReport(host model.Host, r iperf3.Results, ways []*way, idle time.Duration) model.EndReport {
	out := model.EndReport{Host: host, SystemBusy: fact.Unknown[float64]("iperf3 does not report it")}
	for _, l := range ways {
		theirs := l.theirs
		own, _ := l.flow()
		f := model.FlowReport{Direction: l.direction, Role: model.Receiver, Window: own.Window}
		if l.role == model.Receiver {
			f.Role = model.Sender
		}
		for _, s := range theirs {
			f.Bytes += units.Bytes(max(s.Bytes, 0))
			f.Streams = append(f.Streams, units.Bytes(max(s.Bytes, 0)))
			if end, known := s.EndSeconds.Get(); known && end > 0 && end < maxEndSeconds {
				f.Window = time.Duration(end * float64(time.Second))
			}
		}
		if f.Role == model.Receiver && f.Window > idle {
			f.Window -= idle
		}
		if l.udp != nil {
			f.UDP = farUDP(theirs, f.Role, l.spec.Block)
			// Its own count misses losses at the end. A server sends until it hears of the end,
			// so that its last datagrams are not all lost.
			if host == model.Far && f.Role == model.Receiver && l.spec.Omit == 0 && own.UDP != nil {
				f.UDP.Lost = max(0, own.UDP.Sent-f.UDP.Received)
			}
		} else if f.Role == model.Sender {
			f.TCP = farTCP(r, theirs)
		}
		out.Flows = append(out.Flows, f)
		out.CPUWindow = max(out.CPUWindow, f.Window)
	}
	share := func(percent float64) time.Duration {
		return time.Duration(min(max(percent, 0), maxPercent) / 100 * float64(out.CPUWindow))
	}
	out.CPUUser, out.CPUSystem = share(r.CPUUser), share(r.CPUSystem)
	return out
}

// Upper bounds of a peer's values: ten days of test, 10,000 busy cores.
const (
	maxEndSeconds = 864000
	maxPercent    = 1e6
)

// farTCP returns the few facts that the other end reports about the connections on which it
// sends.
func farTCP(r iperf3.Results, streams []iperf3.StreamResult) *model.TCPSummary {
	out := &model.TCPSummary{
		Congestion:  fact.Unknown[string]("the iperf3 peer does not report it"),
		Retransmits: fact.Known[int64](0, fromPeer),
	}
	if r.CongestionUsed != "" {
		out.Congestion = fact.Known(r.CongestionUsed, fromPeer)
	}
	for _, s := range streams {
		n, known := s.Retransmits.Get()
		if !known {
			out.Retransmits = s.Retransmits
			break
		}
		out.Retransmits = fact.Known(out.Retransmits.Or(0)+n, fromPeer)
	}
	return out
}
