package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
)

// The rules about scarce resources of a host, and about messages of its kernel on its
// interface.

// bufferShortage is rule B13: FreeBSD denied network buffers or delayed requests for them.
func bufferShortage(f features) (*finding, bool) {
	for _, e := range []End{f.Receiver, f.Sender} {
		denied, waited, said := e.Counters.Moved("mbuf_denied").Or(0), e.Counters.Moved("mbuf_delayed").Or(0), e.Counters.Moved("log_buffers_denied").Or(0)
		if denied+waited+said == 0 {
			continue
		}
		b := f.found(e.Host, "network buffers").explains(f.explainedBy1()).noKnob("free memory, or raise the limit of the buffers at that host")
		if denied+waited > 0 {
			kinds := scarcest(e.Counters.By("mbuf_denied"), e.Counters.By("mbuf_delayed"))
			b.because("mbuf_denied, mbuf_delayed", "%s refused and %s had to wait, most of them for %s", plain.Count(denied, "request for a buffer was", "requests for buffers were"), plain.Count(waited, "request"), strings.Join(kinds, " and "))
			for _, kind := range kinds {
				b.helps(slices.DeleteFunc(poolOf(kind), func(id model.KnobID) bool { return slices.Contains(b.Knobs, id) })...)
			}
		} else {
			b.helps("mbuf.clusters")
		}
		if said > 0 {
			b.because("log_buffers_denied", "the kernel said %s that it has no buffers left", times(said))
		}
		return b, true
	}
	return nil, false
}

// scarcest returns the kinds of buffers that ran short most, the worst first: each with at
// least a tenth of all requests.
func scarcest(all ...map[string]int64) []string {
	sum, total := map[string]int64{}, int64(0)
	for _, parts := range all {
		for of, n := range parts {
			sum[of] += n
			total += n
		}
	}
	kinds := slices.SortedFunc(maps.Keys(sum), func(a, b string) int {
		return cmp.Or(cmp.Compare(sum[b], sum[a]), strings.Compare(a, b))
	})
	return slices.DeleteFunc(kinds, func(of string) bool { return sum[of] == 0 || sum[of]*10 < total })
}

// poolOf returns the settings that limit a kind of buffer.
func poolOf(kind string) []model.KnobID {
	switch kind {
	case "mbufs":
		return []model.KnobID{"mbuf.total"}
	case "clusters of one page":
		return []model.KnobID{"mbuf.jumbo_p", "link.mtu"}
	case "clusters of 9 KiB":
		return []model.KnobID{"mbuf.jumbo9", "link.mtu"}
	case "clusters of 16 KiB":
		return []model.KnobID{"mbuf.jumbo16", "link.mtu"}
	}
	return []model.KnobID{"mbuf.clusters"}
}

// driverSaid sums the driver's counters whose names contain all words.
func driverSaid(e End, words ...string) (n int64, name string) {
	for of, moved := range e.Counters.By(driverCounter) {
		low := strings.ToLower(of)
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(low, w) }) {
			n, name = n+moved, of
		}
	}
	return n, name
}

// largeBuffers is rule B20: no contiguous memory for frames above a page.
func largeBuffers(f features) (*finding, bool) {
	for _, e := range []End{f.Receiver, f.Sender} {
		said := e.Counters.Moved("log_page_allocations").Or(0)
		failed, _ := driverSaid(e, "alloc", "fail")
		if said+failed == 0 {
			continue
		}
		b := f.found(e.Host, "memory for large frames").helps("link.mtu").
			noKnob("frames of at most one page (an MTU of 4074 or 1500) need no memory in one piece; more memory, or a larger reserve (vm.min_free_kbytes), helps as well")
		if said > 0 {
			b.because("log_page_allocations", "the kernel found no memory in one piece for more than a page %s", times(said))
		}
		if failed > 0 {
			b.because(driverCounter, "the driver got no memory for received frames %s", times(failed))
		}
		if mtu := e.Facts.MTU.Or(0); mtu > pageFrame {
			return b.also("the MTU there is %d", mtu).explains(f.explainedBy1()), true
		}
		return b.kind(model.FindingBeside), true
	}
	return nil, false
}

// deviceReset is rule B24: the interface hung, and its driver reset it.
func deviceReset(f features) (*finding, bool) {
	for _, e := range []End{f.Sender, f.Receiver} {
		said := e.Counters.Moved("log_device_resets").Or(0)
		hung, name := driverSaid(e, "tx_timeout")
		if said+hung == 0 {
			continue
		}
		b := f.found(e.Host, "card that hangs").explains(f.explainedBy1()).
			misses(said > 0 || e.Counters.many("log") > 0, "what the kernel says of it", "the kernel's log, which needs root").
			noKnob("take back the offload that was changed last (segmentation first), rings to their default, a newer driver and firmware; then the card is suspect")
		if said > 0 {
			b.because("log_device_resets", "the kernel said %s that the card hung or was reset", times(said))
		}
		if hung > 0 {
			b.because(driverCounter+" "+name, "a transmit queue of the card stood still %s", times(hung))
		}
		return b.helps("nic.offload.tso", "nic.ring.tx"), true
	}
	return nil, false
}

// tracking is rule B26: the table of tracked connections is full. Open connections continue;
// new ones fail, and so do packets of evicted ones.
func tracking(f features) (*finding, bool) {
	for _, e := range []End{f.Sender, f.Receiver} {
		dropped, evicted, said := e.Counters.Moved("track_dropped").Or(0), e.Counters.Moved("track_evicted").Or(0), e.Counters.Moved("log_track_full").Or(0)
		if dropped+evicted < fewSigns && said == 0 {
			continue
		}
		b := f.found(e.Host, "table of tracked connections").
			noKnob("a larger table there (net.netfilter.nf_conntrack_max), shorter timeouts, or no tracking of this traffic (notrack)")
		if dropped+evicted > 0 {
			b.because("track_dropped, track_evicted", "the table is full: %s dropped, and %s forgotten to make room", plain.Count(dropped, "packet was", "packets were"), plain.Count(evicted, "connection was", "connections were"))
		}
		if said > 0 {
			b.because("log_track_full", "the kernel said %s that the table is full", times(said))
		}
		again := f.Sender.Counters.Moved("tcp_retransmitted").Or(f.TCP.Retransmits.Or(0))
		if again > 0 && float64(dropped) >= hostDrops*float64(again) {
			return b.explains(f.explainedBy1()), true
		}
		return b.kind(model.FindingBeside), true
	}
	return nil, false
}

// oneQueue is rule B34: nearly all packets of several connections leave through one of many
// transmit queues. That costs nothing while a core has time for it.
func oneQueue(f features) (*finding, bool) {
	queues := f.Sender.Counters.many("queue")
	if f.Streams < 2 || queues < 2 || f.full.Or(1) >= nearlyFull {
		return nil, false
	}
	var most, all int64
	for _, n := range f.Sender.Counters.By("queue_tx_packets") {
		most, all = max(most, n), all+n
	}
	if all < smallFrame || float64(most) < nearlyAll*float64(all) {
		return nil, false
	}
	b := f.found(f.Sender.Host, "one transmit queue").
		because("queue_tx_packets", "%.0f %% of all packets left through one of %d transmit queues, of %d connections", 100*float64(most)/float64(all), queues, f.Streams).
		helps("nic.queues.combined", "xps").noKnob("transmit packet steering, or programs that stay on their cores; Linux 6.19 moves connections by itself")
	l := f.load(f.Sender)
	if l.core.Or(0) >= fullCore && l.others.Or(1) < otherCores {
		return b.explains(f.explainedBy1()).because(l.core.Source(), "and one core is full while the others are not"), true
	}
	return b.kind(model.FindingBeside), true
}

// damagedMarks is rule B35: a device on the path refuses, removes or forges the marks of
// explicit congestion notification (RFC 3168).
func damagedMarks(f features) (*finding, bool) {
	ecn, known := f.TCP.ECN.Get()
	if !known {
		return nil, false
	}
	b := f.found("", "ECN").helps("tcp.ecn").noKnob("a router or firewall between the hosts rewrites the field: mend it there, or do without ECN")
	sent := f.TCP.SegmentsOut.Or(0)
	capable, ok := f.Receiver.Counters.Sum("ecn_capable", "ecn_congested").Get()
	congested := f.Receiver.Counters.Moved("ecn_congested").Or(0)
	switch {
	case !ecn && f.Sender.Knob(ecnKnob).Or("") == "1" && f.Receiver.Knob(ecnKnob).Or("") == "1":
		return b.kind(model.FindingBeside).because("TCP_INFO options, tcp.ecn of both hosts", "both hosts ask for ECN, and the connection opened without it: something between them takes it away"), true
	case !ecn || !ok || sent < smallFrame:
		return nil, false
	case float64(capable) < (1-nearlyAll)*float64(sent):
		return b.kind(model.FindingBeside).because("ecn_capable, ecn_congested of the receiver", "ECN was agreed on, and of %d segments %d arrived with its mark: something on the way removes it", sent, capable), true
	case float64(congested) >= nearlyAll*float64(capable) && f.queue.Or(standing) < standing:
		return b.because("ecn_congested of the receiver", "%d of %d segments arrived marked as congested while no queue stood: the marks are forged", congested, capable).
			explains(f.explainedBy1()), true
	}
	return nil, false
}

// becauseOfQuota adds how much a quota stopped the process. The number of throttled periods
// needs no sum over processors (admin-guide/cgroup-v2.rst).
func (b *finding) becauseOfQuota(e End, l load) *finding {
	stopped, source, what := l.stopped.Or(0), l.stopped.Source(), "a quota of processor time"
	if q, ok := l.quota.Get(); ok {
		what, source = fmt.Sprintf("a quota of %.2g processors", q), source+", "+l.quota.Source()
	}
	if n := e.Counters.Moved("cgroup_periods").Or(0); n > 0 {
		cut := min(n, e.Counters.Moved("cgroup_periods_throttled").Or(0))
		return b.because(source+", cgroup_periods", "%s was used up in %.0f %% of its periods, and stopped the process until the next one", what, 100*float64(cut)/float64(n))
	}
	return b.because(source, "%s stopped the process for %.0f %% of the time", what, 100*stopped)
}

// raiseQuota is the advice against a quota.
const raiseQuota = "raise the quota of the control group or the container (cpu.max, in version 1 cpu.cfs_quota_us)"

// impossible reports impossible numbers, which no rule uses: they are faults of the measurement
// and say nothing about the host.
func impossible(f features) (*finding, bool) {
	for _, e := range []End{f.Sender, f.Receiver} {
		if faults := f.load(e).faults; len(faults) > 0 {
			return f.found(e.Host, "measurement fault").kind(model.FindingBeside).
				because("counters", "more time than there was: %s; nothing is concluded from it", strings.Join(faults, ", ")).
				noKnob("measure again; if it stays, the host's clock or its counters are wrong, so please report it"), true
		}
	}
	return nil, false
}

// waitsFor says why a thread waited for a processor: other threads used it or, if the
// processors had spare time, a quota or affinity keeps the thread off them.
func (b *finding) waitsFor(l load) {
	wait := 100 * min(1, l.wait.Or(0))
	if spare := l.spare.Or(0); spare >= limitedShare {
		b.because(l.wait.Source()+", "+l.spare.Source(), "the process could have run and had no processor for %.0f %% of the time, though the processors had nothing to do for %.0f %% of it: a quota stops it, or it may use one of them only", wait, 100*spare).
			noKnob(raiseQuota + ", or let the program use more processors (cpuset, taskset)")
		return
	}
	b.because(l.wait.Source(), "the process could have run and had no processor for %.0f %% of the time: other programs had it", wait).
		noKnob("stop what else runs there, or give the measured program a higher priority")
}
