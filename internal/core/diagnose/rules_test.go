package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

func known[T any](v T) fact.Of[T] { return fact.Known(v, "test") }

// busy is a sender with data to send throughout a window of 10 s.
func busy() model.TCPSummary {
	return model.TCPSummary{
		MSS: known(1448), SendScale: known(10), Busy: known(10 * time.Second), SACK: known(true), Timestamps: known(true),
		RwndLimited: known(time.Duration(0)), SndbufLimited: known(time.Duration(0)), Congestion: known("cubic"), PathMTU: known(1500),
		RTT: known(10 * time.Millisecond), RTTMin: known(10 * time.Millisecond),
		Cwnd: known(units.Bytes(1 << 20)), PeerWindow: known(units.Bytes(4 << 20)), SendBuffer: known(units.Bytes(4 << 20)),
		Retransmits: known(int64(0)), SegmentsOut: known(int64(100000)),
	}
}

// evidence returns that of a rate over a link of 1 Gbit/s and 10 ms, with change applied. Both
// ends report their counters, none of which moved.
func evidence(d model.Direction, rate units.BitRate, change func(*Evidence)) Evidence {
	e := Evidence{
		Direction: d, Goodput: rate, Window: 10 * time.Second, TCP: busy(), Streams: 1,
		Ceiling: known(units.BitRate(941.48e6)), RTT: known(10 * time.Millisecond),
		Run:    &model.Run{State: model.RunValid, Flow: model.Flow{Direction: d, Duration: 10 * time.Second}},
		Sender: quiet(d.Sender()), Receiver: quiet(d.Receiver()),
	}
	e.Sender.Flow = &model.FlowReport{Direction: d, Role: model.Sender, Bytes: 100000 * 1448}
	e.Receiver.Flow = &model.FlowReport{Direction: d, Role: model.Receiver, Bytes: 100000 * 1448, Window: e.Window}
	if change != nil {
		change(&e)
	}
	return e
}

// quiet is an end with four nearly idle cores.
func quiet(h model.Host) End {
	r := &model.EndReport{Host: h, Waiting: "blocking thread"}
	e := End{Host: h, Facts: model.HostFacts{
		Host: h, Name: string(h), OS: "linux", CPUs: 4, Kernel: known("6.18.0"), MTU: known(1500), LinkRate: known(units.BitRate(1e9)), Qdisc: known("fq_codel"),
		Knobs: map[model.KnobID]fact.Of[string]{"tcp.window_scaling": known("1"), "tcp.recv_buffer_max": known("131072"), "tcp.recv_autotune": known("1")},
		NICs:  []model.NIC{{Name: "eth0", Kind: known("device")}},
	}, Report: r, CPU: known(0.1)}
	e.moved("thread_run_ms", 500, "thread_wait_ms", 20)
	for i := range 4 {
		e.Counters.parts["cpu_busy_ms"][fmt.Sprint("cpu", i)] = 900
	}
	return e
}

// moved marks counters as moved, and all groups as read.
func (e *End) moved(pairs ...any) {
	if e.Counters.parts == nil {
		e.Counters = Counters{parts: map[string]map[string]int64{"cpu_busy_ms": {}}, groups: map[string]int64{}}
		for _, g := range []string{"cpu", "softnet", "ip", "udp", "tcp", "nic", "qdisc", "driver", "thread", "cgroup", "queue", "ecn", "track", "mbuf", "log"} {
			e.Counters.groups[g] = 4
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		name, of, _ := strings.Cut(pairs[i].(string), "/")
		if e.Counters.parts[name] == nil {
			e.Counters.parts[name] = map[string]int64{}
		}
		e.Counters.parts[name][of] = int64(pairs[i+1].(int))
	}
}

// rates sets the goodputs of one second each, as shares of the run's own.
func rates(e *Evidence, shares ...float64) {
	for i, s := range shares {
		e.Samples = append(e.Samples, model.Sample{
			Host: e.Receiver.Host, Direction: e.Direction, Metric: model.Goodput, Start: time.Duration(i) * time.Second, Length: time.Second, Value: s * float64(e.Goodput),
		})
	}
}

// trips sets the round trips of one second each under load, in milliseconds.
func trips(e *Evidence, millis ...float64) {
	for i, v := range millis {
		e.Samples = append(e.Samples, model.Sample{
			Host: e.Sender.Host, Direction: e.Direction, Metric: model.RTT, Start: time.Duration(i) * time.Second, Length: time.Second, Value: v / 1000,
		})
	}
}

func nic(e *End, change func(*model.NIC)) { change(&e.Facts.NICs[0]) }

// Changes that several cases share.
func window(n units.Bytes, share float64) func(*Evidence) {
	return func(e *Evidence) {
		e.TCP.PeerWindow, e.TCP.RwndLimited = known(n), known(time.Duration(share*float64(10*time.Second)))
	}
}

func resent(e *Evidence, segments, events int) {
	e.TCP.Retransmits = known(int64(segments))
	e.Sender.moved("tcp_retransmitted", segments, "tcp_out_segments", 100000-segments, "tcp_recoveries", events)
}

// The ends that a finding may name.
const (
	atSender   = "sender"
	atReceiver = "receiver"
	nowhere    = ""
)

// aCase is evidence with the first finding that it must produce.
type aCase struct {
	name    string
	rate    units.BitRate
	change  func(*Evidence)
	rule    string
	at      string
	help    model.KnobID  // the first setting, "" for none
	allows  units.BitRate // 0: not looked at
	beside  bool          // the rule's finding is not the first, but among the others
	without string        // a rule that must not be among the findings
	alone   bool          // it is the only finding
	says    string        // a part of the evidence, "" for any
	misses  string        // a part of what would make the finding surer, "" for any
}

func cases() []aCase {
	return slices.Concat(fullCases(), windowCases(), lossCases(), longCases(), hostCases(), pathCases(), backCases(), linkCases(), radioCases(), scarceCases())
}

func fullCases() []aCase {
	return []aCase{
		{name: "a full link wins over everything", rate: 935e6, change: window(65536, 0.9), rule: "ceiling", at: atSender, allows: 941.48e6},
		{name: "nearly full", rate: 880e6, rule: "ceiling", at: atSender},
		{name: "nothing says anything", rate: 400e6, rule: "unknown"},
		{name: "more than there can be", rate: 1200e6, change: func(e *Evidence) {
			e.Path = limits.Ceiling{Rate: known(units.BitRate(941.48e6))}
			e.Ceiling = e.Path.Against(e.Goodput)
		}, rule: "B32", without: "ceiling"},
	}
}

// TestRules: each rule fires on its evidence in both directions and blames the right end, and
// is silent on the nearest evidence that does not show it.
func TestRules(t *testing.T) {
	fired := map[string]bool{}
	for _, c := range cases() {
		for _, d := range []model.Direction{model.To, model.From} {
			t.Run(c.name+"/"+string(d), func(t *testing.T) {
				got := Find(evidence(d, c.rate, c.change))
				check(t, d, c, got)
				for _, f := range got {
					fired[f.Rule] = true
				}
			})
		}
	}
	for _, r := range Rules() {
		must.True(t, r.look == nil || fired[r.ID], "no case fires %s", r.ID)
	}
}

func check(t *testing.T, d model.Direction, c aCase, got []model.Finding) {
	t.Helper()
	must.Need(t, len(got) != 0, "no answer")
	f := got[0]
	if c.beside {
		i := slices.IndexFunc(got, func(f model.Finding) bool { return f.Rule == c.rule })
		must.Need(t, i >= 1 && got[i].Kind == model.FindingBeside, "%s is not beside the first: %s", c.rule, rulesOf(got))
		f = got[i]
	}
	at := map[string]model.Host{atSender: d.Sender(), atReceiver: d.Receiver()}[c.at]
	must.Need(t, f.Rule == c.rule && f.Host == at, "found %s of %q, want %s of %q: %s", f.Rule, f.Host, c.rule, at, f.Evidence)
	v, ok := f.Implied.Get()
	must.True(t, c.allows <= 0 || ok && math.Abs(float64(v/c.allows)-1) <= 0.005, "implied %v, want %v", v, c.allows)
	must.True(t, !c.alone || len(got) <= 1, "more than one finding: %s", rulesOf(got))
	must.Contain(t, f.Evidence, c.says)
	must.Contain(t, fmt.Sprint(f.Missing), c.misses)
	must.True(t, c.help == "" || len(f.Knobs) != 0 && f.Knobs[0] == c.help, "knobs %v, want %s first", f.Knobs, c.help)
	for i, f := range got {
		must.True(t, f.Rule != c.without, "%s was found: %s", c.without, f.Evidence)
		must.True(t, f.Evidence != "" && (f.Rule != "unknown" || f.Confidence == 0) && !(f.Confidence < 0) && !(f.Confidence >= 1) &&
			len(f.Proof) != 0 && f.Direction == d, "%+v is no whole finding", f)
		must.Equal(t, f.Kind != model.FindingBeside, (i == 0), "%d: %s is of kind %q", i, f.Rule, f.Kind)
		text := Sentence(f, func(h model.Host) string { return string(h) })
		must.True(t, !strings.Contains(text, "%!") && !strings.Contains(text, "  "), "sentence %q", text)
	}
}

func rulesOf(fs []model.Finding) string {
	out := lists.Each(fs, func(f model.Finding) string { return f.Rule })
	return strings.Join(out, " ")
}

// TestUnknownStaysUnknown: without a run there is no finding, and without a report from the
// sender's kernel nothing gets the blame.
func TestUnknownStaysUnknown(t *testing.T) {
	must.Len(t, Find(Evidence{Direction: model.To, Goodput: 5e6, Streams: 1}), 0)
	for _, d := range []model.Direction{model.To, model.From} {
		got := Find(evidence(d, 50e6, func(e *Evidence) {
			e.TCP, e.Sender.Counters, e.Receiver.Counters = model.TCPSummary{}, Counters{}, Counters{}
		}))
		must.True(t, len(got) == 1 && got[0].Rule == "unknown" && len(got[0].RuledOut) == 0 && len(got[0].Missing) >= 2, "%+v", got)
	}
}

// TestRankedByWhatTheyExplain: of two limits, the one that leaves the smaller part of the gap
// comes first, whatever the order of the list; the other contributes.
func TestRankedByWhatTheyExplain(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From} {
		e := evidence(d, 50e6, func(e *Evidence) {
			window(65536, 0.6)(e)
			e.Sender.moved("cpu_steal_ms", 4000) // a tenth of the processors' time: a tenth of the rate
		})
		got := Find(e)
		must.Contain(t, fmt.Sprint(got[0].Proof), "the hypervisor gave 10 %", "what costs next to nothing stays behind --why")
		must.True(t, len(got) == 1 && got[0].Rule == "B07" && got[0].Explains.Or(0) >= 0.9, "%s: %s, %+v", d, rulesOf(got), got[0].Explains)
		// 400 of 941 Mbit/s: a window that would allow 800 explains a quarter of the
		// gap, an idle half of the time nearly all of it.
		e = evidence(d, 400e6, func(e *Evidence) {
			window(1000000, 0.3)(e)
			e.TCP.Busy, e.TCP.RwndLimited = known(5*time.Second), known(2*time.Second)
		})
		got = Find(e)
		must.True(t, len(got) == 2 && got[0].Rule == "B21" && got[1].Rule == "B07" && got[1].Kind == model.FindingBeside && got[0].Explains.Or(0) >= 0.7 && got[1].Explains.Or(1) <= 0.3,
			"%s: %s: %v, %v", d, rulesOf(got), got[0].Explains, got[1].Explains)
	}
}

// TestNotFoundSaysWhatWasRuledOut: "not found" is an answer of its own.
func TestNotFoundSaysWhatWasRuledOut(t *testing.T) {
	got := Find(evidence(model.To, 400e6, nil))
	want := "limit not found; ruled out: windows, loss, reordering, CPU of both ends, the sending application (42.5 % of 941.5 Mbit/s were reached)"
	must.Equal(t, Sentence(got[0], nil), want)
	got = Find(evidence(model.To, 400e6, func(e *Evidence) { // processors busy with other work are not ruled out
		e.Receiver.moved("cpu_busy_ms/cpu0", 9000, "cpu_busy_ms/cpu1", 9000, "cpu_busy_ms/cpu2", 8000, "cpu_busy_ms/cpu3", 8000)
	}))
	must.Contain(t, strings.Join(got[0].RuledOut, ", "), "CPU of the sender")
	must.Equal(t, len(got[0].Missing), 2, "a quiet receiver, and both directions at once, are missing")
	got = Find(evidence(model.To, 400e6, func(e *Evidence) { e.Receiver.moved("thread_run_ms", 8500) })) // of 10 s
	must.Contain(t, strings.Join(got[0].RuledOut, ", ")+".", "CPU of the sender, the sending application.")
	got = Find(evidence(model.To, 400e6, func(e *Evidence) { e.Receiver.Counters = Counters{} }))
	must.True(t, slices.Contains(got[0].RuledOut, "CPU of the sender") && !slices.Contains(got[0].RuledOut, "CPU of both ends") &&
		len(got[0].Missing) == 2, "%+v", got[0])
}

// TestCleanPathIsNeverBlamed: a path at its ceiling yields exactly one answer, at any rate and
// round trip, with the queue of one round trip that a sender needs.
func TestCleanPathIsNeverBlamed(t *testing.T) {
	for _, rate := range []units.BitRate{1e6, 10e6, 100e6, 1e9} {
		for _, rtt := range []time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond} {
			for _, cc := range []string{"cubic", "bbr"} {
				got := Find(evidence(model.To, rate*0.93, func(e *Evidence) {
					e.Ceiling, e.RTT = known(rate*0.9415), known(rtt)
					e.TCP.Congestion, e.TCP.RTTMin, e.TCP.RTT = known(cc), known(rtt), known(2*rtt)
					rates(e, 1, 1, 1, 1)
					resent(e, 30, 3)
					e.Receiver.moved("thread_wait_ms", 5000)
				}))
				must.True(t, len(got) == 1 && got[0].Kind == model.FindingFull, "%v at %v with %s: %s", rate, rtt, cc, rulesOf(got))
			}
		}
	}
}

// TestFullSaysWhatTheReportSays: with two runs, neither is the median that the report shows
// beside the finding.
func TestFullSaysWhatTheReportSays(t *testing.T) {
	got := Find(evidence(model.To, 92e6, func(e *Evidence) {
		e.Ceiling, e.Repeats = known(units.BitRate(94.15e6)), []units.BitRate{92e6, 94e6}
		resent(e, 30, 3)
	}))
	must.True(t, len(got) == 1 && got[0].Kind == model.FindingFull && strings.HasPrefix(got[0].Evidence, "98.8 % of the 94.15 Mbit/s"), "%+v", got)
}

// A window that would allow far more than the reached rate is not the limit.
func TestAmpleWindowIsNotBlamed(t *testing.T) {
	e := evidence(model.To, 31e9, func(e *Evidence) {
		e.Ceiling, e.RTT = fact.Unknown[units.BitRate]("a link without a rate"), known(8*time.Microsecond)
		e.TCP.RwndLimited, e.TCP.PeerWindow, e.TCP.RTT = known(4*time.Second), known(units.Bytes(6<<20)), known(8*time.Microsecond)
		e.Receiver.Facts.Knobs = nil
	})
	got := Find(e)
	must.True(t, !strings.Contains(rulesOf(got), "B07"), "blamed: %+v", got)
	e.Goodput = 4e12
	got = Find(e)
	must.True(t, got[0].Rule == "B07", "a window that is used up is not named: %+v", got)
}

// A finding of a full path names what fills: the link, or the bus of an interface, which names
// its host itself.
func TestWhatIsFull(t *testing.T) {
	e := evidence(model.To, 470e6, func(e *Evidence) {
		e.Ceiling = known(units.BitRate(478e6))
		e.Path.Limits = []limits.Limit{{Name: "bus of nas", Rate: 478e6}, {Name: "link", Rate: 941.48e6}}
	})
	f := Find(e)
	must.True(t, f[0].Rule == "ceiling" && f[0].Limit == "bus of nas" && f[0].Host == "", "%+v", f)
	e.Path.Limits[0].Rate, e.Goodput, e.Ceiling = 8e9, 935e6, known(units.BitRate(941.48e6))
	f = Find(e)
	must.True(t, len(f) == 1 && f[0].Limit == "link" && f[0].Host == model.Near, "%+v", f)
}

// unshown are the rules without a real run on the page: why, and what would show them. Virtual hosts share one kernel and have no card.
func unshown() map[string]string {
	return map[string]string{
		"B27 speed left low by wake-on-LAN":    "needs a card that can wake its host, at 10 or 100 Mbit/s.",
		"W01 radio":                            "needs a radio whose frames take time: those that Linux simulates carry what the processor does.",
		"W02 radio that sleeps":                "needs a radio with power save.",
		"B04 wire errors":                      "needs a card that checks frames, and a bad cable. A virtual interface carries frames without a checksum.",
		"B24 device resets":                    "needs a card that hangs, or a driver that can be made to report it.",
		"B05 flow control":                     "needs a card that counts pause frames, and a peer or switch that sends them.",
		"B39 allowance of a cloud":             "needs an instance whose card counts what it cuts, such as ENA of Amazon.",
		"B13 network buffers of BSD":           "needs a FreeBSD host whose buffers are used up.",
		"B20 large buffers for jumbo frames":   "needs a card with an MTU above 4074 in a host whose memory is in pieces.",
		"B18 bus of the card":                  "needs a card in a slot that is slower than its link. The lab's own bus shows by its effect: the next section.",
		"B40 one connection on a bond":         "needs a bond of two interfaces with a known rate, and a kernel with that driver.",
		"B36 bbr without pacing":               "needs a Linux older than 4.13.",
		"B23 processor that is slow or shared": "needs a hypervisor that gives so much of a virtual machine's time to others that it costs a fifth of the rate.",
		"B22 disk":                             "needs a disk that is slower than the network, and linerate check --disk.",
		"B28 interrupt moderation":             "needs a card whose moderation can be read and is half a round trip or more.",
		"B38 receive buffer too large":         "needs a path below 1 ms that is so fast that the receiving thread never sleeps, from about 40 Gbit/s on.",
		"B42 old kernel":                       "needs a Linux older than 6.8 whose processor is full.",
		"B15 remembered path":                  "needs a host on which linerate may not forget what TCP remembers, as it does before each run where it may, and that remembers thresholds (tcp_no_ssthresh_metrics_save=0).",
		"B43 layer in between":                 "needs the Windows Subsystem for Linux or Docker Desktop.",
		"fault measurement fault":              "needs a host whose clock or counters are wrong.",
		"B34 sticky transmit queue":            "needs a card with several transmit queues whose driver counts each.",
	}
}

// TestCalibrated: the counted results move the confidence from the expected share towards the
// share that was right, in both directions, and no rule is ever certain.
func TestCalibrated(t *testing.T) {
	rules := map[string]bool{}
	for _, r := range Rules() {
		rules[r.ID] = true
		for _, whole := range []bool{true, false} {
			c, n, before := calibrated(r.ID, whole), judged()[key(r.ID, whole)], expected(r.ID, whole)
			must.True(t, c >= 0 && c < 1, "%s: %g", r.ID, c)
			if n.said == 0 {
				must.Equal(t, c, 0, "%s", r.ID)
				continue
			}
			share := float64(n.right) / float64(n.said)
			must.True(t, n.right <= n.said && !(c < min(before, share)-0.005) && !(c > max(before, share)+0.005),
				"%s: %g, want between %g and %g", r.ID, c, before, share)
		}
	}
	for name := range judged() {
		rule := name
		if len(name) > len(inPart) && name[len(name)-len(inPart):] == inPart {
			rule = name[:len(name)-len(inPart)]
		}
		must.True(t, rules[rule] || rule == "B37" || rule == "udp-send", "%s is no rule", name)
	}
}
