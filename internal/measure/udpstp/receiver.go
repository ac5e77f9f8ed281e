package udpstp

import "time"

// Receiver counts the load PDUs of one flow, and makes its status PDUs.
type Receiver struct {
	period, trial time.Duration

	next    uint32 // next expected sequence number
	history [32]uint32
	at      int // in history
	begun   bool
	delta   int64 // least difference of both clocks, ms
	echo    Stamp // of the last status that was echoed
	rttMin  uint32
	rtt     uint32
	renewed bool

	status  uint32 // status PDUs made
	trialAt time.Time
	lost    uint32
	late    uint32
	twice   uint32
	delays  Delays
	count   uint32
	bytes   uint32

	subAt   time.Time // start of the sub-interval
	firstAt time.Time
	open    SubInterval
	saved   SubInterval
	number  uint32
}

// NewReceiver returns the counters of a flow with activation a, which begins at time at.
func NewReceiver(a Activation, at time.Time) *Receiver {
	return &Receiver{period: a.Period, trial: a.Trial, next: 1, rttMin: None, rtt: None, trialAt: at, delays: Delays{Min: None}}
}

// Begun reports whether a load PDU has arrived. Before that there is nothing to report.
func (r *Receiver) Begun() bool { return r.begun }

// Take counts a load PDU that arrived at time at.
func (r *Receiver) Take(l Load, at time.Time) {
	r.count++
	r.bytes += uint32(l.Payload)
	r.open.Datagrams++
	r.open.Bytes += uint64(l.Payload)
	first := !r.begun
	r.begun = true
	if l.Sequence < r.next {
		r.old(l.Sequence)
		return
	}
	gap := l.Sequence - r.next
	r.lost += gap
	r.open.Lost += gap
	r.next = l.Sequence + 1
	r.remember(l.Sequence)
	r.roundTrip(l, at)
	delta := at.Sub(l.Sent.Time()).Round(time.Millisecond).Milliseconds()
	if first || delta < r.delta {
		r.delta, r.renewed = delta, true
	}
	if first {
		return
	}
	above := uint32(min(delta-r.delta, None-1))
	r.delays.add(above)
	r.open.Delays.add(above)
}

// old counts a load PDU that arrived after one that was sent later.
func (r *Receiver) old(sequence uint32) {
	for _, seen := range r.history {
		if seen == sequence {
			r.twice++
			r.open.Twice++
			return
		}
	}
	r.late++
	r.open.Reordered++
	// It was counted as lost, perhaps in an earlier interval.
	r.lost -= min(r.lost, 1)
	r.open.Lost -= min(r.open.Lost, 1)
	r.remember(sequence)
}

func (r *Receiver) remember(sequence uint32) {
	r.history[r.at] = sequence
	r.at = (r.at + 1) % len(r.history)
}

// roundTrip measures from a status PDU to the first load PDU that echoes its time.
func (r *Receiver) roundTrip(l Load, at time.Time) {
	if l.Status == r.echo {
		return
	}
	r.echo = l.Status
	took := at.Sub(l.Status.Time()) - time.Duration(l.Delay)*time.Millisecond
	rtt := uint32(millis(took, 31))
	if rtt < r.rttMin {
		r.rttMin, r.renewed = rtt, true
	}
	r.rtt = rtt - r.rttMin
	r.open.RTTMin = min(r.open.RTTMin, r.rtt)
	r.open.RTTMax = max(r.open.RTTMax, r.rtt)
}

// Status ends the trial interval, and the sub-interval if it is over, and returns the status.
// The first one begins the first sub-interval.
func (r *Receiver) Status(at time.Time) Status {
	switch length := at.Sub(r.subAt); {
	case r.subAt.IsZero():
		r.firstAt = at
		r.opens(at)
	case length > r.period-r.trial/2: // it ends with a trial interval
		r.open.Micros = uint32(length.Microseconds())
		r.open.Elapsed = uint32(millis(at.Sub(r.firstAt), 32))
		r.saved = r.open
		r.number++
		r.opens(at)
	}
	r.status++
	s := Status{
		Sequence: r.status, SubIntervals: r.number, Saved: r.saved, Lost: r.lost, Reordered: r.late, Twice: r.twice, ClockDelta: int32(r.delta),
		Delays: r.delays, RTTMin: r.rttMin, RTTVariation: r.rtt, Renewed: r.renewed, Micros: uint32(at.Sub(r.trialAt).Microseconds()),
		Datagrams: r.count, Bytes: r.bytes, Sent: StampOf(at),
	}
	r.lost, r.late, r.twice, r.delays, r.rtt, r.renewed = 0, 0, 0, Delays{Min: None}, None, false
	r.trialAt, r.count, r.bytes = at, 0, 0
	return s
}

// opens begins a sub-interval.
func (r *Receiver) opens(at time.Time) {
	r.subAt = at
	r.open = SubInterval{Delays: Delays{Min: None}, RTTMin: None}
}

func (d *Delays) add(ms uint32) {
	d.Min, d.Max = min(d.Min, ms), max(d.Max, ms)
	d.Sum += ms
	d.Count++
}
