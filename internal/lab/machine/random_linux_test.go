//go:build vm

package machine

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/must"
)

var (
	randomSets = flag.Int("random", 0, "this many random sets over the cards")
	randomSeed = flag.Uint64("random.seed", 0, "of the random sets; 0 is drawn anew")
	randomFor  = flag.Duration("random.for", 90*time.Minute, "no set begins later than this")
	randomOn   = flag.Int("random.machines", 2, "machines that share the sets")
)

// changing is shell for one random set: it starts linerate, waits until the settings hold, ends
// it in one of the ways below, and makes the referees compare the interface and the kernel with
// the state before. A confirmation needs a terminal, which script(1) provides.
const changing = `
base() { snap $1 | sed 's/^[0-9]*: //' > /root/base.$1; sysctls > /root/base.sysctl; }
same() { snap $1 | sed 's/^[0-9]*: //' > /tmp/now && cmp -s /root/base.$1 /tmp/now && sysctls > /tmp/nows && cmp -s /root/base.sysctl /tmp/nows; }
compare() { i=0; while [ $i -lt 90 ]; do same $1 && { echo SAME; return; }; sleep 0.5; i=$((i+1)); done; echo DIFFERS; sysctls > /tmp/nows; diff /root/base.$1 /tmp/now; diff /root/base.sysctl /tmp/nows; }
holds() { i=0; while [ $i -lt 300 ]; do grep -q -- ' -> ' /tmp/o && return; kill -0 $p 2>/dev/null || return; sleep 0.1; i=$((i+1)); done; }
begin() { e=$1; shift; : > /tmp/o; linerate set "$@" --interface $e -q > /tmp/o 2>&1 & p=$!; holds; }
deadline() { case "$*" in *--for*) begin "$@";; *) begin "$@" --for 1s;; esac; wait $p; echo rc=$?; }
term() { begin "$@" --for 5m; kill -TERM $p; wait $p; echo rc=$?; }
kill9() { begin "$@" --for 5m; kill -KILL $p; wait $p; echo rc=$?; }
confirm() { e=$1; shift; : > /tmp/o
 { i=0; while [ $i -lt 400 ]; do grep -q 'keep it?' /tmp/o && break; sleep 0.1; i=$((i+1)); done; echo y; sleep 0.3; } | script -qefc "linerate set $* --interface $e -q --for 2m" /tmp/o > /dev/null; echo rc=$?
 same $e && grep -q -- ' -> ' /tmp/o && ! grep -q 'linerate: ' /tmp/o && echo NOTKEPT; linerate undo; }
`

// ways returns how a random set ends. A flap pulls the cable while the settings hold, a power
// cut happens then.
func ways() []string {
	return []string{"deadline", "term", "kill9", "confirm", "confirm", "flap", "flap"}
}

// wish draws settings that this card has, with valid values.
func wish(draw *rand.Rand, snapshot string) []string {
	number := func(from, to int) string { return fmt.Sprint(from + draw.IntN(to-from+1)) }
	values := map[string]string{
		"txqueuelen": number(100, 4000), "nic.gso_max_size": number(20000, 60000), "rx.gro_flush_timeout": number(1000, 100000),
		"rx.napi_defer_hard_irqs": number(1, 9), "qdisc": []string{"pfifo_fast", "fq", "sfq"}[draw.IntN(3)], "link.mtu": number(1280, 1499),
		"tcp.sack": "off", "tcp.timestamps": "off", "tcp.recv_buffer_max": number(1<<20, 4<<20), "tcp.congestion_control": "reno", "tcp.ecn": "1",
		"socket.recv_buffer_max": number(300000, 4000000), "rx.backlog": number(1001, 5000),
	}
	for _, one := range trials(snapshot) {
		if one.column == "offloads" || one.column == "rings" {
			for _, s := range one.settings {
				key, value, _ := strings.Cut(s, "=")
				values[key] = value
			}
		}
	}
	keys := slices.Sorted(maps.Keys(values))
	draw.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	var out []string
	for _, k := range keys[:1+draw.IntN(4)] {
		out = append(out, k+"="+values[k])
	}
	return out
}

// tally counts the results of the sets of all machines.
type tally struct {
	sync.Mutex
	began         time.Time
	done, refused int
	ways          map[string]int
	cards         map[string]int
	spent         map[string]time.Duration
}

func (c *tally) add(t *testing.T, card, way, said string, took time.Duration) {
	c.Lock()
	defer c.Unlock()
	c.done++
	c.ways[way]++
	c.cards[card]++
	c.spent[way] += took
	if strings.Contains(said, "linerate: ") {
		c.refused++
	}
	if c.done%10 == 0 {
		mean := map[string]int{}
		for w, d := range c.spent {
			mean[w] = int(d.Seconds()) / c.ways[w]
		}
		t.Logf("%d sets after %.0f s: %v, seconds of each: %v", c.done, time.Since(c.began).Seconds(), c.ways, mean)
	}
}

// TestRandom: after each of many random sets over all cards, ended by the deadline, by SIGTERM,
// by SIGKILL, by a confirmation and undo, with a link flap meanwhile or a power cut, ethtool,
// ip, tc and sysctl report the same as before. Machines that run at the same time, each with
// all cards, share the sets.
func TestRandom(t *testing.T) {
	must.SkipIf(t, *randomSets == 0, "make test-vm RANDOM=500")
	cards := models()
	if *only != "" {
		cards = slices.DeleteFunc(cards, func(c [2]string) bool { return !slices.Contains(strings.Split(*only, ","), c[0]) })
	}
	seed := *randomSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-random.seed=%d", seed)
	c := &tally{began: time.Now(), ways: map[string]int{}, cards: map[string]int{}, spent: map[string]time.Duration{}}
	t.Run("machines", func(t *testing.T) {
		for i := range *randomOn {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				sets := (*randomSets + *randomOn - 1 - i) / *randomOn
				randomSetsOf(t, c, cards, sets, rand.New(rand.NewPCG(seed, uint64(i)+1)))
			})
		}
	})
	said := fmt.Sprintf("%d sets with seed %d on %d machines in %.0f minutes: %s; over the cards: %s; refused, with all settings as before: %d",
		c.done, seed, *randomOn, time.Since(c.began).Minutes(), counts(c.ways), counts(c.cards), c.refused)
	t.Log(said)
	if must.Updating() && !t.Failed() && *only == "" {
		writeRandom(t, said)
	}
}

// counts formats a list of counts.
func counts(of map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(all, ", ")
}

// lifetime is how many sets a machine runs, one of which ends in a power cut.
const lifetime = 25

// randomSetsOf runs some of the sets, on machines of its own, one after the other.
func randomSetsOf(t *testing.T, c *tally, cards [][2]string, sets int, draw *rand.Rand) {
	for life := 0; sets > 0 && time.Since(c.began) < *randomFor; life++ {
		n := min(sets, lifetime)
		sets -= n
		t.Run(fmt.Sprint(life), func(t *testing.T) { randomLife(t, c, cards, n, draw) })
	}
}

// randomLife runs n sets on a new machine.
func randomLife(t *testing.T, c *tally, cards [][2]string, n int, draw *rand.Rand) {
	ctx, cancel := context.WithTimeout(t.Context(), *randomFor+10*time.Minute)
	defer cancel()
	m := startMachines(ctx, t, false, cards, "alone")[0]
	name := names(ctx, t, m, 0, cards)
	snapshots := make([]string, len(cards))
	sh(ctx, t, m, "sysctl -qw net.ipv4.tcp_congestion_control=cubic; modprobe -a sch_fq sch_sfq tcp_cubic; ip route flush cache; sleep 5") // side effects of a first use
	for i, e := range name {
		snapshots[i] = sh(ctx, t, m, referees+changing+"base "+e+"; snap "+e)
	}
	for done := 0; done < n && time.Since(c.began) < *randomFor; done++ {
		i := draw.IntN(len(cards))
		settings, way := wish(draw, snapshots[i]), ways()[draw.IntN(len(ways()))]
		if done == lifetime/2 {
			way = "power cut"
		}
		began := time.Now()
		said := randomSet(ctx, t, m, name[i], i, settings, way)
		c.add(t, cards[i][0], way, said, time.Since(began))
		if !strings.Contains(said, "SAME") || strings.Contains(said, "NOTKEPT") {
			t.Errorf("set %d: %s %s %s:\n%s", done, cards[i][0], way, settings, said)
			sh(ctx, t, m, referees+changing+"base "+name[i])
		}
		if way == "power cut" {
			names(ctx, t, m, 0, cards)
		}
	}
}

// randomTitle begins TestRandom's part of docs/systems.md.
const randomTitle = "\n## Settings at random\n"

// randomPart returns that part of the page, "" if there is none.
func randomPart(page string) string {
	_, part, there := strings.Cut(page, randomTitle)
	if !there {
		return ""
	}
	return randomTitle + part
}

// writeRandom writes the results after the table of the page.
func writeRandom(t *testing.T, said string) {
	path := filepath.Join("..", "..", "..", "docs", "systems.md")
	table, _, _ := strings.Cut(string(must.Get(os.ReadFile(path))(t)), randomTitle)
	text := randomTitle + `
Written by ` + "`make test-vm RANDOM=500 SYSTEMS=-update`" + `: one to four settings that a card and the
kernel take, drawn at random, set and ended by their deadline, by SIGTERM or SIGKILL, by a
confirmation and undo, with the cable pulled meanwhile, or by a power cut. After
each, ethtool, ip, tc and all of sysctl's net settings said what they had said before.

` + said + ".\n"
	must.Do(t, os.WriteFile(path, []byte(table+text), 0o644))
}

// randomSet runs one set, and returns its output.
func randomSet(ctx context.Context, t *testing.T, m *Machine, name string, card int, settings []string, way string) string {
	t.Helper()
	words := name + " " + strings.Join(settings, " ")
	after := "; cat /tmp/o; compare " + name
	switch way {
	case "flap":
		sh(ctx, t, m, "rm -f /tmp/o")
		p := m.Start(ctx, "sh", "-c", referees+changing+"deadline "+words+" --for 3s"+after)
		sh(ctx, t, m, "for i in $(seq 200); do grep -q -- ' -> ' /tmp/o 2>/dev/null && exit; sleep 0.1; done")
		for _, up := range []bool{false, true} {
			must.Do(t, m.SetLink(ctx, fmt.Sprint("n", card), up))
			sh(ctx, t, m, "sleep 0.4")
		}
		r := must.Get(p.Wait())(t)
		return r.Stdout + r.Stderr
	case "power cut":
		sh(ctx, t, m, referees+changing+"begin "+words+" --for 5m; sync; cat /tmp/o")
		must.Do(t, m.PowerCut())
		must.Do(t, m.Wait(ctx))
		names(ctx, t, m, 0, []([2]string){}) // addresses and links up
		return sh(ctx, t, m, referees+changing+"modprobe -a sch_fq sch_sfq tcp_cubic; linerate undo; sleep 5; compare "+name)
	}
	return sh(ctx, t, m, referees+changing+way+" "+words+after)
}
