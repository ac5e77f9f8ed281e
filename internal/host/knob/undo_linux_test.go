package knob_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/plan/plantest"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/host/watchdog"
	"linerate/internal/must"
)

// TestMain lets the test program run as the watchdog of its own tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "watchdog" {
		cfg, err := watchdog.ParseArgs(os.Args[2:])
		if err == nil {
			err = watchdog.Serve(context.Background(), os.Stdin, os.Stdout, cfg)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// world is a network namespace with one interface, its watchdog, and the state of every
// place.
type world struct {
	host   hostknob.Host
	client *watchdog.Client
	knobs  map[model.KnobID][]string // canonical values to choose from
	held   map[hostknob.Place]*holding
}

// holding is a place that the watchdog has set.
type holding struct{ base, ours string }

// TestUndoIsIdentity: whatever the watchdog and another program set, in any order and number,
// undo leaves the running kernel as it was, except for what the other program wrote last.
func TestUndoIsIdentity(t *testing.T) { knobtest.InNamespace(t, testUndoIsIdentity) }

func testUndoIsIdentity(t *testing.T) {
	must.Do(t, flag.Set("rapid.checks", strconv.Itoa(must.Often(8, 1000)))) // each one fills and reads the watchdog's journal
	mountSysfs(t)
	for name, make := range map[string]func(*testing.T) map[model.KnobID][]string{
		"veth": vethWorld, "rps": steeringWorld, "tap": tapWorld, "br": bridgeWorld,
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{host: hostknob.Host{Interface: "k" + name, Route: "10.7.0.0/24"}, knobs: make(t)}
			client := must.Get(watchdog.Start(t.Context(), watchdog.Config{Dir: t.TempDir(), Host: w.host, Command: []string{os.Args[0], "watchdog"}}))(t)
			w.client = client
			w.onlyUsable(t)
			changes := 0
			rapid.Check(t, func(rt *rapid.T) { changes += w.story(t.Context(), rt) })
			must.OK(t, client.Close())
			must.True(t, changes >= 10, "only %d changes were made: nothing was tested", changes)
			t.Logf("%d knobs, %d changes", len(w.knobs), changes)
		})
	}
}

// mountSysfs mounts this namespace's sysfs at /sys.
func mountSysfs(t *testing.T) {
	t.Helper()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Logf("no files of queues: %v", err)
	} else if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		t.Logf("no files of queues: %v", err)
	}
}

// addLink makes an interface, sets it up and gives it an address, and so a route.
func addLink(t *testing.T, l netlink.Link) {
	t.Helper()
	if err := netlink.LinkAdd(l); err != nil {
		t.Skipf("no %s here: %v", l.Type(), err)
	}
	must.Do(t, netlink.AddrAdd(l, must.Get(netlink.ParseAddr("10.7.0.1/24"))(t)))
	must.Do(t, netlink.LinkSetUp(l))
	t.Cleanup(func() { _ = netlink.LinkDel(l) })
}

func vethWorld(t *testing.T) map[model.KnobID][]string {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = "kveth", 2, 2
	addLink(t, &netlink.Veth{LinkAttrs: attrs, PeerName: "kpeer"})
	return map[model.KnobID][]string{
		"link.mtu": {"1280", "1500", "9000"}, "txqueuelen": {"0", "10", "1000"}, "qdisc": {"pfifo", "bfifo", "pfifo_fast", "noqueue"},
		"nic.gso_max_size": {"16384", "65536"}, "nic.gro_max_size": {"16384", "65536"}, "nic.queues.tx": {"1", "2"}, "nic.queues.rx": {"1", "2"},
		"nic.offload.tso": {"0", "1"}, "nic.offload.gro": {"0", "1"}, "nic.offload.gso": {"0", "1"}, "nic.offload.vlan_tx": {"0", "1"},
		"route.initcwnd": {"0", "10", "40"}, "route.mtu": {"0", "1300"}, "route.window": {"0", "65535"},
	}
}

// steeringWorld keeps the number of queues: a queue that is removed loses its settings.
func steeringWorld(t *testing.T) map[model.KnobID][]string {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = "krps", 2, 2
	addLink(t, &netlink.Veth{LinkAttrs: attrs, PeerName: "kpeer"})
	return map[model.KnobID][]string{
		"rps": {"0", "none", "0-1", "0;1"}, "rfs.flows": {"0", "256"}, "rx.gro_flush_timeout": {"0", "20000"}, "rx.napi_defer_hard_irqs": {"0", "3"},
		"xps": {"0", "none", "0;1"}, "txqueuelen": {"10", "1000"}, "link.mtu": {"1400", "1500"}, "route.advmss": {"0", "1000"}, "route.rto_min": {"0", "40"},
	}
}

func bridgeWorld(t *testing.T) map[model.KnobID][]string {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "kbr"
	addLink(t, &netlink.Bridge{LinkAttrs: attrs})
	return map[model.KnobID][]string{
		"link.mtu": {"1280", "1500", "9000"}, "txqueuelen": {"10", "1000"}, "qdisc": {"pfifo", "bfifo"}, "nic.gso_max_size": {"16384", "65536"},
		"nic.offload.tso": {"0", "1"}, "nic.offload.gro": {"0", "1"}, "nic.offload.gso": {"0", "1"}, "nic.offload.vlan_tx": {"0", "1"}, "route.initcwnd": {"0", "10"},
	}
}

func tapWorld(t *testing.T) map[model.KnobID][]string {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "ktap"
	addLink(t, &netlink.Tuntap{LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TAP})
	return map[model.KnobID][]string{
		"link.mtu": {"1280", "1500", "9000"}, "qdisc": {"pfifo", "bfifo", "pfifo_fast"}, "nic.coalesce.rx_frames": {"0", "8", "64"},
		"nic.media.speed": {"10", "100"}, "nic.media.duplex": {"half", "full"}, "nic.offload.gso": {"0", "1"},
		"tcp.recv_buffer_max": {"65536", "8388608"}, "tcp.recv_buffer_initial": {"16384", "65536"}, "tcp.recv_buffer_min": {"2048", "4096"},
		"tcp.send_buffer_max": {"65536", "8388608"}, "tcp.sack": {"0", "1"}, "tcp.metrics_cache": {"0", "1"}, "tcp.timestamps": {"0", "1", "2"},
		"tcp.congestion_control": {"reno", "cubic", "bbr"}, "tcp.ecn": {"0", "1", "2"}, "tcp.pmtud": {"0", "1"}, "tcp.notsent_lowat": {"16384", "4294967295"},
	}
}

// onlyUsable removes knobs that this kernel lacks and values that it refuses.
func (w *world) onlyUsable(t *testing.T) {
	t.Helper()
	for id, values := range w.knobs {
		usable := slices.DeleteFunc(slices.Clone(values), func(v string) bool {
			_, err := w.client.Apply(t.Context(), []model.Assignment{{Knob: id, Value: v}}, time.Minute)
			if err != nil {
				t.Logf("not tried: %s=%s: %v", id, v, err)
				return true
			}
			_, err = w.client.Undo(t.Context())
			return err != nil
		})
		w.knobs[id] = usable
		if len(usable) == 0 {
			delete(w.knobs, id)
		}
	}
	must.Need(t, len(w.knobs) >= 8, "only %d knobs can be tried here", len(w.knobs))
}

func (w *world) ids() []model.KnobID {
	var ids []model.KnobID
	for id := range w.knobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// raws reads every place.
func (w *world) raws(ctx context.Context, t *rapid.T) map[hostknob.Place]string {
	all := make(map[hostknob.Place]string)
	for _, id := range w.ids() {
		_, p, err := w.host.Place(id)
		must.Do(t, err)
		all[p] = must.Get(w.host.ReadRaw(ctx, id, p))(t)
	}
	return all
}

// story runs one random sequence of changes with an undo at its end, and returns the number
// of changes made.
func (w *world) story(ctx context.Context, t *rapid.T) int {
	w.held = make(map[hostknob.Place]*holding)
	made := 0
	for range rapid.IntRange(1, 5).Draw(t, "steps") {
		if rapid.IntRange(0, 3).Draw(t, "who") == 0 {
			w.somebodyElse(ctx, t)
			continue
		}
		made += w.we(ctx, t)
	}
	before := w.raws(ctx, t)
	changes, err := w.client.Undo(ctx)
	must.Need(t, err == nil, "undo: %v\n%v", err, changes)
	w.expectUndone(ctx, t, before)
	return made
}

// we sets one or several knobs in one Apply.
func (w *world) we(ctx context.Context, t *rapid.T) int {
	var as []model.Assignment
	for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(w.ids()), 1, 3, rapid.ID[model.KnobID]).Draw(t, "knobs") {
		as = append(as, model.Assignment{Knob: id, Value: rapid.SampledFrom(w.knobs[id]).Draw(t, "value")})
	}
	before := w.raws(ctx, t)
	if _, err := w.client.Apply(ctx, as, time.Minute); err != nil {
		t.Logf("%v: %v", as, err) // the whole Apply is refused and everything is undone
		w.expectUndone(ctx, t, before)
		return 0
	}
	after := w.raws(ctx, t)
	for _, a := range as {
		k, p, _ := w.host.Place(a.Knob)
		if w.held[p] == nil {
			w.held[p] = &holding{base: before[p]}
		}
		w.held[p].ours = after[p]
		got, err := k.Decode("linux", after[p])
		must.Need(t, err == nil && sameValue(a.Value, got), "%s was set to %s and is %s, %v (%s)", a.Knob, a.Value, got, err, after[p])
	}
	return len(as)
}

// somebodyElse writes one place as another program does.
func (w *world) somebodyElse(ctx context.Context, t *rapid.T) {
	id := rapid.SampledFrom(w.ids()).Draw(t, "foreign")
	k, p, _ := w.host.Place(id)
	raw := must.Get(w.host.ReadRaw(ctx, id, p))(t)
	value := rapid.SampledFrom(w.knobs[id]).Draw(t, "foreign value")
	text := must.Get(k.Encode("linux", raw, value))(t)
	if w.host.CheckChanges(ctx, []model.Assignment{{Knob: id, Value: value}}) != nil {
		return
	}
	must.Dof(t, w.host.WriteRaw(ctx, id, p, text), "somebody else sets %s", id)
}

// expectUndone compares every place with what undo must leave. before holds the values when
// the undo began.
func (w *world) expectUndone(ctx context.Context, t *rapid.T, before map[hostknob.Place]string) {
	after := w.raws(ctx, t)
	for p, was := range before {
		want := was // not set by the watchdog, or overwritten since
		if h := w.held[p]; h != nil && knob.SameText(was) == knob.SameText(h.ours) {
			want = h.base
		}
		must.Need(t, knob.SameText(after[p]) == knob.SameText(want), "%s: was %q before undo (%+v), is %q, want %q", p, was, w.held[p], after[p], want)
	}
	w.held = make(map[hostknob.Place]*holding)
}

// TestTheWatchdogRefusesWhatCannotBe: Apply refuses constraint violations before any write,
// and afterwards values that the driver did not take.
func TestTheWatchdogRefusesWhatCannotBe(t *testing.T) {
	knobtest.InNamespace(t, testTheWatchdogRefusesWhatCannotBe)
}

func testTheWatchdogRefusesWhatCannotBe(t *testing.T) {
	vethWorld(t)
	h := hostknob.Host{Interface: "kveth"}
	client := must.Get(watchdog.Start(t.Context(), watchdog.Config{Dir: t.TempDir(), Host: h, Command: []string{os.Args[0], "watchdog"}}))(t)
	for _, c := range []struct{ set, want string }{
		{"tcp.recv_buffer_initial=1073741824", "C-05"},
		{"link.mtu=65535 tcp.recv_buffer_max=2147483647", "C-11"},
		{"link.mtu_max=9000", "a fact of the machine"},
		{"nic.offload.lro=1", "holds it fixed"},
		{"nic.offload.tx_csum=0 nic.offload.tso=1", "tx-tcp-segmentation was set to on and stays off"},
		{"qdisc=nosuchkind", "no scheduler nosuchkind"},
		{"route.mtu=1400", "route of the data path is not known"},
	} {
		before := snapshot(t, h)
		must.Say(t, must.Err(client.Apply(t.Context(), plantest.Assignments(c.set), time.Minute)), c.want, "%s", c.set)
		must.Equal(t, snapshot(t, h), before, "%s", c.set)
	}
	must.OK(t, client.Close())
}

// snapshot reads every knob of the machine into one text.
func snapshot(t *testing.T, h hostknob.Host) string {
	t.Helper()
	var b strings.Builder
	for _, k := range knob.Catalogue() {
		_, p, err := h.Place(k.ID)
		if err != nil {
			continue
		}
		if raw, err := h.ReadRaw(t.Context(), k.ID, p); err == nil {
			fmt.Fprintf(&b, "%s=%s\n", k.ID, raw)
		}
	}
	return b.String()
}

// sameValue reports whether got is the value want. Settings with several parts accept one
// value for all parts and read back a value for each.
func sameValue(want, got string) bool {
	return got == want || strings.HasPrefix(want, got+";") || strings.HasPrefix(got, want+";")
}
