//go:build vm

package machine

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// keptProfile is kept on each card; it repeats the kernel's setting each time.
const keptProfile = `profile: 2
title: after a restart
hosts:
  - role: both
    system: linux
    knobs:
      tcp.congestion_control: reno
      txqueuelen: 500
      nic.offload.gro: off
      link.mtu: 1400
`

// owners makes ifupdown bring up the first card, systemd-networkd the second; the others have
// no owner, and udev reads their files.
const owners = `set -e
printf 'allow-hotplug %s\niface %s inet static\n  address 10.9.0.1/24\n' $1 $1 > /etc/network/interfaces.d/cards
ip addr flush dev $1; ip link set $1 down; ifup $1
[ -z "$2" ] || { printf '[Match]\nName=%s\n[Network]\nAddress=10.9.1.1/24\n' $2 > /etc/systemd/network/50-cards.network
 systemctl enable --now systemd-networkd; for i in $(seq 60); do networkctl list $2 | grep -qE 'configured|configuring' && break; sleep 1; done; }
sync
`

// looks prints the kept settings, as ip, ethtool and sysctl show them, and the owners'
// addresses, for which it waits.
const looks = `for a in 10.9.0.1 ${2:+10.9.1.1}; do for i in $(seq 90); do ip -4 addr | grep -q "inet $a/" && break; sleep 1; done; ip -4 -o addr | grep -o "inet $a/24"; done
for e in $*; do echo "$e $(ip link show $e | grep -oE 'mtu [0-9]+|qlen [0-9]+' | xargs) $(ethtool -k $e | grep '^generic-receive')"; done; sysctl net.ipv4.tcp_congestion_control net.ipv4.tcp_sack; find /etc -newer /root/began -name '*linerate*'`

// reboot keeps settings on each card of a Debian with systemd, leaves a change open that is to
// be undone at the next start, and resets the machine. Afterwards the kept settings are in
// force, the open one is not, and undo --kept removes the files; after another reset the state
// is as before.
func reboot(ctx context.Context, t *testing.T, cards [][2]string) []string {
	t.Helper()
	began := time.Now()
	step := func(what string) { t.Logf("%s after %.0f s", what, time.Since(began).Seconds()) }
	m := startMachines(ctx, t, true, cards, "alone")[0]
	step("up")
	again := func() []string {
		t.Helper()
		defer func() { step("up again") }()
		sh(ctx, t, m, "sync")
		must.Do(t, m.PowerCut())
		must.Do(t, m.Wait(ctx))
		return names(ctx, t, m, 0, cards)
	}
	name := names(ctx, t, m, 0, cards)
	said := sh(ctx, t, m, "touch /root/began; set -- "+strings.Join(name[:min(2, len(name))], " ")+";"+owners)
	before := sh(ctx, t, m, "set -- "+strings.Join(name, " ")+";"+looks)
	must.Do(t, m.Put(ctx, "/root/kept.yaml", []byte(keptProfile), 0o644))
	all := make([]string, len(cards))
	for i, e := range name {
		all[i] = yes
		r, err := m.Run(ctx, "linerate", "keep", "/root/kept.yaml", "--interface", e, "--yes", "--timeout", "300s")
		step("kept on " + e)
		must.True(t, err == nil && r.Code == 0, "keep on %s: %v\n%s%s", e, err, r.Stdout, r.Stderr)
		owner := "no other program manages"
		if i < 2 {
			owner = []string{"ifupdown brings", "systemd-networkd manages"}[i]
		}
		must.True(t, strings.Contains(r.Stdout+r.Stderr, owner), "keep on %s: not said: %s\n%s%s%s", e, owner, said, r.Stdout, r.Stderr)
	}
	// Open when the machine goes down: one setting that its job restores, and one that the
	// restart sets to the kept value.
	m.Start(ctx, "linerate", "set", "tcp.sack=off", "txqueuelen=500", "--interface", name[0], "--for", "1h", "--at-boot", "--timeout", "300s", "-q")
	sh(ctx, t, m, "for i in $(seq 900); do ip link show "+name[0]+" | grep -q 'qlen 500' && exit; sleep 0.2; done; exit 1")
	step("open")
	name = again()
	after := sh(ctx, t, m, "set -- "+strings.Join(name, " ")+";"+looks)
	for i, e := range name {
		if !strings.Contains(after, e+" mtu 1400 qlen 500 generic-receive-offload: off\n") {
			all[i] = "what is kept is not there"
		}
		if i < 2 && !strings.Contains(after, fmt.Sprintf("inet 10.9.%d.1/24\n", i)) {
			all[i] = "with what is kept, its owner gives it no address"
		}
	}
	must.True(t, strings.Contains(after, "tcp_congestion_control = reno") && strings.Contains(after, "tcp_sack = 1") &&
		!strings.Contains(fmt.Sprint(all), "kept"), "after a restart:\n%s", after)
	job := sh(ctx, t, m, "journalctl -b --no-pager -o cat -u linerate-undo; ls /etc/systemd/system | grep linerate; linerate undo; echo rc=$?")
	t.Logf("the job at the next start, and undo after it:\n%s", job)
	for _, want := range []string{
		regexp.QuoteMeta("tcp.sack (net.ipv4.tcp_sack): back to on (was back already: the machine was restarted)"),
		// ifupdown brings a card up when udev has seen it, before that job or after it.
		regexp.QuoteMeta("txqueuelen (txqlen of "+name[0]+"): back to ") + `(500 packets \(which linerate keeps: the machine was restarted\)|1000 packets \(was back already: the machine was restarted; what linerate keeps is not set yet\))`,
		regexp.QuoteMeta("at-boot: removed /etc/systemd/system/linerate-undo.service"), "nothing to undo\nrc=0",
	} {
		must.True(t, regexp.MustCompile(want).MatchString(job), "not said after the restart: %s\n%s", want, job)
	}
	must.Contain(t, sh(ctx, t, m, "linerate undo --kept; linerate keep --list"), "nothing is kept", "undo --kept")
	name = again()
	if final := sh(ctx, t, m, "set -- "+strings.Join(name, " ")+";"+looks); final != before {
		t.Errorf("after undo --kept and a restart:\n%s\nat first:\n%s", final, before)
		for i := range all {
			all[i] = "differs after undo --kept and a restart"
		}
	}
	return all
}

// mii prints the registers 0 to 5 of a transceiver, without linerate.
const mii = `perl -e 'socket(S,2,2,0) or die; $r=pack("a16 x16",$ARGV[0]); ioctl(S,0x8947,$r) or die "SIOCGMIIPHY: $!"; ($p)=unpack("x16 S",$r);
 for $n (0,1,1,4,5) { $r=pack("a16 SSSS x8",$ARGV[0],$p,$n,0,0); ioctl(S,0x8948,$r) or die "SIOCGMIIREG: $!"; $v[$n]=(unpack("x16 SSSS",$r))[3]; }
 printf "%04x %04x %04x %04x\n",@v[0,1,4,5];' `

// flood makes the kernel's log lose the drivers' messages of the start.
const flood = `sysctl -qw kernel.printk_devkmsg=on; perl -e 'open K,">/dev/kmsg"; syswrite K,"<7>".("x" x 300)."\n" for 1..9000'`

// TestDrivers: what individual drivers mean by a setting, or report in their own way, compared
// with ethtool(8), the kernel's log and perl.
func TestDrivers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cards := [][2]string{{"e1000e", "e1000e"}, {"vmxnet3", "vmxnet3"}, {"tulip", "tulip"}, {"e1000", "e1000"}}
	m := startMachines(ctx, t, false, cards, "alone")[0]
	name := names(ctx, t, m, 0, cards)
	sh(ctx, t, m, "sleep 5") // links come up
	t.Run("coalescing of e1000e is a mode", func(t *testing.T) { coalescing(ctx, t, m, name[0]) })
	t.Run("second ring of vmxnet3", func(t *testing.T) {
		onPage(ctx, t, m, name[1], "settings", `ring.rx_jumbo 512 descriptors of 4096`)
		must.Equal(t, try(ctx, t, m, name[1], trial{"rings", []string{"nic.ring.rx_jumbo=256"}, []string{`^RX Jumbo:\s+256$`}}), yes)
		said := sh(ctx, t, m, "linerate set nic.ring.rx_jumbo=8192 --interface "+name[1]+" --for 1s -q 2>&1; ethtool -g "+name[1])
		must.True(t, strings.Contains(said, "C-12") && regexp.MustCompile(`RX Jumbo:\s+512\n`).MatchString(said), "%v", said)
	})
	t.Run("link of tulip", func(t *testing.T) {
		says := sh(ctx, t, m, "ethtool "+name[2])
		must.Need(t, !strings.Contains(says, "Speed"), "this kernel tells it by ethtool:\n%s", says)
		registers := strings.Fields(sh(ctx, t, m, mii+name[2]))
		must.Need(t, len(registers) == 4 && registers[0] == "3100", "the registers are %q", registers) // negotiates
		t.Logf("registers: %q", registers)
		onPage(ctx, t, m, name[2], "link", `100 Mbit/s, full duplex, negotiated`)
	})
	t.Run("slot of e1000", func(t *testing.T) {
		dump := sh(ctx, t, m, "ethtool -d "+name[3])
		must.Need(t, regexp.MustCompile(`Bus speed:\s+33MHz\n\s+Bus width:\s+32-bit`).MatchString(dump), "%v", dump)
		for _, from := range []string{"kernel log", "registers"} {
			onPage(ctx, t, m, name[3], "bus", `says of itself 32 bit 33 MHz`)
			doc := sh(ctx, t, m, "linerate facts --json -q")
			must.True(t, regexp.MustCompile(`"clock[a-z_]*": \{\s*"value": 33,\s*"source": "`+from+`"`).MatchString(doc), "the clock is not from the %s: %s", from, doc)
			sh(ctx, t, m, flood)
		}
	})
}

// onPage searches a line of the facts page.
func onPage(ctx context.Context, t *testing.T, m *Machine, name, label, want string) {
	t.Helper()
	block := field(sh(ctx, t, m, "linerate facts -q"), `(?ms)^(`+regexp.QuoteMeta(name)+`\b.*?)(?:^\S|\z)`)
	must.True(t, regexp.MustCompile(`(?s)`+label+`.*`+want).MatchString(block), "%s: no %s %q in\n%s", name, label, want, block)
}

// coalescing sets modes and delays of the driver e1000e.
func coalescing(ctx context.Context, t *testing.T, m *Machine, name string) {
	onPage(ctx, t, m, name, "settings", `coalesce.rx_usecs 3 \(mode dynamic, conservative\)`)
	if page := sh(ctx, t, m, "linerate knobs explain nic.coalesce.rx_usecs; linerate knobs --match rx_usecs --interface "+name); !strings.Contains(page, "3 (mode dynamic, conservative)") || !strings.Contains(page, "modes of the driver") {
		t.Error(page)
	}
	for _, c := range []struct{ before, value, says string }{
		{"3", "1", "3 (mode dynamic, conservative)"}, {"3", "0", "3 (mode dynamic, conservative)"}, {"3", "50", "3 (mode dynamic, conservative)"},
		{"50", "3", "50 µs"}, {"50", "4", "50 µs"}, {"4", "100", "4 (mode simplified balancing)"},
	} {
		sh(ctx, t, m, "ethtool -C "+name+" rx-usecs "+c.before)
		got := try(ctx, t, m, name, trial{"coalescing", []string{"nic.coalesce.rx_usecs=" + c.value}, []string{`^rx-usecs:\s+` + c.value + "$"}})
		must.True(t, got == yes, "%s to %s: %s", c.before, c.value, got)
		must.Contain(t, sh(ctx, t, m, "cat /tmp/o"), c.says, "%s to %s", c.before, c.value)
	}
	sh(ctx, t, m, "ethtool -C "+name+" rx-usecs 3")
	for _, value := range []string{"2", "5", "9", "10001"} {
		said := sh(ctx, t, m, "linerate set nic.coalesce.rx_usecs="+value+" --interface "+name+" --for 1s -q 2>&1; ethtool -c "+name)
		must.True(t, strings.Contains(said, "the driver e1000e takes 0 (no moderation), 1 (mode dynamic)") &&
			strings.Contains(said, "rx-usecs: 3\n"), "%s: %s", value, said)
	}
}
