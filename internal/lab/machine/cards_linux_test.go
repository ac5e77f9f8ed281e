//go:build vm

package machine

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/must"
)

// models returns the cards that both QEMU and Debian's kernel support, and the drivers.
func models() [][2]string {
	return [][2]string{
		{"e1000", "e1000"}, {"e1000e", "e1000e"}, {"rtl8139", "8139cp"}, {"i82559er", "e100"}, {"pcnet", "pcnet32"},
		{"tulip", "tulip"}, {"ne2k_pci", "ne2k-pci"}, {"virtio-net-pci", "virtio_net"}, {"vmxnet3", "vmxnet3"},
	}
}

var (
	onlyTwo = flag.Bool("cards.two", false, "only two cards: the short part")
	columns = flag.String("cards.columns", "", "only these columns of reset and reboot; the others stay")
	only    = flag.String("cards.only", "", "only these cards, by QEMU's names with commas")
)

// referees is shell for a guest: the output of ethtool, ip, tc and sysfs for an interface,
// except for values that change by themselves, and a setting tried beside it. It does not use
// linerate.
const referees = `
snap() { e=$1; { ethtool $e | grep -vE "Link detected|MDI-X"; ethtool -k $e; ethtool -a $e; ethtool -c $e; ethtool -g $e; ethtool -l $e
 ip -d link show $e | sed 's/<[^>]*>//; s/state [A-Z]*//'; tc qdisc show dev $e | sed 's/^qdisc \([a-z_]*\) [0-9a-f]*:/qdisc \1/'
 grep -H . /sys/class/net/$e/queues/*/rps_* /sys/class/net/$e/queues/*/xps_cpus /sys/class/net/$e/gro_flush_timeout /sys/class/net/$e/napi_defer_hard_irqs; } 2>&1; }
sysctls() { sysctl -a 2>/dev/null | grep -E '^net\.' | grep -v -e netfilter -e netdev_rss_key; }
held() { while read -r want; do [ -z "$want" ] || grep -qE -- "$want" /tmp/d || return 1; done < /tmp/want; }
try() { e=$1; shift; seen=no; : > /tmp/o; rm -f /tmp/f; mkfifo /tmp/f
 linerate set "$@" --interface $e --for 240s --timeout 300s -q > /tmp/f 2>&1 & p=$!; exec 3< /tmp/f
 while IFS= read -r said <&3; do echo "$said" >> /tmp/o; case $said in *' -> '*) break;; esac; done; cat <&3 >> /tmp/o & c=$!
 while kill -0 $p 2>/dev/null; do snap $e > /tmp/d; held && { seen=yes; kill -TERM $p; break; }; sleep 0.2; done
 wait $p; rc=$?; exec 3<&-; wait $c; back=no; i=0
 while [ $i -lt 60 ]; do snap $e > /tmp/a; cmp -s /tmp/b /tmp/a && { back=yes; break; }; sleep 0.5; i=$((i+1)); done
 echo "RC=$rc SEEN=$seen BACK=$back"; [ $back = yes ] || diff /tmp/b /tmp/a; cat /tmp/o; }
`

// pair is two machines with a cable between the two cards of each model.
type pair struct {
	near, far *Machine
	cards     [][2]string
}

// mac returns the address of a card. Interfaces are found by address, since drivers choose the
// numbers.
func mac(host, card int) string { return fmt.Sprintf("52:54:00:00:%02d:%02d", host, card) }

// addresses waits for systemd if that is process 1: udev names the cards.
const addresses = `
[ "$(cat /proc/1/comm)" != systemd ] || { systemctl is-system-running --wait > /dev/null 2>&1; udevadm settle -t 60; }
n=$1; for d in /sys/class/net/*; do e=$(basename $d); m=$(cat $d/address); case $m in 52:54:00:00:*) k=$(echo $m | sed 's/.*://; s/^0//')
 echo "$m $e"; ip addr replace 10.0.$k.$n/24 dev $e; ip link set $e up;; esac; done
`

func startPair(ctx context.Context, t *testing.T, systemd bool, cards [][2]string) pair {
	t.Helper()
	m := startMachines(ctx, t, systemd, cards, "near", "far")
	return pair{cards: cards, near: m[0], far: m[1]}
}

// startMachines boots machines with these cards, each joined to the same card of the previous
// machine, and with linerate in them.
func startMachines(ctx context.Context, t *testing.T, systemd bool, cards [][2]string, hosts ...string) []*Machine {
	t.Helper()
	return startKernel(ctx, t, "6.1", systemd, cards, hosts...)
}

// Built once for all tests: the archive of the guest and linerate for Linux, and linerate for
// FreeBSD.
var (
	programs = sync.OnceValues(func() (string, error) {
		dir, err := builtIn()
		if err != nil {
			return "", err
		}
		ctx := context.Background()
		guest, err1 := BuildGuest(ctx, "linux", dir)
		program, err2 := BuildLinerate(ctx, "linux", dir)
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		return Programs(dir, guest, program)
	})
	onFreeBSD = sync.OnceValues(func() (string, error) {
		dir, err := builtIn()
		if err != nil {
			return "", err
		}
		return BuildLinerate(context.Background(), "freebsd", dir)
	})
	// builtIn returns their folder, which TestMain removes.
	builtIn = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "vm") })
)

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := builtIn(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// startKernel is startMachines with a kernel of make vm.
func startKernel(ctx context.Context, t *testing.T, kernel string, systemd bool, cards [][2]string, hosts ...string) []*Machine {
	t.Helper()
	dir := short(t)
	needs(t, Missing(Debian("x", dir, kernel, systemd, Images()).Needs()...))
	programs := must.Get(programs())(t)
	var cables []*Cable
	for i := range cards {
		cables = append(cables, NewCable(dir, fmt.Sprint("c", i)))
	}
	all := make([]*Machine, len(hosts))
	for host, name := range slices.Backward(hosts) { // the last one started may have its power cut
		cfg := Debian(name, dir, kernel, systemd, programs)
		cfg.Memory = 768 // nine changes at once
		cfg.Own = host == 0
		for i, c := range cards {
			card := Card{Model: c[0], MAC: mac(host, i)}
			if len(hosts) > 1 {
				card.Cable = cables[i]
			}
			cfg.Cards = append(cfg.Cards, card)
		}
		m := must.Get(Start(ctx, cfg))(t)
		t.Cleanup(m.Close)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("console of %s: %s", name, last(m.Console(), 3000))
			}
		})
		all[host] = m
	}
	for _, m := range all {
		must.Do(t, m.Wait(ctx))
	}
	return all
}

// sh runs shell in a machine. It must succeed.
func sh(ctx context.Context, t *testing.T, m *Machine, text string) string {
	t.Helper()
	r, err := m.Shell(ctx, text)
	must.Need(t, err == nil, "%v\n%s%s", err, r.Stdout, r.Stderr)
	return r.Stdout + r.Stderr
}

// names gives each interface its address and returns its name by card.
func names(ctx context.Context, t *testing.T, m *Machine, host int, cards [][2]string) []string {
	t.Helper()
	text := sh(ctx, t, m, "set -- "+fmt.Sprint(host+1)+";"+addresses)
	all := make([]string, len(cards))
	for i := range cards {
		found := regexp.MustCompile(mac(host, i) + ` (\S+)`).FindStringSubmatch(text)
		must.Need(t, found != nil, "%s has no driver in the machine:\n%s", cards[i][0], text)
		all[i] = found[1]
	}
	return all
}

// trial is a group of settings, and the referees' output while they hold.
type trial struct {
	column   string
	settings []string
	want     []string
}

// trials returns trials for the features that the referees report for the card.
func trials(snapshot string) []trial {
	all := []trial{
		{"settings", []string{"txqueuelen=500", "nic.gso_max_size=32768", "rx.gro_flush_timeout=20000", "rx.napi_defer_hard_irqs=2", "rfs.flows=1024", "qdisc=pfifo_fast"},
			[]string{"qlen 500", "gso_max_size 32768", "gro_flush_timeout:20000", "napi_defer_hard_irqs:2", "rps_flow_cnt:1024", "^qdisc pfifo_fast"}},
		{"MTU", []string{"link.mtu=1400"}, []string{"mtu 1400 "}},
	}
	if most := field(snapshot, `maxmtu (\d+)`); most != "" && most != "1500" {
		all = append(all, trial{"MTU", []string{"link.mtu=" + most}, []string{"mtu " + most + " "}})
	}
	offloads := trial{column: "offloads"}
	for name, knob := range map[string]string{"tcp-segmentation-offload": "tso", "generic-segmentation-offload": "gso", "generic-receive-offload": "gro", "rx-checksumming": "rx_csum", "rx-vlan-offload": "vlan_rx"} {
		if regexp.MustCompile(`(?m)^` + name + `: on$`).MatchString(snapshot) {
			offloads.settings = append(offloads.settings, "nic.offload."+knob+"=off")
			offloads.want = append(offloads.want, "^"+name+": off")
		}
	}
	slices.Sort(offloads.settings)
	all = append(all, offloads)
	if m := regexp.MustCompile(`(?s)Pre-set maximums:\s+RX:\s+(\d+).*?TX:\s+(\d+).*Current hardware settings:\s+RX:\s+(\d+).*?TX:\s+(\d+)`).FindStringSubmatch(snapshot); m != nil && m[1] != m[3] && m[2] != m[4] {
		rx, tx := half(m[1]), half(m[2])
		all = append(all, trial{"rings", []string{"nic.ring.rx=" + rx, "nic.ring.tx=" + tx}, []string{`^RX:\s+` + rx + "$", `^TX:\s+` + tx + "$"}})
	}
	if strings.Contains(snapshot, "Auto-negotiation: on") {
		for _, mode := range [][2]string{{"100", "Full"}, {"10", "Half"}} {
			all = append(all, trial{"forced mode", []string{"nic.media.autoneg=off", "nic.media.speed=" + mode[0], "nic.media.duplex=" + strings.ToLower(mode[1])},
				[]string{"Auto-negotiation: off", "Speed: " + mode[0] + "Mb/s", "Duplex: " + mode[1]}})
		}
	}
	if regexp.MustCompile(`(?m)^Autonegotiate:\s+on`).MatchString(snapshot) {
		all = append(all, trial{"pause", []string{"nic.pause.autoneg=off", "nic.pause.rx=off", "nic.pause.tx=off"}, []string{`^Autonegotiate:\s+off`, `^RX:\s+off`, `^TX:\s+off`}})
	}
	return all
}

func field(text, pattern string) string {
	if m := regexp.MustCompile(pattern).FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

func half(number string) string {
	var n int
	_, _ = fmt.Sscan(number, &n)
	return fmt.Sprint(n / 2)
}

// TestCards: on each card facts agree with the referees; each group of settings is set, seen by
// the referees, and undone to the state before; a transfer and a sweep of small messages
// measure; and after a power cut in the middle of a change the state is as before. With -update
// it writes docs/systems.md.
func TestCards(t *testing.T) {
	cards := models()
	if *onlyTwo {
		*only = "e1000,i82559er"
	} else {
		t.Parallel()
	}
	if *only != "" {
		cards = slices.DeleteFunc(cards, func(c [2]string) bool { return !slices.Contains(strings.Split(*only, ","), c[0]) })
	}
	began, rows := time.Now(), map[string]map[string]string{}
	for _, card := range cards {
		rows[card[0]] = map[string]string{}
	}
	var rebooted []string
	t.Run("machines", func(t *testing.T) { // three machines, one of which only answers: two cores
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 110*time.Minute)
		t.Cleanup(cancel)
		if *columns != "reboot" {
			t.Run("pair", func(t *testing.T) {
				t.Parallel()
				onPair(ctx, t, cards, rows)
			})
		}
		if !*onlyTwo && (*columns == "" || strings.Contains(*columns, "reboot")) {
			t.Run("reboot", func(t *testing.T) {
				t.Parallel()
				rebooted = reboot(ctx, t, cards)
			})
		}
	})
	for i, why := range rebooted {
		rows[cards[i][0]]["reboot"] = why
	}
	t.Logf("all cards in %.1f minutes; load of this machine now: %s", time.Since(began).Minutes(), load())
	report(t, cards, rows)
}

// load returns the machine's load average over 1, 5 and 15 minutes.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	return string(text[:min(len(text), 14)])
}

// onPair fills all columns but the last of the cards' rows, from two machines. Each machine
// tries every other card, since the emulated CPUs take the time.
func onPair(ctx context.Context, t *testing.T, cards [][2]string, rows map[string]map[string]string) {
	t.Helper()
	p := startPair(ctx, t, false, cards)
	defer p.far.Close()
	defer p.near.Close()
	hosts := []*Machine{p.near, p.far}
	var name [2][]string
	for host, m := range hosts {
		name[host] = names(ctx, t, m, host, cards)
	}
	if *columns == "" {
		t.Run("trials", func(t *testing.T) {
			for host, m := range hosts {
				server := m.Start(ctx, "linerate", "serve", "--open")
				t.Cleanup(func() {
					text := server.Printed()
					must.True(t, !strings.Contains(text, "panic"), "%v", text)
				})
				t.Run(fmt.Sprint(host+1), func(t *testing.T) {
					t.Parallel()
					p.trials(ctx, t, host, m, name[host], rows)
				})
			}
		})
	}
	if *columns == "" || strings.Contains(*columns, "reset") {
		for i, why := range p.reset(ctx, t, name[0]) {
			rows[cards[i][0]]["reset"] = why
		}
	}
}

// trials fills the rows of the cards that this host tries.
func (p pair) trials(ctx context.Context, t *testing.T, host int, m *Machine, name []string, rows map[string]map[string]string) {
	t.Helper()
	kernel := sh(ctx, t, m, referees+"sysctls")
	facts := sh(ctx, t, m, "linerate facts -q --timeout 300s")
	for i := host; i < len(p.cards); i += 2 {
		began, card := time.Now(), p.cards[i]
		row := rows[card[0]]
		row["facts"] = wrongFacts(facts, name[i], card[1])
		for _, one := range trials(sh(ctx, t, m, referees+"snap "+name[i]+" | tee /tmp/b")) {
			if len(one.settings) == 0 || row[one.column] != "" && row[one.column] != yes {
				continue
			}
			row[one.column] = try(ctx, t, m, name[i], one)
		}
		for _, column := range []string{"offloads", "rings", "forced mode", "pause"} {
			row[column] = cmp.Or(row[column], "not offered")
		}
		peer := fmt.Sprintf("10.0.%d.%d", i, 2-host)
		row["test"] = traffic(ctx, t, m, card[0], peer)
		row["sweep"] = sweep(ctx, t, m, card[0], peer)
		t.Logf("%s: %v (%.0f s)", card[0], row, time.Since(began).Seconds())
	}
	must.Equal(t, sh(ctx, t, m, referees+"sysctls"), kernel, "sysctl -a after all trials")
}

const yes = "yes"

// wrongFacts compares the facts page with the known driver.
func wrongFacts(page, name, driver string) string {
	block := field(page, `(?ms)^(`+regexp.QuoteMeta(name)+`\b.*?)(?:^\S|\z)`)
	if block == "" || !strings.Contains(block, driver) {
		return fmt.Sprintf("the page of facts does not name %s for %s", driver, name)
	}
	return yes
}

// try sets a group of settings on a machine and reads the referees' output.
func try(ctx context.Context, t *testing.T, m *Machine, name string, one trial) string {
	t.Helper()
	var text string
	for range 3 { // a machine without CPU for minutes says nothing about its card
		text = sh(ctx, t, m, "cat > /tmp/want <<'END'\n"+strings.Join(one.want, "\n")+"\nEND\n"+referees+"try "+name+" "+strings.Join(one.settings, " "))
		if !strings.Contains(text, "contact lost") {
			break
		}
		t.Logf("%s %s: once more: %s", name, one.settings, text)
	}
	switch {
	case strings.Contains(text, "contact lost"):
		t.Errorf("%s %s: linerate reaches itself in none of three tries:\n%s", name, one.settings, text)
		return "not tried: the machine was too slow"
	case !strings.Contains(text, "BACK=yes"):
		t.Errorf("%s %s: not undone:\n%s", name, one.settings, text)
		return "not undone"
	case strings.Contains(text, "SEEN=yes") && !strings.Contains(text, "linerate: apply setting"):
		if strings.Contains(text, "kernel: ") {
			return "yes; the driver logs a fault, which linerate shows"
		}
		return yes
	case strings.Contains(text, "RC=0"): // held to its deadline
		t.Errorf("%s %s: linerate says it was set, the referees do not:\n%s", name, one.settings, text)
		return "said to be set, and was not"
	}
	t.Logf("%s %s: refused: %s", name, one.settings, text)
	if one.column != "forced mode" {
		return "no: " + strings.ReplaceAll(cmp.Or(field(text, `(?m)(the driver [^:\n]*|the kernel [^:\n]*|it holds "[^("\n]*[a-z0-9])`), "refused"), `"`, "")
	}
	speed, duplex := strings.TrimPrefix(one.settings[1], "nic.media.speed="), strings.TrimPrefix(one.settings[2], "nic.media.duplex=")
	alone := sh(ctx, t, m, referees+fmt.Sprintf("ethtool -s %s autoneg off speed %s duplex %s; for i in $(seq 8); do ethtool %[1]s > /tmp/d; held && break; sleep 0.5; done; ethtool -s %[1]s autoneg on; sleep 3; held && echo HELD; cat /tmp/d", name, speed, duplex))
	if strings.Contains(alone, "HELD") {
		t.Errorf("%s %s: ethtool sets what linerate refuses:\n%s", name, one.settings, text)
		return "no: refused, and ethtool sets it"
	}
	return fmt.Sprintf("no: linerate says that it stays; nor does `ethtool -s` move the emulated card: %s %s, negotiation %s",
		field(alone, `Speed: (\S+)`), strings.ToLower(field(alone, `Duplex: (\S+)`)), field(alone, `Auto-negotiation: (\S+)`))
}

// traffic runs a transfer over a card in both directions.
func traffic(ctx context.Context, t *testing.T, m *Machine, card, peer string) string {
	t.Helper()
	return measured(ctx, t, m, card, `(?m)^ +from \S+ +[\d.]+ [kMG]bit/s`, "test", peer, "-t", "2s")
}

// sweep runs the smallest messages over a card.
func sweep(ctx context.Context, t *testing.T, m *Machine, card, peer string) string {
	t.Helper()
	return measured(ctx, t, m, card, `(?m)^ +16 B +[\d.]+ [mu]?s `, "sweep", peer, "--max", "16", "-t", "2s")
}

// measured runs a measuring command of linerate, which must print a line like line.
func measured(ctx context.Context, t *testing.T, m *Machine, card, line string, args ...string) string {
	t.Helper()
	r, err := m.Run(ctx, append(append([]string{"linerate"}, args...), "-q", "--timeout", "300s")...)
	if err != nil || r.Code != 0 || !regexp.MustCompile(line).MatchString(r.Stdout) {
		t.Errorf("%s: %s: exit code %d, %v\n%s%s", card, args[0], r.Code, err, r.Stdout, r.Stderr)
		return "no: " + cmp.Or(last(strings.TrimSpace(r.Stderr), 80), fmt.Sprintf("exit code %d, %v, %d bytes printed", r.Code, err, len(r.Stdout)))
	}
	return yes
}

// reset starts a change on every card, resets the machine in the middle of it, and compares the
// referees' output afterwards; undo then has nothing left to do.
func (p pair) reset(ctx context.Context, t *testing.T, near []string) []string {
	t.Helper()
	all := make([]string, len(near))
	before := make([]string, len(near))
	for i, name := range near { // one after the other: a change that starts too slowly is abandoned
		before[i] = sh(ctx, t, p.near, referees+"snap "+name)
		set := p.near.Start(ctx, "linerate", "set", "txqueuelen=123", "nic.offload.gro=off", "--interface", name, "--for", "1h", "--timeout", "300s", "-q", "--state", fmt.Sprint("/root/state", i))
		r, err := p.near.Shell(ctx, "for i in $(seq 600); do ip link show "+name+" | grep -q 'qlen 123' && exit; sleep 0.2; done; exit 1")
		must.True(t, err == nil && r.Code == 0, "%s: the change before the reset never held: %v\n%s", name, err, set.Printed())
	}
	sh(ctx, t, p.near, "sync")
	must.Do(t, p.near.PowerCut())
	must.Do(t, p.near.Wait(ctx))
	names := names(ctx, t, p.near, 0, p.cards)
	for i := range near {
		said := sh(ctx, t, p.near, fmt.Sprintf("linerate undo -q --state /root/state%d; echo rc=$?", i))
		after := sh(ctx, t, p.near, referees+"for i in $(seq 40); do snap "+names[i]+" > /tmp/a; ethtool "+names[i]+" | grep -q 'detected: no' || break; sleep 0.5; done; cat /tmp/a")
		all[i] = yes
		if strip(after) != strip(before[i]) {
			all[i] = "differs after the reset"
			t.Errorf("%s:\n%s\nbefore:\n%s", names[i], after, before[i])
		}
		if !strings.Contains(said, "rc=0") || !strings.Contains(said, "was back already") {
			all[i] = "undo after the reset does not say that all was back"
			t.Errorf("%s: undo after a reset: %s", names[i], said)
		}
	}
	return all
}

// strip removes what each start of the machine creates anew.
func strip(snapshot string) string {
	return regexp.MustCompile(`(?m)^\d+: `).ReplaceAllString(snapshot, "")
}
