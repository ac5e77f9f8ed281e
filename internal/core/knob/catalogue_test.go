package knob_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestCatalogueIsComplete checks the required parts of every entry.
func TestCatalogueIsComplete(t *testing.T) {
	seen := map[model.KnobID]bool{}
	for _, k := range knob.Catalogue() {
		must.True(t, !seen[k.ID], "%s: listed twice", k.ID)
		seen[k.ID] = true
		must.True(t, k.Summary != "" && k.Source != "" && k.Effect != "" && k.Type != "" && k.Scope != "", "%s: has no summary, source, effect, type or scope", k.ID)
		number := k.Type == knob.TypeBytes || k.Type == knob.TypeInt || k.Type == knob.TypeRate
		must.True(t, !number || k.Min < k.Max, "%s: range %d to %d", k.ID, k.Min, k.Max)
		must.True(t, k.Type != knob.TypeInt || k.Unit != "", "%s: a number without a unit", k.ID)
		must.Equal(t, k.Type == knob.TypeEnum, len(k.Choices) > 0, "%s: choices are for enumerations, which need them", k.ID)
		must.Equal(t, k.Scope == knob.ScopeFlow, len(k.Native) == 0, "%s: a knob of a host or link has native names, one of a flow has none", k.ID)
		must.True(t, k.Scope == knob.ScopeFlow || k.ReadOnly || k.Verify != "" && len(k.Defaults) != 0, "%s: has no way to verify it or no defaults", k.ID)
		must.True(t, strings.ToLower(k.Summary[:1]) == k.Summary[:1] || strings.HasPrefix(k.Summary, "TCP") || strings.HasPrefix(k.Summary, "VLAN"),
			"%s: summary %q does not start in lower case", k.ID, k.Summary)
		got, ok := knob.NewIndex().ByID(k.ID)
		must.True(t, ok && got.Summary == k.Summary, "ByID(%s) does not find it", k.ID)
	}
	must.True(t, len(seen) >= 150, "the catalogue has %d knobs: a part of it is missing", len(seen))
	_, ok := knob.NewIndex().ByID("no.such")
	must.True(t, !ok, "ByID finds a knob that is not there")
}

// TestNativeSettings checks the required parts of every native setting, and that no two knobs
// use the same part of one.
func TestNativeSettings(t *testing.T) {
	type part struct {
		system    string
		mechanism knob.Mechanism
		name      string
		encoding  knob.Encoding
	}
	owner := map[part]model.KnobID{}
	for _, k := range knob.Catalogue() {
		for system, n := range k.Native {
			must.True(t, slices.Contains(knob.Systems(), system), "%s: unknown system %q", k.ID, system)
			p := part{system, n.Mechanism, n.Name, n.Encoding}
			other, ok := owner[p]
			must.True(t, !ok, "%s and %s both are %s (%q) on %s", k.ID, other, n.Name, n.Encoding, system)
			owner[p] = k.ID
			checkNative(t, k, system, n)
		}
	}
	// Whole texts and parts of them do not mix: writing one would break the other.
	for p, id := range owner {
		other, ok := owner[part{p.system, p.mechanism, p.name, knob.Plain}]
		must.True(t, !ok || p.encoding == knob.Plain || id == other || p.encoding == knob.Level, "%s is all of %s on %s, and %s a part of it", other, p.name, p.system, id)
	}
}

func checkNative(t *testing.T, k knob.Knob, system string, n knob.Native) {
	t.Helper()
	must.True(t, n.Name != "", "%s on %s: has no name", k.ID, system)
	if n.Mechanism == knob.NotYet {
		must.True(t, n.Note != "", "%s on %s: does not say why %s cannot be used", k.ID, system, n.Name)
		return
	}
	must.True(t, slices.Contains(knob.Mechanisms(system), n.Mechanism), "%s: %s has no mechanism %s", k.ID, system, n.Mechanism)
	must.Equal(t, n.Mechanism == knob.WinReg, n.Absent != "", "%s on %s: what an absent value means is for registry values, which need it", k.ID, system)
	low, high := k.Bounds(system)
	must.True(t, k.Type != knob.TypeBytes && k.Type != knob.TypeInt || low >= k.Min && high <= k.Max && low < high,
		"%s on %s: range %d to %d is not within %d to %d", k.ID, system, low, high, k.Min, k.Max)
	must.True(t, k.EffectOn(system) != knob.EffectBoot || n.Permanent(system) != "", "%s on %s: is read at boot and has no permanent form", k.ID, system)
	must.True(t, k.ReadOnly || n.ReadOnly || n.Mechanism == knob.Qdisc || n.Permanent(system) != "", "%s on %s: has no permanent form", k.ID, system)
	if n.Mechanism == knob.WinReg && n.Encoding == knob.Plain {
		must.Equal(t, must.Get(k.Decode(system, "absent"))(t), n.Absent, "%s on %s: absent reads as", k.ID, system)
	}
}

// TestDeadNames: every replacement exists and works on that system, where no knob uses the dead
// name.
func TestDeadNames(t *testing.T) {
	for _, d := range knob.DeadNames() {
		must.True(t, len(d.Names) != 0 && d.Was != "" && d.Now != "" && d.Lived != "" && d.Source != "", "%v: an answer is missing", d.Names)
		must.True(t, len(d.Instead) != 0 || d.Advice != "", "%v: nothing is said about what to do instead", d.Names)
		for _, id := range d.Instead {
			k, ok := knob.NewIndex().ByID(id)
			if !ok {
				t.Errorf("%v: replaced by %s, which is no knob", d.Names, id)
			} else if _, here := k.Native[d.System]; !here {
				t.Errorf("%v: replaced by %s, which %s has not", d.Names, id, d.System)
			}
		}
		for _, name := range d.Names {
			e, ok := knob.NewIndex().Explain(name)
			must.True(t, ok && len(e.Dead) != 0, "Explain(%q) does not know that it is dead", name)
			for _, u := range e.Uses {
				n := u.Native
				must.True(t, u.System != d.System || !strings.EqualFold(n.Name, name) || n.Mechanism == knob.NotYet || n.ReadOnly,
					"%s is dead on %s, and %s uses it", name, d.System, u.Knob.ID)
			}
		}
	}
}

func TestConstraintsNameKnobs(t *testing.T) {
	for _, c := range knob.Constraints() {
		must.True(t, c.ID != "" && c.Rule != "" && c.Source != "" && len(c.Knobs) != 0, "%s: rule, source or knobs are missing", c.ID)
		for _, id := range c.Knobs {
			_, ok := knob.NewIndex().ByID(id)
			must.True(t, ok, "%s: looks at %s, which is no knob", c.ID, id)
		}
		must.Equal(t, c.Breaks(knob.Values{}, knob.Values{}), "", "%s: unknown values break it", c.ID)
	}
}

// meant returns the targets of an explanation, one per line.
func meant(e knob.Explanation) string {
	var b strings.Builder
	if k := e.Knob; k != nil {
		for system, n := range k.Native {
			fmt.Fprintf(&b, "on %s: %s\n", system, n.Name)
		}
		fmt.Fprintln(&b, k.Range("linux"), k.Avoid)
	}
	for _, u := range e.Uses {
		fmt.Fprintf(&b, "on %s is %s: %s %s\n", u.System, u.Knob.ID, u.Knob.EffectOn(u.System), u.Native.Permanent(u.System)+u.Native.Note)
	}
	for _, d := range e.Dead {
		fmt.Fprintf(&b, "on %s: %s (%s); %s; instead: %s %s\n", d.System, d.Was, d.Lived, d.Now, d.Instead, d.Advice)
	}
	return b.String()
}

func TestExplain(t *testing.T) {
	for name, want := range map[string][]string{
		"tcp.recv_buffer_max":                {"on linux: net.ipv4.tcp_rmem", "on freebsd: net.inet.tcp.recvbuf_max", "on windows: AutoTuningLevelLocal"},
		"net.ipv4.tcp_rmem":                  {"tcp.recv_buffer_max", "tcp.recv_buffer_initial", "tcp.recv_buffer_min"},
		"sysctl -w net.ipv4.tcp_rmem='4096'": {"tcp.recv_buffer_max"},
		"/proc/sys/net/ipv4/tcp_sack":        {"tcp.sack"},
		"tcp_rmem":                           {"tcp.recv_buffer_max"},
		"net.inet.tcp.inflight_enable":       {"FreeBSD 4.7 to 8", "instead: [tcp.congestion_control]"},
		"net.inet.tcp.inflight.stab":         {"instead: [tcp.congestion_control]"},
		"kern.polling.enable=1":              {"instead: [polling]"},
		"net.isr.enable":                     {"instead: [netisr.dispatch]"},
		"net.isr.direct_force":               {"instead: [netisr.dispatch]"},
		"GlobalMaxTcpWindowSize":             {"not read since Vista", "tcp.autotune_level"},
		"TcpWindowSize":                      {"ignored since Vista"},
		"Tcp1323Opts":                        {"bit 0 window scaling", "tcp.timestamps"},
		"net.ipv4.tcp_tw_recycle":            {"removed in 4.12", "nothing"},
		"tcp_tw_recycle":                     {"removed in 4.12"},
		"net.ipv4.tcp_low_latency":           {"no effect", "busy_poll"},
		"net.ipv4.tcp_vegas_cong_avoid":      {"tcp.congestion_control"},
		"net.inet.tcp.rfc1323":               {"on freebsd is tcp.window_scaling", "on freebsd is tcp.timestamps", "on darwin: window scaling"},
		"kern.ipc.nmbclusters":               {"on freebsd is mbuf.clusters", "boot argument ncl"},
		"net.inet.tcp.recvbuf_inc":           {"absent in 13"},
		"JumboPacket":                        {"link.frame_mtu", "9014 is 9000"},
		"*jumbopacket":                       {"link.frame_mtu"},
		"dev.em.0.iflib.override_nrxds":      {"nic.ring.rx", "/boot/loader.conf"},
		"EnablePMTUDiscovery":                {"tcp.pmtud"},
		"kern.ipc.somaxconn":                 {"on darwin is tcp.listen_queue", "on freebsd: length of the listen queue"},
		"net.inet.tcp.path_mtu_discovery":    {"tcp.pmtud"},
		"net.core.netdev_max_backlog":        {"rx.backlog"},
		"NMBCLUSTERS":                        {"mbuf.clusters"},
		"net.link.ifqmaxlen":                 {"txqueuelen", string(knob.EffectBoot)},
		"nic.media.speed":                    {"or auto", "best common mode"},
	} {
		e, ok := knob.NewIndex().Explain(name)
		if !ok {
			t.Errorf("Explain(%q) knows nothing", name)
			continue
		}
		for _, w := range want {
			must.Contain(t, meant(e), w, "Explain(%q)", name)
		}
	}
	e, _ := knob.NewIndex().Explain("net.ipv4.tcp_rmem=4096 87380 99")
	must.True(t, len(e.Sets) == 2 && len(e.Refused) == 1 && strings.Contains(e.Refused[0], `"99" of tcp.recv_buffer_max`), "a value out of its range: %q, sets %v", e.Refused, e.Sets)
	for _, name := range []string{"", "=", "tcp", "net.ipv4", "completely.different", "max", "enable"} {
		if e, ok := knob.NewIndex().Explain(name); ok {
			t.Errorf("Explain(%q) knows something:\n%s", name, meant(e))
		}
	}
	if e, _ := knob.NewIndex().Explain("kern.polling.enable"); !slices.Contains(e.Replaced(), "polling") {
		t.Errorf("Replaced = %v", e.Replaced())
	}
}

// TestEveryNativeNameIsExplained: every native name in the catalogue has an explanation that
// leads back to its knob.
func TestEveryNativeNameIsExplained(t *testing.T) {
	for _, k := range knob.Catalogue() {
		e, ok := knob.NewIndex().Explain(string(k.ID))
		must.True(t, ok && e.Knob != nil, "Explain(%s) knows nothing", k.ID)
		for system, n := range k.Native {
			e, _ := knob.NewIndex().Explain(n.Name)
			must.True(t, slices.ContainsFunc(e.Uses, func(u knob.Use) bool { return u.System == system && u.Knob.ID == k.ID }),
				"Explain(%q) does not lead to %s on %s", n.Name, k.ID, system)
		}
	}
}
