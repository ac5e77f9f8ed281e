package knob_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

// fakeTree makes a directory with the sysctl files that the catalogue names.
func fakeTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"tcp_rmem": "4096\t131072\t33554432", "tcp_wmem": "4096\t16384\t4194304", "tcp_sack": "1",
		"tcp_congestion_control": "cubic", "tcp_available_congestion_control": "reno cubic",
	} {
		path := filepath.Join(root, "net", "ipv4", name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text+"\n"), 0o644))
	}
	return root
}

func TestHostRead(t *testing.T) {
	h := hostknob.Host{ProcSys: fakeTree(t)}
	got := h.Read(t.Context(), "tcp.recv_buffer_max", "tcp.congestion_control", "tcp.timestamps", "link.mtu", "window", "nonsense")
	v, ok := got["tcp.recv_buffer_max"].Get()
	must.True(t, ok && v == "33554432", "tcp.recv_buffer_max = %q, %v", v, ok)
	if v := got["tcp.congestion_control"]; v.Or("") != "cubic" || v.Source() != "net.ipv4.tcp_congestion_control" {
		t.Errorf("tcp.congestion_control = %q from %q", v.Or(""), v.Source())
	}
	for id, why := range map[model.KnobID]string{
		"tcp.timestamps": "no net.ipv4.tcp_timestamps", "link.mtu": "interface of the data path",
		"window": "not to a host", "nonsense": "unknown knob",
	} {
		must.Contain(t, got[id].Reason(), why, "%s is unknown because", id)
	}
}

func TestChoices(t *testing.T) {
	h := hostknob.Host{ProcSys: fakeTree(t)}
	got, err := h.Choices(t.Context(), "tcp.congestion_control")
	must.True(t, strings.Join(got, " ") == "reno cubic" && err == nil, "Choices = %v, %v", got, err)
	must.Is(t, must.Err(h.Choices(t.Context(), "tcp.sack")), errors.ErrUnsupported, "Choices of a switch")
}

func TestUnknownAlgorithmNamesTheKnownOnes(t *testing.T) {
	knobtest.InNamespace(t, testUnknownAlgorithmNamesTheKnownOnes)
}

func testUnknownAlgorithmNamesTheKnownOnes(t *testing.T) {
	var h hostknob.Host
	_, p, err := h.Place("tcp.congestion_control")
	must.Do(t, err)
	err = h.WriteRaw(t.Context(), "tcp.congestion_control", p, "nosuch")
	must.True(t, errors.Is(err, errors.ErrUnsupported) && strings.Contains(err.Error(), "this host has "), "write of an unknown algorithm = %v", err)
}

// TestCeilingLowersWhatIsBelow: minimum, default and maximum stay in order for every value,
// and the maximum reads back.
func TestCeilingLowersWhatIsBelow(t *testing.T) {
	k, _ := knob.NewIndex().ByID("tcp.recv_buffer_max")
	for _, c := range []struct{ raw, set, want string }{
		{"4096\t131072\t33554432", "65536", "4096 65536 65536"},
		{"8192 131072 33554432", "4096", "4096 4096 4096"},
		{"4096 131072 33554432", "67108864", "4096 131072 67108864"},
	} {
		must.Equal(t, must.Get(k.Encode("linux", c.raw, c.set))(t), c.want, "Encode(%q, %q)", c.raw, c.set)
	}
	for _, bad := range []string{"", "1 2", "1 2 x", "1 2 3 4"} {
		must.Fail(t, must.Err(k.Encode("linux", bad, "65536")), "Encode of the text %q succeeded", bad)
		must.Fail(t, must.Err(k.Decode("linux", bad)), "Decode(%q) succeeded", bad)
	}
	rapid.Check(t, func(t *rapid.T) {
		canonical := must.Get(k.Parse(strconv.FormatInt(rapid.Int64Range(k.Min, k.Max).Draw(t, "ceiling"), 10)))(t)
		raw := must.Get(k.Encode("linux", "4096\t131072\t33554432", canonical))(t)
		back, err := k.Decode("linux", raw)
		must.Need(t, back == canonical && err == nil, "set %s, text %q, reads back %q, %v", canonical, raw, back, err)
	})
}

// TestEveryPlaceOpens: each mechanism accepts every name that the catalogue has for this
// system.
func TestEveryPlaceOpens(t *testing.T) {
	h := hostknob.Host{Interface: "lo", Route: "default"}
	for _, k := range knob.Catalogue() {
		_, p, err := h.Place(k.ID)
		if err != nil {
			_, here := k.Native["linux"]
			must.True(t, !here || k.Native["linux"].Mechanism == knob.NotYet, "%s: %v", k.ID, err)
			continue
		}
		must.OK(t, must.Err(h.Open(p)), "%s", k.ID)
	}
}

// TestReadsThisMachine reads every knob of the running kernel: each one either decodes or
// fails with a reason.
func TestReadsThisMachine(t *testing.T) {
	h := hostknob.Host{Interface: "lo", Route: "default"}
	ids := lists.Each(knob.Catalogue(), func(k knob.Knob) model.KnobID { return k.ID })
	known := 0
	for id, v := range h.Read(t.Context(), ids...) {
		if text, ok := v.Get(); ok {
			known++
			k, _ := knob.NewIndex().ByID(id)
			must.True(t, text != "" && k.Format(text) != "", "%s reads as nothing", id)
		} else if v.Reason() == "" {
			t.Errorf("%s is unknown without a reason", id)
		}
	}
	must.True(t, known >= 40, "only %d of %d knobs are known here", known, len(ids))
	t.Logf("%d of %d knobs are known here", known, len(ids))
}

// TestFactsAndBootSettingsAreRefused before anything is written.
func TestFactsAndBootSettingsAreRefused(t *testing.T) {
	h := hostknob.Host{Interface: "lo"}
	for _, id := range []model.KnobID{"link.mtu_max", "link.up", "nic.ring.rx_max"} {
		_, p, err := h.Place(id)
		must.Do(t, err)
		must.Is(t, h.Check(t.Context(), id, p, "1"), errors.ErrUnsupported, "Check of %s", id)
	}
}

// TestCheckChangesReadsTheRest: CheckChanges reads the knobs that are not being changed.
func TestCheckChangesReadsTheRest(t *testing.T) {
	h := hostknob.Host{ProcSys: fakeTree(t)}
	if err := h.CheckChanges(t.Context(), []model.Assignment{{Knob: "tcp.recv_buffer_initial", Value: "67108864"}}); !errors.Is(err, knob.ErrConstraint) || !strings.Contains(err.Error(), "33554432") {
		t.Errorf("CheckChanges = %v, want it refused by the ceiling that the machine has", err)
	}
	if err := h.CheckChanges(t.Context(), []model.Assignment{{Knob: "tcp.recv_buffer_initial", Value: "65536"}, {Knob: "tcp.sack", Value: "0"}}); err != nil {
		t.Errorf("CheckChanges = %v", err)
	}
	err := h.CheckChanges(t.Context(), []model.Assignment{{Knob: "tcp.recv_buffer_max", Value: "9999999999"}})
	must.True(t, err != nil, "a value above INT_MAX (C-18) was accepted")
}
