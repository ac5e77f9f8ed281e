package diagnose

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// The rules about the two hosts: their processors, queues, memory and buses. Each end is
// examined by itself (diagnosis.md section 4.0, rule 6).

// load is the processor use of a host during the run, as shares of the time.
type load struct {
	run, wait fact.Of[float64] // of the busiest thread of the measuring process
	stopped   fact.Of[float64] // by a quota of a control group
	stolen    fact.Of[float64] // by the hypervisor, of all processors' time
	core      fact.Of[float64] // of the busiest core
	others    fact.Of[float64] // mean of the other cores
	softirq   fact.Of[float64] // of the busiest core, for packets
	process   fact.Of[float64] // cores that the measuring process used, per stream
	spare     fact.Of[float64] // idle share of all processors' time
	quota     fact.Of[float64] // processors allowed by the smallest quota of its control groups
	faults    []string         // impossible shares: faults of the measurement
}

// tick is the resolution of processor times: Linux counts each of their four parts in ticks of
// 10 ms (include/asm-generic/param.h, USER_HZ 100).
const tick = 4 * 10.0 // ms

// load returns the processor use of an end, as shares of the time between the two readings of
// its counters. A share above 1 is unknown: its clock and its counter do not match.
func (f features) load(e End) load {
	var l load
	length := float64(e.Counters.total("cpu_window_ms", ""))
	reported := length > 0
	if !reported { // a host that does not report it: at least as long as the run
		length = f.Window.Seconds() * 1000
		if f.Run != nil {
			length = max(length, float64(f.Run.Flow.Length().Milliseconds()))
		}
	}
	if length <= 0 {
		return l
	}
	share := func(ms float64, source string) fact.Of[float64] {
		if reported && ms > length+tick {
			fault := fmt.Sprintf("%s is %.0f ms in %.0f ms", source, ms, length)
			l.faults = append(l.faults, fault)
			return fact.Unknown[float64]("measurement fault: " + fault)
		}
		return fact.Known(min(1, ms/length), source)
	}
	over := func(name string) fact.Of[float64] {
		n, ok := e.Counters.Moved(name).Get()
		if !ok {
			return fact.Unknown[float64](e.Counters.Moved(name).Reason())
		}
		return share(float64(n), name)
	}
	l.run, l.wait = over("thread_run_ms"), over("thread_wait_ms")
	// Throttled time is summed over processors, and a process cannot stand still for more than
	// the whole time.
	if stood, ok := e.Counters.Moved("cgroup_throttled_ms").Get(); ok {
		l.stopped = fact.Known(min(float64(stood)/length, 1), "cgroup_throttled_ms")
	}
	if given := e.Counters.total("cgroup_quota_ms", ""); given > 0 && reported {
		l.quota = fact.Known(float64(given)/length, "cgroup_quota_ms")
	}
	if use, ok := e.CPU.Get(); ok {
		l.process = fact.Known(use/float64(f.Streams), e.CPU.Source())
	}
	cores := e.Counters.By("cpu_busy_ms")
	n := max(e.Facts.CPUs, len(cores)-1)
	if steal := e.Counters.Moved("cpu_steal_ms"); steal.IsKnown() && n > 0 {
		l.stolen = share(float64(e.Counters.total("cpu_steal_ms", ""))/float64(n), steal.Source())
	}
	busiest, most, sum, count := "", 0.0, 0.0, 0
	for name, ms := range cores {
		if !strings.HasPrefix(name, "cpu") {
			continue
		}
		sum, count = sum+float64(ms), count+1
		if float64(ms) > most {
			busiest, most = name, float64(ms)
		}
	}
	if busiest != "" {
		l.core = share(most, "cpu_busy_ms of "+busiest)
		l.softirq = share(float64(e.Counters.By("cpu_softirq_ms")[busiest]), "cpu_softirq_ms of "+busiest)
		l.spare = fact.Known(max(0, 1-sum/float64(max(count, n))/length), "cpu_busy_ms")
		if others := max(count, n) - 1; others > 0 {
			l.others = share((sum-most)/float64(others), "cpu_busy_ms")
		}
	}
	return l
}

// total returns how far a counter moved at one part of the host, or at all of them together if
// of is "".
func (c Counters) total(name, of string) int64 { return c.parts[name][of] }

// starved reports whether an end's program waited for a processor.
func (f features) starved(e End) bool {
	return f.load(e).stolen.Or(0) >= stealing || f.shortOfTime(e)
}

// shortOfTime is starved, except that a little stolen time does not count.
func (f features) shortOfTime(e End) bool {
	l := f.load(e)
	return l.wait.Or(0) >= waitingThread || l.stopped.Or(0) >= throttled || l.stolen.Or(0) >= limitedShare ||
		l.run.Or(0)+l.wait.Or(0) >= busyThread || l.core.Or(0) >= fullCore && l.others.Or(1) < otherCores
}

// famished reports whether the program of an end waited for a processor most of the time. Linux
// delays acknowledgements while the receiving program does not read, and a famished sender
// processes them late (__tcp_ack_snd_check, net/ipv4/tcp_input.c). Round trips are then long
// and slowdowns are undone, though no window was shut and the path did not change.
func (f features) famished(e End) bool { return f.load(e).wait.Or(0) >= starvedThread }

// busy reports whether the processors of an end had hardly any idle time, whatever used it:
// they cannot be ruled out as the limit then.
func (f features) busy(e End) bool { return f.load(e).spare.Or(1) < limitedShare }

// crowded reports whether the processors of an end are so short that its kernel may handle
// packets late, or that a quota stops its program. A program that merely waits for others does
// not count while its connection does not wait.
func (f features) crowded(e End) bool {
	l := f.load(e)
	return l.stopped.Or(0) >= limitedShare || l.stolen.Or(0) >= limitedShare || l.run.Or(0) >= busyThread || l.core.Or(0) >= fullCore && l.others.Or(1) < otherCores
}

// cpuRule is rule B16 for one end. Load alone is not a limit: either the connection waits for
// it as well, or a thread never slept.
func cpuRule(end func(features) End) look {
	return func(f features) (*finding, bool) {
		e := end(f)
		l := f.load(e)
		lost := f.idle.Or(0) // the sender's connection had nothing to send
		if e.Host == f.Receiver.Host {
			lost = 0
			if f.readsSlowly() {
				lost = f.rwnd.Or(0) // the receiver's window was shut
			}
		}
		waited := lost >= idleShare || lost >= idleShare/4 && lost >= halfTheGap*(1-f.full.Or(0))
		b := f.found(e.Host, "CPU")
		polls := e.Report != nil && strings.Contains(e.Report.Waiting, "poll")
		switch stopped, run, wait := l.stopped.Or(0), l.run.Or(0), l.wait.Or(0); {
		case stopped >= throttled && (waited || stopped >= limitedShare):
			b.share(stopped, l.stopped.Source()).becauseOfQuota(e, l).
				explains(f.explainedByTime(max(stopped, lost))).noKnob(raiseQuota)
		case run >= busyThread && !polls:
			b.share(min(1, run), l.run.Source()).
				because(l.run.Source(), "one thread of the process worked %.0f %% of the time", 100*min(1, run)).allows(f.Goodput, "measured with a full thread").helps("streams", "link.mtu")
		case l.core.Or(0) >= fullCore && l.others.Or(1) < otherCores && l.softirq.Or(0)+run >= otherCores:
			b.share(min(1, l.core.Or(0)), l.core.Source()).
				because(l.core.Source(), "one core was busy %.0f %% of the time, %.0f %% of it with packets, while the others were busy %.0f %%", 100*min(1, l.core.Or(0)), 100*l.softirq.Or(0), 100*l.others.Or(0)).
				allows(f.Goodput, "measured at a full core").helps("streams", "link.mtu")
		case f.famished(e) && f.explainedByTime(min(1, wait)).Or(0) >= halfTheGap:
			b.share(min(1, wait), l.wait.Source()).explains(f.explainedByTime(min(1, wait))).waitsFor(l)
		case waited && wait >= waitingThread:
			b.share(min(1, wait), l.wait.Source()).explains(f.explainedByTime(lost)).waitsFor(l)
		case l.process.Or(0) >= fullCore && !polls && !l.run.IsKnown():
			b.share(min(1, l.process.Or(0)), l.process.Source()).
				because(l.process.Source(), "the process used %.2f cores, and its streams can use %d", l.process.Or(0)*float64(f.Streams), f.Streams).
				allows(f.Goodput, "measured at a full core").helps("streams", "link.mtu").misses(false, "what each core did", byCounters)
		default:
			return nil, false
		}
		if waited {
			what := "had data to send only %.0f %% of the time"
			if e.Host == f.Receiver.Host {
				what = "had room in the receiver's window only %.0f %% of the time"
			}
			b.because("TCP_INFO", "the connection "+what, 100*(1-lost))
		}
		return b, true
	}
}

func senderOf(f features) End   { return f.Sender }
func receiverOf(f features) End { return f.Receiver }

// stolen is rule B23: the hypervisor ran other guests.
func stolen(f features) (*finding, bool) {
	for _, e := range []End{f.Receiver, f.Sender} {
		l := f.load(e)
		if s := l.stolen.Or(0); s >= stealing {
			b := f.found(e.Host, "hypervisor").share(min(1, s), l.stolen.Source()).
				because(l.stolen.Source(), "the hypervisor gave %.0f %% of the processors' time to others", 100*s).
				explains(f.explainedByTime(min(1, s))).noKnob("move the virtual machine, or give it processors of its own")
			if s < limitedShare && b.Explains.Or(1) < halfTheGap { // true, but not the limit
				b.kind(model.FindingBeside)
			}
			return b, true
		}
		if g := e.Knob("cpu.governor").Or(""); g == "powersave" && f.starved(e) {
			return f.found(e.Host, "CPU clock").because("cpu.governor", "the processors are kept slow: cpu.governor is powersave").helps("cpu.governor"), true
		}
	}
	return nil, false
}

// hostLoss is rule B17, for one place: packets that a host itself dropped.
type hostLoss struct {
	receiver bool
	limit    string
	says     string
	names    []string
	knobs    []model.KnobID
}

func hostLosses() []hostLoss {
	return []hostLoss{
		{true, "receive ring", "found no free buffer in the receiver's ring", []string{"nic_rx_missed", "nic_rx_fifo_errors", "nic_rx_over_errors"}, []model.KnobID{"nic.ring.rx"}},
		{true, "receive backlog", "found the receiving core's backlog full", []string{"softnet_dropped"}, []model.KnobID{"rx.backlog"}},
		{true, "receiver's memory", "were dropped from a receive queue for lack of memory", []string{"tcp_receive_pruned", "tcp_out_of_order_pruned", "tcp_receive_queue_dropped", "tcp_out_of_order_dropped"}, []model.KnobID{recvBuffer}},
		{true, "receiver's backlog", "came while the program held the socket", []string{"tcp_backlog_dropped"}, []model.KnobID{recvBuffer}},
		{false, "transmit queue", "were dropped by the queueing discipline of the sender's own interface", []string{"qdisc_dropped", "nic_tx_dropped"}, []model.KnobID{"txqueuelen", "qdisc"}},
	}
}

// dropped returns the place at which a host dropped the most packets, if that is much of what
// TCP retransmitted. A ring that was full for many more packets than TCP retransmitted did not
// lose them: they waited in front of it, as with emulated cards, or belonged to other flows.
func (f features) dropped() (hostLoss, int64, bool) {
	again := f.Sender.Counters.Moved("tcp_retransmitted").Or(f.TCP.Retransmits.Or(0))
	var most int64
	var at hostLoss
	for _, place := range hostLosses() {
		e := f.Sender
		if place.receiver {
			e = f.Receiver
		}
		var n int64
		for _, name := range place.names {
			n = max(n, e.Counters.Moved(name).Or(0))
		}
		waited := place.limit == "receive ring" && float64(n) > ringWaits*float64(again)
		if n > most && !waited {
			most, at = n, place
		}
	}
	return at, most, again > 0 && f.resent.Or(0) >= lossMatters && float64(most) >= hostDrops*float64(again)
}

// hostDropped is rule B17; rule B37 if one core of a virtual device drops, and rule B33 if a
// ring is full while cores are idle.
func hostDropped(f features) (*finding, bool) {
	place, n, ok := f.dropped()
	if !ok {
		return nil, false
	}
	e := f.Sender
	if place.receiver {
		e = f.Receiver
	}
	b := f.found(e.Host, place.limit).
		because(strings.Join(place.names, ", "), "%s %s", plain.Count(n, "packet"), place.says).
		because("TCP_INFO total_retrans", "%.2g %% of the segments were sent again", 100*f.resent.Or(0)).
		explains(f.explainedBy1()).helps(place.knobs...)
	nic, known := e.NIC()
	l := f.load(e)
	switch {
	case place.limit == "receive backlog" && known && slices.Contains([]string{"veth", "vxlan", "bridge", "macvlan", "ipvlan"}, nic.Kind.Or("")):
		b.Rule = "B37"
		b.also("the traffic passes a virtual device (%s), whose packets all wait at one core", nic.Kind.Or(""))
	case place.limit == "receive ring" && l.core.IsKnown() && l.core.Or(1) < nearHost:
		b.Rule = "B33"
		b.also("and no core was busier than %.0f %%, so that the way between the card and the memory is slow", 100*l.core.Or(0))
	}
	return b, true
}

// memory is rule B12: TCP ran out of socket memory.
func memory(f features) (*finding, bool) {
	for _, e := range []End{f.Receiver, f.Sender} {
		n := e.Counters.Moved("tcp_memory_pressures").Or(0)
		if a := e.Counters.Moved("tcp_aborted_for_memory").Or(0); n+a > 0 {
			return f.found(e.Host, "socket memory").
				because("tcp_memory_pressures, tcp_aborted_for_memory", "all TCP sockets together used more memory than they may %s", times(n+a)).
				helps("tcp.mem_limit"), true
		}
	}
	return nil, false
}

// ownLimit is rule B19: the host carries no more over loopback.
func ownLimit(f features) (*finding, bool) {
	for _, e := range []End{f.Receiver, f.Sender} {
		own, ok := e.Loopback.Get()
		if ok && float64(f.Goodput) >= nearHost*float64(own) && f.full.Or(0) < nearlyFull {
			return f.found(e.Host, "memory or CPU").
				because(e.Loopback.Source(), "the host carries %s to itself, without any network", own).
				allows(max(own, f.Goodput), e.Loopback.Source()).helps("link.mtu").
				noKnob("old hardware copies no faster; larger segments help a little"), true
		}
	}
	return nil, false
}

// disk is rule B22.
func disk(f features) (*finding, bool) {
	file, ok := f.Beside.File.Get()
	if !ok || float64(file) >= diskShare*float64(f.Goodput) {
		return nil, false
	}
	work := "writes"
	if f.Beside.FileHost == f.Sender.Host {
		work = "reads"
	}
	return f.found(f.Beside.FileHost, "disk").kind(model.FindingBeside).
		because(f.Beside.File.Source(), "its disk %s %s, and the network carries %s", work, file, f.Goodput).
		noKnob("linerate copy says which disk, and whether it takes turns with the network"), true
}

// moderation is rule B28: interrupt moderation of a card lengthens the round trip, which costs
// rate if a window is the limit.
func moderation(f features) (*finding, bool) {
	if f.rwnd.Or(0) < limitedShare && f.sndbuf.Or(0) < limitedShare || f.nearRTT <= 0 {
		return nil, false
	}
	for _, e := range []End{f.Receiver, f.Sender} {
		for _, id := range []model.KnobID{"nic.coalesce.rx_usecs", "nic.coalesce.tx_usecs"} {
			usecs, err := strconv.Atoi(e.Knob(id).Or(""))
			if err != nil || float64(usecs)*1e-6 < f.nearRTT.Seconds()/2 {
				continue
			}
			return f.found(e.Host, "interrupt moderation").kind(model.FindingBeside).
				because(string(id), "the card waits up to %d us before it interrupts, of a round trip of %s", usecs, units.FormatDuration(f.nearRTT)).helps(id), true
		}
	}
	return nil, false
}

// emulated is rule B31.
func emulated(f features) (*finding, bool) {
	for _, e := range []End{f.Sender, f.Receiver} {
		nic, ok := e.NIC()
		if !ok || e.Facts.Machine == nil || f.full.Or(1) >= nearlyFull {
			continue
		}
		by := e.Facts.Machine.Virtual.Or("")
		switch by {
		case "", model.NotVirtual:
			continue
		case model.NoName:
			by = "a hypervisor that does not give its name"
		}
		if d := nic.Driver.Or(""); slices.Contains([]string{"e1000", "e1000e", "8139cp", "8139too", "pcnet32", "ne2k-pci", "em", "rl"}, d) {
			return f.found(e.Host, "emulated card").
				because("facts", "the card (%s) is emulated by %s: every packet costs a detour through the hypervisor", d, by).
				noKnob("give the virtual machine a virtio or vmxnet3 card"), true
		}
	}
	return nil, false
}

// oldKernel is rule B42: a later kernel has a known improvement for this limit.
func oldKernel(f features) (*finding, bool) {
	for _, e := range []End{f.Receiver, f.Sender} {
		kernel, ok := e.Facts.Kernel.Get()
		if !ok || e.Facts.OS != "linux" || !olderThan(kernel, 6, 8) {
			continue
		}
		end := senderOf
		if e.Host == f.Receiver.Host {
			end = receiverOf
		}
		// Less work helps a program that runs all the time, not one that waits for others.
		if _, full := cpuRule(end)(f); full && f.load(e).wait.Or(0) < waitingThread && f.load(e).stopped.Or(0) < throttled {
			return f.found(e.Host, "old kernel").kind(model.FindingBeside).
				because("facts", "kernel %s: Linux 6.7 and 6.8 made TCP cheaper for the processor", kernel).
				noKnob("a newer kernel may help; how much is unknown"), true
		}
	}
	return nil, false
}

// overshoot is rule B38: a receive buffer far too large for a short path costs the receiver its
// cache.
func overshoot(f features) (*finding, bool) {
	w, ok := f.TCP.PeerWindow.Get()
	c, known := f.Ceiling.Get()
	if !ok || !known || f.nearRTT <= 0 || f.nearRTT.Seconds() >= 0.001 || f.full.Or(1) >= nearlyFull {
		return nil, false
	}
	if need := float64(c) / 8 * f.nearRTT.Seconds(); float64(w) < 4*need {
		return nil, false
	}
	if l := f.load(f.Receiver); l.run.Or(0) < busyThread {
		return nil, false
	}
	return f.found(f.Receiver.Host, "receive buffer too large").kind(model.FindingBeside).
		because("TCP_INFO snd_wnd", "a window of %s on a round trip of %s is more than four times what the path holds, and the receiver's processor is full", w.Binary(), units.FormatDuration(f.nearRTT)).
		helps(recvBuffer), true
}
