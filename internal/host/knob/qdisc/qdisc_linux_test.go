package qdisc_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"linerate/internal/core/knob"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/host/knob/qdisc"
	"linerate/internal/must"
)

func open(t *testing.T, device string) *qdisc.Discipline {
	t.Helper()
	return must.Get(qdisc.Open(device, qdisc.Root))(t)
}

// device makes an interface and sets it up: a tap, which has a queue, or a veth, which has
// none.
func device(t *testing.T, name string, queue bool) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	var l netlink.Link = &netlink.Veth{LinkAttrs: attrs, PeerName: name + "p"}
	if queue {
		l = &netlink.Ifb{LinkAttrs: attrs}
	}
	err := netlink.LinkAdd(l)
	must.SkipIf(t, err != nil, "this kernel has no such interface: %v", err)
	must.Do(t, netlink.LinkSetUp(l))
}

func tc(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "tc", args...).CombinedOutput()
	must.SkipIf(t, errors.Is(err, exec.ErrNotFound), "tc is not installed")
	must.Need(t, err == nil, "tc %s: %v\n%s", strings.Join(args, " "), err, out)
	return string(out)
}

func TestConformanceInNamespace(t *testing.T) { knobtest.InNamespace(t, testConformanceInNamespace) }

func testConformanceInNamespace(t *testing.T) {
	device(t, "kt0", true)
	device(t, "kt1", false)
	for _, name := range []string{"kt0", "kt1"} {
		t.Run(name, func(t *testing.T) {
			knobtest.Run(t, knobtest.Case{
				Backend: open(t, name), Other: "pfifo", Bad: []string{"", "no such", "htb (handle 1: with filters)", "nosuchkind"}, Absent: open(t, "kt9"),
			})
		})
	}
}

// TestWhatOthersMadeIsPutBack: undo restores a scheduler that was made with tc with every
// option, whatever scheduler was set in between.
func TestWhatOthersMadeIsPutBack(t *testing.T) { knobtest.InNamespace(t, testWhatOthersMadeIsPutBack) }

func testWhatOthersMadeIsPutBack(t *testing.T) {
	device(t, "kt0", true)
	d := open(t, "kt0")
	for _, args := range []string{
		"pfifo limit 77", "bfifo limit 12345", "tbf rate 100mbit burst 20k latency 30ms", "tbf rate 1gbit burst 64k limit 1m peakrate 2gbit mtu 9000",
		"pfifo_fast", "handle 7: pfifo limit 3", "noqueue", "sfq limit 60 perturb 10 depth 20", "fq limit 50 maxrate 1gbit", "fq_codel limit 99 target 3ms noecn", "cake bandwidth 1gbit",
	} {
		all := append([]string{"qdisc", "replace", "dev", "kt0", "root"}, strings.Fields(args)...)
		if out, err := exec.CommandContext(t.Context(), "tc", all...).CombinedOutput(); err != nil {
			if strings.Contains(string(out), "unknown") { // this kernel is built without this kind
				t.Logf("%s: %s", args, out)
				continue
			}
			t.Fatalf("tc %s: %v\n%s", args, err, out)
		}
		before, shown := read(t, d), tc(t, "-d", "qdisc", "show", "dev", "kt0")
		for _, other := range []string{"pfifo", "default", "bfifo"} {
			must.OK(t, d.Check(t.Context(), other), "%s: Check(%s)", args, other)
			must.OK(t, d.Write(t.Context(), other), "%s: Write(%s)", args, other)
			got := read(t, d)
			must.True(t, knob.Holds(other, got), "%s: wrote %s, it holds %s", args, other, got)
		}
		must.OK(t, d.Write(t.Context(), before), "%s: Write(%s)", args, before)
		after, now := read(t, d), tc(t, "-d", "qdisc", "show", "dev", "kt0")
		must.True(t, after == before && now == shown, "%s: was %q, is %q\n%s%s", args, before, after, shown, now)
		t.Logf("%s: %s", args, before)
	}
}

// TestQueueLengthStays: Linux gives a device that needs no queue a queue length of 1000
// packets with every discipline, even noqueue (found by the random undo stories).
func TestQueueLengthStays(t *testing.T) { knobtest.InNamespace(t, testQueueLengthStays) }

func testQueueLengthStays(t *testing.T) {
	device(t, "kt0", false)
	must.Do(t, netlink.LinkSetTxQLen(must.Get(netlink.LinkByName("kt0"))(t), 0))
	for _, kind := range []string{"noqueue", "pfifo", "default", "noqueue"} {
		must.OK(t, open(t, "kt0").Write(t.Context(), kind), "%s", kind)
		must.Equal(t, must.Get(netlink.LinkByName("kt0"))(t).Attrs().TxQLen, 0, "%s: length of the queue", kind)
	}
}

// TestWhateverWasMadeIsTakenBack: a discipline whose options cannot be restored is still
// removed by the backend that added it (found with sfq by random settings in a virtual
// machine).
func TestWhateverWasMadeIsTakenBack(t *testing.T) {
	knobtest.InNamespace(t, testWhateverWasMadeIsTakenBack)
}

func testWhateverWasMadeIsTakenBack(t *testing.T) {
	device(t, "kt0", true)
	d := open(t, "kt0")
	made := 0
	for _, before := range []string{"", "pfifo limit 77"} {
		if before != "" {
			tc(t, append([]string{"qdisc", "replace", "dev", "kt0", "root"}, strings.Fields(before)...)...)
		}
		was, shown := read(t, d), tc(t, "qdisc", "show", "dev", "kt0")
		for _, kind := range []string{"pfifo_head_drop", "prio", "sfq", "hhf", "choke", "pie", "drr"} {
			if err := d.Write(t.Context(), kind); err != nil {
				continue // not in this kernel
			}
			made++
			got := read(t, d)
			must.True(t, knob.Holds(kind, got), "wrote %s, it holds %s", kind, got)
			if err := d.Write(t.Context(), was); err != nil {
				t.Errorf("%s cannot be taken back: %v", kind, err)
				tc(t, "qdisc", "del", "dev", "kt0", "root")
			}
			must.Equal(t, tc(t, "qdisc", "show", "dev", "kt0"), shown, "after %s", kind)
		}
	}
	must.SkipIf(t, made == 0, "this kernel has none of them")
}

// TestWhatCannotBePutBackIsRefused: Write does not replace a discipline that it cannot
// restore.
func TestWhatCannotBePutBackIsRefused(t *testing.T) {
	knobtest.InNamespace(t, testWhatCannotBePutBackIsRefused)
}

func testWhatCannotBePutBackIsRefused(t *testing.T) {
	device(t, "kt0", true)
	d := open(t, "kt0")
	for name, setup := range map[string][]string{
		"classes": {"qdisc replace dev kt0 root handle 1: htb default 10", "class add dev kt0 parent 1: classid 1:10 htb rate 10mbit"},
		"child":   {"qdisc replace dev kt0 root handle 1: tbf rate 10mbit burst 10k latency 10ms", "qdisc replace dev kt0 parent 1:1 handle 2: bfifo limit 4444"},
	} {
		for _, one := range setup {
			tc(t, strings.Fields(one)...)
		}
		before := tc(t, "qdisc", "show", "dev", "kt0")
		err := d.Check(t.Context(), "pfifo")
		must.True(t, errors.Is(err, errors.ErrUnsupported) && strings.Contains(err.Error(), "could not be put back"), "%s: Check = %v", name, err)
		must.Is(t, d.Write(t.Context(), "pfifo"), errors.ErrUnsupported, "%s: Write", name)
		must.Equal(t, tc(t, "qdisc", "show", "dev", "kt0"), before, "%s", name)
		tc(t, "qdisc", "del", "dev", "kt0", "root")
	}
}

func read(t *testing.T, d *qdisc.Discipline) string {
	t.Helper()
	return must.Get(d.Read(t.Context()))(t)
}
