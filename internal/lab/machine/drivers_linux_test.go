//go:build vm

package machine

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"linerate/internal/must"
)

// mii prints the registers 0 to 5 of a transceiver, and is no part of linerate.
const mii = `perl -e 'socket(S,2,2,0) or die; $r=pack("a16 x16",$ARGV[0]); ioctl(S,0x8947,$r) or die "SIOCGMIIPHY: $!"; ($p)=unpack("x16 S",$r);
 for $n (0,1,1,4,5) { $r=pack("a16 SSSS x8",$ARGV[0],$p,$n,0,0); ioctl(S,0x8948,$r) or die "SIOCGMIIREG: $!"; $v[$n]=(unpack("x16 SSSS",$r))[3]; }
 printf "%04x %04x %04x %04x\n",@v[0,1,4,5];' `

// flood makes the kernel's log lose what drivers said at the start.
const flood = `sysctl -qw kernel.printk_devkmsg=on; perl -e 'open K,">/dev/kmsg"; syswrite K,"<7>".("x" x 300)."\n" for 1..9000'`

// TestDrivers: what single drivers mean by a setting, or tell in ways of their own, as
// ethtool(8), the kernel's log and perl have it.
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
		if said := sh(ctx, t, m, "linerate set nic.ring.rx_jumbo=8192 --interface "+name[1]+" --for 1s -q 2>&1; ethtool -g "+name[1]); !strings.Contains(said, "C-12") || !regexp.MustCompile(`RX Jumbo:\s+512\n`).MatchString(said) {
			t.Error(said)
		}
	})
	t.Run("link of tulip", func(t *testing.T) {
		says := sh(ctx, t, m, "ethtool "+name[2])
		must.Need(t, !strings.Contains(says, "Speed"), "this kernel tells it by ethtool:\n%s", says)
		registers := strings.Fields(sh(ctx, t, m, mii+name[2]))
		if len(registers) != 4 || registers[0] != "3100" { // negotiates
			t.Fatalf("the registers are %q", registers)
		}
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

// onPage looks for a line of the page of facts.
func onPage(ctx context.Context, t *testing.T, m *Machine, name, label, want string) {
	t.Helper()
	page := sh(ctx, t, m, "linerate facts -q")
	block := field(page, `(?ms)^(`+regexp.QuoteMeta(name)+`\b.*?)(?:^\S|\z)`)
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
		if !strings.Contains(said, "the driver e1000e takes 0 (no moderation), 1 (mode dynamic)") || !strings.Contains(said, "rx-usecs: 3\n") {
			t.Errorf("%s: %s", value, said)
		}
	}
}
