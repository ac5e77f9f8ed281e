package diagnose

import (
	"fmt"
	"strconv"
	"strings"

	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// The rules about windows, losses and TCP's reaction to them.

// The settings that these rules read.
const (
	windowScaling model.KnobID = "tcp.window_scaling"
	recvBuffer    model.KnobID = "tcp.recv_buffer_max"
	recvAutotune  model.KnobID = "tcp.recv_autotune"
	sackKnob      model.KnobID = "tcp.sack"
	ecnKnob       model.KnobID = "tcp.ecn"
	off                        = "0" // of a switch
)

// payloadOf is the ratio of a socket buffer to its payload: about half is the kernel's
// bookkeeping (knobs.md section 1.2).
const payloadOf = 2

// receiveWindow is rule B07. Linux measures the time at the sender and attributes it to the
// receiver (kernel net/ipv4/tcp_output.c, TCP_CHRONO_RWND_LIMITED).
func receiveWindow(f features) (*finding, bool) {
	b, ok := f.windowed()
	if !ok || f.unscaled() {
		return nil, false
	}
	if f.Fixed() {
		return b.also("the test itself set the socket buffer").helps("window"), true
	}
	return b.helps(recvBuffer), true
}

// noScaling is rule B09. The option is off if either end did not offer it (RFC 7323 section
// 2.2), so the host to change is the one whose setting is off; if the settings are unknown, it
// is the receiver, which announced no scale.
func noScaling(f features) (*finding, bool) {
	b, ok := f.windowed()
	if !ok || !f.unscaled() {
		return nil, false
	}
	sender, knows1 := f.Sender.Knob(windowScaling).Get()
	receiver, knows2 := f.Receiver.Knob(windowScaling).Get()
	b.misses(knows1 && knows2, "whether window scaling is on at both hosts", byCounters)
	switch {
	case sender == off && receiver == off:
		b.also("window scaling is off at both hosts")
	case sender == off:
		b.Host = f.Sender.Host
		b.also("the sender's host has window scaling off, so that the receiver may not use it")
	case knows1 && knows2 && receiver != off:
		b.also("both hosts have window scaling on, so that something between them takes the option away").
			noKnob("a firewall or a proxy between the hosts removes the option: change it there")
		return b, true
	default:
		b.also("the receiver announced no window scale")
	}
	return b.helps(windowScaling), true
}

// unscaled reports whether window scaling is not in use and the window is near the largest
// unscaled one. A small socket buffer needs no scaling.
func (f features) unscaled() bool {
	w, ok := f.TCP.PeerWindow.Get()
	return ok && !f.Fixed() && f.TCP.SendScale.Or(0) == 0 && w <= limits.MaxUnscaledWindow*units.Bytes(f.Streams) && w > limits.MaxUnscaledWindow*units.Bytes(f.Streams)/4
}

// windowed is the common part of rules B07 and B09: the window limited the sender, and a larger
// one was not available.
func (f features) windowed() (*finding, bool) {
	window, knows := f.TCP.PeerWindow.Get()
	bound, ok := f.bound(window).Get()
	share, timed := f.rwnd.Get()
	switch {
	case f.mends() || f.queued():
		return nil, false
	case timed && share < limitedShare:
		return nil, false
	case !timed && (!knows || !ok || float64(bound) > nearBound*float64(f.Goodput) && !f.capped(bound)):
		return nil, false // without the kernel's account of its time the window has to explain the rate
	case knows && window <= 0 && f.readsSlowly(): // shut, because the program does not read
		return nil, false
	case !knows || !ok:
		return f.found(f.Receiver.Host, "receive window").share(share, f.rwnd.Source()).
			because("TCP_INFO", "the sender had data and room in its own window, and waited").
			explains(f.explainedByTime(share)).misses(false, "the window that the receiver announced", byCounters), true
	case float64(bound) > ampleWindow*float64(f.Goodput) || float64(bound) < refutes*float64(f.Goodput):
		return nil, false
	case f.readsSlowly():
		return nil, false
	}
	b := f.found(f.Receiver.Host, "receive window").holds(window, bound, "TCP_INFO snd_wnd, rtt", "window over round trip")
	if timed {
		b.share(share, f.rwnd.Source()).because(f.rwnd.Source(), "the window held the sender back for %.0f %% of the time that it had data", 100*share)
	}
	return b.misses(timed, "the time that the window held the sender back, which the sender's system does not count", ByCheck), true
}

// capped reports whether the test itself set a window that allows only a small part of the
// path's ceiling, and little more than the measured rate: it caps the rate, whatever else does.
// A window that grows by itself follows the rate and shows nothing of that kind.
func (f features) capped(bound units.BitRate) bool {
	return f.Fixed() && float64(bound) <= chosenWindow*float64(f.Goodput) && f.explainedBy(bound).Or(0) >= nearlyAll
}

// holds states what a window or a buffer allows over the round trip: at least the measured
// rate, since the smoothed round trip includes delayed acknowledgements, and a kernel puts a
// little more in flight than a buffer's size.
func (b *finding) holds(size units.Bytes, bound units.BitRate, source, implied string) *finding {
	allows := "allows"
	if bound < b.f.Goodput {
		allows, bound = "allows about", b.f.Goodput
	}
	return b.because(source, "%s at %s %s %s", size.Binary(), units.FormatDuration(b.f.TCP.RTT.Or(b.f.nearRTT)), allows, bound).allows(bound, implied)
}

// readsSlowly reports whether the window is small because the program reads late, not because
// the buffer is small: the buffer may grow to all that the path needs, or the window was shut.
func (f features) readsSlowly() bool {
	if f.Fixed() {
		return f.roomFor(f.Run.Flow.Window)
	}
	if f.unscaled() || f.Receiver.Knob(recvAutotune).Or("1") == off {
		return false
	}
	n, err := strconv.ParseInt(f.Receiver.Knob(recvBuffer).Or(""), 10, 64)
	if err != nil {
		return f.Receiver.Counters.Moved("tcp_zero_window_announced").Or(0) > fewSigns
	}
	return f.roomFor(units.Bytes(n) / payloadOf)
}

// roomFor reports whether a window holds at least twice what the path needs.
func (f features) roomFor(window units.Bytes) bool {
	c, ok := f.Ceiling.Get()
	if !ok {
		c = f.Goodput * ampleWindow
	}
	rtt := f.TCP.RTT.Or(f.nearRTT)
	return rtt > 0 && window*units.Bytes(f.Streams) >= 2*limits.WindowFor(c, rtt)
}

// sendBuffer is rule B08.
func sendBuffer(f features) (*finding, bool) {
	share, ok := f.sndbuf.Get()
	if !ok || share < limitedShare && !f.onlyBuffer() || f.queued() {
		return nil, false
	}
	const full = "the socket buffer was full of data that was not acknowledged yet"
	b := f.found(f.Sender.Host, "send buffer")
	size, known := f.TCP.SendBuffer.Get()
	if bound, knows := f.bound(size).Get(); known && knows {
		if float64(bound) > ampleWindow*float64(f.Goodput) {
			return nil, false // it is large enough, and was only full at times
		}
		b.holds(size, bound, "SO_SNDBUF, TCP_INFO rtt", "send buffer over round trip").because(f.sndbuf.Source(), full)
	} else {
		b.because(f.sndbuf.Source(), full).explains(f.explainedByTime(share)).misses(false, "the size of the send buffer", byCounters)
	}
	if share >= limitedShare {
		b.share(share, f.sndbuf.Source()).because(f.sndbuf.Source(), "the buffer held the sender back for %.0f %% of the time that it had data", 100*share)
	}
	if f.Fixed() {
		return b.also("the socket buffer was set by the test itself").helps("window"), true
	}
	return b.helps("tcp.send_buffer_max"), true
}

// onlyBuffer reports whether the send buffer alone can explain the rate: the kernel does not
// count the time in which a program that writes without a pause keeps a small buffer full.
func (f features) onlyBuffer() bool {
	buffer, ok1 := f.bound(f.TCP.SendBuffer.Or(0)).Get()
	congestion, ok2 := f.bound(f.TCP.Cwnd.Or(0)).Get()
	peer, ok3 := f.bound(f.TCP.PeerWindow.Or(0)).Get()
	return ok1 && ok2 && ok3 && f.pathBound() && min(congestion, peer) >= ampleWindow*f.Goodput &&
		float64(buffer) <= nearBound*float64(f.Goodput) && float64(buffer) >= refutes*float64(f.Goodput)
}

// application is rule B21 for the sender: its connection was idle although its host had
// processor time for it.
func application(f features) (*finding, bool) {
	idle, ok := f.idle.Get()
	if !ok || idle < idleShare || f.starved(f.Sender) {
		return nil, false
	}
	return f.found(f.Sender.Host, "sending application").share(idle, f.idle.Source()).
		because(f.idle.Source(), "the connection had data to send only %.0f %% of the time", 100*(1-idle)).
		explains(f.explainedByTime(idle)).
		misses(f.Sender.Counters.Moved("thread_run_ms").IsKnown(), "whether the program waited for a processor", byCounters).
		noKnob("no setting of the network helps: the program, its disk or its own limit decides how much there is to send"), true
}

// slowReader is rule B21 for the receiver: the window was shut although the buffer may grow to
// all that the path needs.
func slowReader(f features) (*finding, bool) {
	share, ok := f.rwnd.Get()
	if !ok || share < limitedShare || !f.readsSlowly() || f.shortOfTime(f.Receiver) || f.mends() || f.lossy() {
		return nil, false
	}
	b := f.found(f.Receiver.Host, "receiving application").share(share, f.rwnd.Source()).
		because(f.rwnd.Source(), "the receive window was full for %.0f %% of the time, and its buffer may hold all that the path needs: the program reads late", 100*share).
		explains(f.explainedByTime(share))
	if n := f.Receiver.Counters.Moved("tcp_zero_window_announced").Or(0); n > 0 {
		b.because("tcp_zero_window_announced", "the window shrank to nothing %s", times(n))
	}
	return b.misses(f.Receiver.Counters.Moved("tcp_zero_window_announced").IsKnown(), "how often the window was shut", byCounters).
		noKnob("no setting of the network helps: the receiving program, or the disk that it writes to, is slower than the path"), true
}

// shortTest is rule B14: the start of the connection took most of the run.
func shortTest(f features) (*finding, bool) {
	growth, trips, begun := f.growth.Or(1), f.trips.Or(tenTrips), f.begun.Or(slowStart)
	early := begun < slowStart
	lossless := f.resent.Or(0) < lossMatters || f.paced() || f.slowed.Or(fewSigns) <= 1 // one loss ends slow start
	if idle, ok := f.idle.Get(); !ok || idle >= idleShare || f.sndbuf.Or(0) >= limitedShare || !lossless || !early && (growth < rising || trips >= tenTrips) {
		return nil, false // the program, a buffer or losses limit it, however long the test is
	}
	if _, _, burst := f.beganInBurst(); burst && !early {
		return nil, false // a longer test does not change that
	}
	if _, left := leftEarly(f); left {
		return nil, false // it says why the rate was still rising
	}
	if _, shut := f.windowed(); shut || f.rwnd.Or(0) >= limitedShare && !early {
		return nil, false
	}
	b := f.found("", "short test")
	if early {
		b.because("RFC 6928, TCP_INFO min_rtt", "the test ended in the slow start of its connection: it lasted %.1f times as long as a connection takes at the least to fill this path", begun)
	}
	if growth >= rising {
		b.because("goodput in the intervals", "the rate was still rising when the test ended: %.1f times as fast in the last third as in the first, after %.1f bandwidth-delay products", growth, trips)
	}
	return b.explains(f.explainedBy1()).
		noKnob("measure for longer: -t 30s; transfers that are so short by nature gain from a larger initial window"), true
}

// remembered is rule B15: the system starts connections with metrics cached from earlier ones.
func remembered(f features) (*finding, bool) {
	if len(f.Repeats) < fewSamples {
		return nil, false
	}
	first := f.Repeats[0]
	var least, most units.BitRate
	for i, r := range f.Repeats[1:] {
		if i == 0 || r < least {
			least = r
		}
		most = max(most, r)
	}
	if !(float64(most) < coldStart*float64(first)) {
		return nil, false
	}
	return f.found(f.Sender.Host, "remembered paths").kind(model.FindingBeside).
		because("runs of the session", "the first run reached %s, all later ones %s to %s", first, least, most).
		noKnob("the system may remember slow start thresholds of the path: ip tcp_metrics flush, and net.ipv4.tcp_no_metrics_save"), true
}

// oddBBR is rule B36: before Linux 4.13 bbr needs the fq queueing discipline for pacing.
func oddBBR(f features) (*finding, bool) {
	kernel, ok := f.Sender.Facts.Kernel.Get()
	if !ok || !f.paced() || f.Sender.Facts.OS != "linux" || !olderThan(kernel, 4, 13) || strings.HasPrefix(f.Sender.Facts.Qdisc.Or("fq"), "fq") {
		return nil, false
	}
	return f.found(f.Sender.Host, "bbr without pacing").
		because("facts", "kernel %s paces bbr only under fq, and the queueing discipline is %s", kernel, f.Sender.Facts.Qdisc.Or("")).helps("qdisc"), true
}

// olderThan reports whether a kernel version such as "6.1.0-18-amd64" is below major.minor.
func olderThan(kernel string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(kernel, "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a < major || a == major && b < minor
}

// times returns "once", "twice" or "N times".
func times(n int64) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}
