package native_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/persist/native"
	"linerate/internal/must"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// settings reads KNOB=VALUE words.
func settings(words ...string) []model.Assignment {
	var all []model.Assignment
	for _, w := range words {
		id, v, _ := strings.Cut(w, "=")
		all = append(all, model.Assignment{Knob: model.KnobID(id), Value: v})
	}
	return all
}

// sample is a profile with something for every mechanism of every system.
func sample() native.Input {
	return native.Input{
		Settings: settings(
			"tcp.recv_buffer_max=16777216", "tcp.recv_buffer_initial=262144", "tcp.send_buffer_max=16777216", "socket.buffer_max=33554432",
			"socket.recv_buffer_max=4194304", "tcp.congestion_control=bbr", "tcp.window_scaling=1", "tcp.mtu_probing=1", "tcp.ecn=1", "qdisc.default=fq",
			"mbuf.clusters=30720", "netisr.threads=-1", "link.mtu=9000", "link.frame_mtu=9000", "txqueuelen=2000", "nic.media.speed=100", "nic.media.duplex=full",
			"nic.pause.rx=1", "nic.pause.tx=0", "nic.ring.rx=4096", "nic.coalesce.rx_usecs=50", "nic.coalesce.adaptive_rx=0", "nic.offload.tso=1",
			"nic.offload.lro=0", "nic.wol=magic", "polling=1", "nic.irq_affinity=0-3;8", "route.initcwnd=20", "tcp.pmtud=1", "nic.offload.rsc=1"),
		Comments: []string{"title: two hosts", "session 20261121T130000-abcd, setting tall"},
		Before: map[string]string{
			"net.ipv4.tcp_rmem": "4096 131072 33554432", `HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters\EnablePMTUDiscovery`: "absent",
			`HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters\EnablePMTUBHDetect`: "dword:0", "*JumboPacket": "1514", "*ReceiveBuffers": "512",
			"*SpeedDuplex": "0", "*FlowControl": "3", "*LsoV2IPv4": "1", "*RscIPv4": "1",
		},
		Interface: "eth0", MAC: "02:00:00:00:00:01", AdapterKey: "0007",
	}
}

// print shows an Output as a golden file: what a person would see.
func print(out native.Output) string {
	var b strings.Builder
	for _, f := range out.Files {
		fmt.Fprintf(&b, "==> %s %04o block=%v\n%s", f.Path, f.Mode, f.Block, decode(f))
	}
	for _, c := range out.Commands {
		fmt.Fprintf(&b, "command: %s\n", c)
	}
	for _, o := range out.Omitted {
		fmt.Fprintf(&b, "omitted: %s=%s: %s\n", o.Knob, o.Value, o.Reason)
	}
	for _, n := range out.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	for _, f := range model.FileFormats() {
		t.Run(string(f), func(t *testing.T) {
			out := must.Get(native.Render(f, sample()))(t)
			path := filepath.Join("testdata", string(f)+".golden")
			got := print(out)
			if *update {
				must.Do(t, os.WriteFile(path, []byte(got), 0o600))
			}
			want := must.Get(os.ReadFile(path))(t)
			must.NoDiff(t, cmp.Diff(string(want), got))
			checkNothingDropped(t, f, out)
		})
	}
}

// checkNothingDropped demands that every setting is in a file, in a command, or
// omitted with a reason that the first file repeats.
func checkNothingDropped(t *testing.T, f model.FileFormat, out native.Output) {
	t.Helper()
	all := ""
	for _, file := range out.Files {
		all += decode(file)
	}
	for _, a := range sample().Settings {
		i := slices.IndexFunc(out.Omitted, func(o model.Omission) bool { return o.Knob == a.Knob })
		mark := string(a.Knob) + ": "
		switch {
		case i >= 0 && (out.Omitted[i].Reason == "" || !strings.Contains(all, "left out: "+string(a.Knob)+" "+a.Value)):
			t.Errorf("%s: the omission of %s has no reason, or no comment", f, a.Knob)
		case i < 0 && !strings.Contains(all, mark) && !slices.ContainsFunc(out.Commands, func(c string) bool {
			return strings.Contains(c, a.Value) || a.Knob == "nic.media.speed" || a.Knob == "nic.media.duplex" || a.Knob == "nic.pause.rx" || a.Knob == "nic.wol"
		}):
			t.Errorf("%s: %s is dropped without a word", f, a.Knob)
		}
	}
}

func TestFirstFileIsMarked(t *testing.T) {
	for _, f := range model.FileFormats() {
		out := must.Get(native.Render(f, sample()))(t)
		for _, file := range out.Files {
			must.Contain(t, decode(file), "Written by linerate", "%s: %s does not say who wrote it", f, file.Path)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		f    model.FileFormat
		in   native.Input
		is   error
		want string
	}{
		{"unknown knob", model.FormatLinuxSysctl, native.Input{Settings: settings("tcp.sakc=1")}, nil, "tcp.sack"},
		{"flow knob", model.FormatLinuxSysctl, native.Input{Settings: settings("window=65536")}, native.ErrInput, "test traffic"},
		{"twice", model.FormatLinuxSysctl, native.Input{Settings: settings("tcp.sack=1", "tcp.sack=0")}, native.ErrInput, "given twice"},
		{"not canonical", model.FormatLinuxSysctl, native.Input{Settings: settings("tcp.sack=on")}, native.ErrInput, `want "1"`},
		{"out of range", model.FormatLinuxSysctl, native.Input{Settings: settings("tcp.recv_buffer_max=1")}, nil, "a size from"},
		{"system's own range", model.FormatMacOS, native.Input{Settings: settings("socket.buffer_max=2304")}, nil, "18433 to 2147483647 on darwin"},
		{"type", model.FormatLinuxSysctl, native.Input{Settings: settings("tcp.ecn=9")}, nil, "value"},
		{"newline in a name", model.FormatLinuxSysctl, native.Input{Settings: settings("tcp.congestion_control=a\nb")}, nil, "letters"},
		{"option", model.FormatLinuxSysctl, native.Input{Settings: settings("tcp.congestion_control=-r")}, native.ErrInput, "option of a command"},
		{"C-02", model.FormatFreeBSD, native.Input{Settings: settings("socket.buffer_max=1048576", "tcp.recv_buffer_initial=1048576")}, knob.ErrConstraint, "C-02"},
		{"C-05", model.FormatLinuxSysctl, native.Input{Settings: settings("tcp.recv_buffer_max=65536", "tcp.recv_buffer_initial=131072")}, knob.ErrConstraint, "C-05"},
		{"media", model.FormatSystemdNetworkd, native.Input{Interface: "e0", Settings: settings("nic.media.autoneg=1", "nic.media.speed=100")}, native.ErrInput, "contradicts"},
		{"levels", model.FormatWindowsPowerShell, native.Input{Settings: settings("tcp.autotune_level=Disabled", "tcp.recv_buffer_max=16000000")}, native.ErrInput, "contradicts"},
		{"interface", model.FormatIfupdown, native.Input{Interface: "eth0;reboot", Settings: settings("link.mtu=9000")}, native.ErrInput, "no name of an interface"},
		{"interface option", model.FormatIfupdown, native.Input{Interface: "-x", Settings: settings("link.mtu=9000")}, native.ErrInput, "no name of an interface"},
		{"path", model.FormatSystemdNetworkd, native.Input{Interface: "../../x", Settings: settings("link.mtu=9000")}, native.ErrInput, "no name of an interface"},
		{"adapter", model.FormatWindowsPowerShell, native.Input{Interface: "a\nb", Settings: settings("link.mtu=9000")}, native.ErrInput, "no name of an adapter"},
		{"mac", model.FormatNetplan, native.Input{Interface: "e0", MAC: "x", Settings: settings("link.mtu=9000")}, native.ErrInput, "address"},
		{"adapter key", model.FormatWindowsReg, native.Input{Interface: "e0", AdapterKey: `7]`, Settings: settings("link.frame_mtu=9000")}, native.ErrInput, "four digits"},
		{"before", model.FormatFreeBSD, native.Input{Before: map[string]string{"media": "a\nb"}, Settings: settings("tcp.sack=1")}, native.ErrInput, "one line"},
		{"system", model.FormatAnsible, native.Input{System: "plan9", Settings: settings("tcp.sack=1")}, native.ErrInput, "plan9"},
		{"windows by ansible", model.FormatAnsible, native.Input{System: "windows", Settings: settings("tcp.ecn=1")}, native.ErrInput, "windows-powershell"},
		{"format", "cpm", native.Input{Settings: settings("tcp.sack=1")}, native.ErrInput, "cpm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := native.Render(c.f, c.in)
			must.True(t, err != nil && strings.Contains(err.Error(), c.want) && (c.is == nil || errors.Is(err, c.is)),
				"got %v, want one with %q that is %v", err, c.want, c.is)
			must.Len(t, out.Files, 0, "files in spite of the error")
		})
	}
}

// TestAnyway: what does not fit together is written on demand, and says so.
func TestAnyway(t *testing.T) {
	in := native.Input{Anyway: true, Settings: settings("socket.buffer_max=4000000", "tcp.recv_buffer_max=16777216")}
	out, err := native.Render(model.FormatFreeBSD, in)
	must.True(t, err == nil && len(out.Files) == 1 && strings.Contains(decode(out.Files[0]), "note: tcp.recv_buffer_max 16777216 is above 8/9"), "%v\n%s", err, print(out))
}

// TestHostileBefore: texts of a profile that somebody else wrote do not reach a
// shell.
func TestHostileBefore(t *testing.T) {
	out, err := native.Render(model.FormatFreeBSD, native.Input{
		Interface: "em0", Settings: settings("nic.media.duplex=full", "nic.pause.rx=1"), Before: map[string]string{"media": "x$(reboot);reboot"},
	})
	must.True(t, err == nil && len(out.Omitted) == 2 && len(out.Files) == 0, "%v\n%s", err, print(out))
	out, err = native.Render(model.FormatLinuxSysctl, native.Input{Settings: settings("tcp.mem_limit=4096"), Before: map[string]string{"net.ipv4.tcp_mem": "1 2 x"}})
	must.True(t, err == nil && len(out.Omitted) == 1, "%v\n%s", err, print(out))
}

// TestSharedTexts: what the settings do not say of a shared text is what was
// there before, or a default that is the same on every machine, or omitted.
func TestSharedTexts(t *testing.T) {
	for _, c := range []struct {
		name, want, omitted string
		set                 []model.Assignment
		before              map[string]string
	}{
		{"default", "net.ipv4.tcp_rmem = 4096 131072 8388608\n", "", settings("tcp.recv_buffer_max=8388608"), nil},
		{"before", "net.ipv4.tcp_rmem = 8192 262144 8388608\n", "", settings("tcp.recv_buffer_max=8388608"), map[string]string{"net.ipv4.tcp_rmem": "8192 262144 33554432"}},
		{"all three", "net.ipv4.tcp_rmem = 8192 16384 32768\n", "", settings("tcp.recv_buffer_min=8192", "tcp.recv_buffer_initial=16384", "tcp.recv_buffer_max=32768"), nil},
		{"in another order", "net.ipv4.tcp_rmem = 4096 262144 524288\n", "", settings("tcp.recv_buffer_initial=262144", "tcp.recv_buffer_max=524288"), map[string]string{"net.ipv4.tcp_rmem": "4096 16384 65536"}},
		{"ceiling unknown", "", "whose other parts are not known", settings("tcp.recv_buffer_initial=16384"), nil},
		{"memory", "", "whose other parts are not known", settings("tcp.mem_limit=100000"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := must.Get(native.Render(model.FormatLinuxSysctl, native.Input{Settings: c.set, Before: c.before}))(t)
			must.True(t, c.want == "" || len(out.Files) == 1 && strings.Contains(string(out.Files[0].Content), c.want), "want %s\n%s", c.want, print(out))
			must.True(t, c.omitted == "" || len(out.Omitted) == 1 && strings.Contains(out.Omitted[0].Reason, c.omitted), "want %s\n%s", c.omitted, print(out))
		})
	}
}
