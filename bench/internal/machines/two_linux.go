package machines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/units"
	"linerate/internal/lab/machine"
)

// startTime is the timeout of starting two machines, in emulation.
const startTime = 6 * time.Minute

// Two are both machines.
type Two struct {
	cards []Card
	hosts [2]*machine.Machine
	wires []*machine.Wire
	dir   string
	key   string // of the server at far
}

// Missing names what the machines require and is not installed; "" if nothing is missing.
func Missing() string {
	return machine.Missing(machine.Debian("x", ".", "6.1", false, ".").Needs()[:2]...)
}

// Start boots both with these cards and with a Linux program as linerate.
func Start(ctx context.Context, program string, cards []Card) (*Two, error) {
	if what := Missing(); what != "" {
		return nil, errors.New(what)
	}
	dir, err := os.MkdirTemp("", "vm") // sockets need short paths
	if err != nil {
		return nil, err
	}
	b := &Two{dir: dir, cards: cards}
	if err := b.start(ctx, program); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Close ends both machines.
func (b *Two) Close() {
	for _, m := range b.hosts {
		if m != nil {
			m.Close()
		}
	}
	for _, w := range b.wires {
		w.Close()
	}
	os.RemoveAll(b.dir)
}

func (b *Two) start(ctx context.Context, program string) error {
	guest, err := machine.BuildGuest(ctx, "linux", b.dir)
	if err != nil {
		return err
	}
	programs, err := machine.Programs(b.dir, guest, program)
	if err != nil {
		return err
	}
	for i := range b.cards {
		w, err := machine.NewWire(b.dir, fmt.Sprint("c", i))
		if err != nil {
			return err
		}
		b.wires = append(b.wires, w)
	}
	for host, name := range []string{"near", "far"} {
		cfg := machine.Debian(name, b.dir, "6.1", false, programs)
		cfg.CPUs, cfg.Memory = 2, 640
		for i, c := range b.cards {
			cfg.Cards = append(cfg.Cards, machine.Card{Model: c.Model, Options: c.Options, MAC: fmt.Sprintf("52:54:00:00:%02d:%02d", host, i), Cable: b.wires[i].Cable})
		}
		if b.hosts[host], err = machine.Start(ctx, cfg); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for host, m := range b.hosts {
		if err := m.Wait(ctx); err != nil {
			return err
		}
		for i := range b.cards {
			if err := b.Shell(ctx, host, i, fmt.Sprintf("ip addr add 10.0.%d.%d/24 dev $e\nip link set $e up", i, host+1)); err != nil {
				return err
			}
		}
	}
	return b.serve(ctx)
}

// serve starts a server at far and takes the key that it prints: a client without a key gets no
// facts of its host.
func (b *Two) serve(ctx context.Context) error {
	server := b.hosts[1].Start(context.WithoutCancel(ctx), "linerate", "serve", "--announce=false")
	for ctx.Err() == nil {
		if key := joinKey.FindString(server.Printed()); key != "" {
			b.key = key
			return nil
		}
		time.Sleep(200 * time.Millisecond)
	}
	return fmt.Errorf("no link of the server: %w: %s", ctx.Err(), server.Printed())
}

// joinKey matches the part of a server's join link before the address.
var joinKey = regexp.MustCompile(`linerate://[^@' "]+@`)

// Set sets the rate of a card's wire from now on, see machine.Wire.
func (b *Two) Set(card int, rate units.BitRate, half [2]bool) { b.wires[card].Set(rate, half) }

// Shell runs a script in a machine, with $e as the interface of a card.
func (b *Two) Shell(ctx context.Context, host, card int, text string) error {
	if text == "" {
		return nil
	}
	e := fmt.Sprintf("set -e\ne=$(basename $(dirname $(grep -il 52:54:00:00:%02d:%02d /sys/class/net/*/address | head -1)))\n", host, card)
	got, err := b.hosts[host].Shell(ctx, e+text)
	if err == nil && got.Code != 0 {
		err = errors.New("a script ended with code " + fmt.Sprint(got.Code))
	}
	if err != nil {
		return fmt.Errorf("%w: %s%s", err, got.Stdout, got.Stderr)
	}
	return nil
}

// Look runs linerate, and returns the document of the session with its samples. A direction in
// which nothing arrives is a failure of the command, but has a document.
func (b *Two) Look(ctx context.Context, l Look) ([]byte, error) {
	near := b.hosts[0]
	address := fmt.Sprintf("10.0.%d.2", l.Card)
	got, err := near.Shell(ctx, "for i in $(seq 60); do ping -qc1 -W1 "+address+" > /tmp/ping && exit 0; sleep 1; done; cat /tmp/ping; exit 1")
	if err != nil || got.Code != 0 {
		return nil, fmt.Errorf("far does not answer: %w: %s", err, got.Stdout)
	}
	args := slices.Clone(l.Args)
	if i := slices.Index(args, ""); i >= 0 {
		args[i] = b.key + address
	}
	db := "/tmp/db-" + l.Name
	defer func() { _, _ = near.Shell(context.WithoutCancel(ctx), "rm -rf "+db+"*") }()
	ran := near.Start(ctx, slices.Concat(l.Prefix, []string{"linerate"}, args, []string{"--quiet", "--db", db})...)
	if l.During != nil {
		if err := l.During(watched{ctx, b, l.Card}); err != nil {
			_, _ = ran.Wait()
			return nil, err
		}
	}
	said, err := ran.Wait()
	if err != nil {
		return nil, err
	}
	whole, err := near.Run(ctx, "linerate", "show", "last", "--json=full", "--samples", "--db", db)
	if err == nil && whole.Code != 0 {
		err = errors.New("linerate show: " + strings.TrimSpace(whole.Stderr))
	}
	if err != nil {
		return nil, fmt.Errorf("%w\nlinerate %s: %s%s", err, args[0], said.Stdout, said.Stderr)
	}
	return []byte(joinKey.ReplaceAllString(whole.Stdout, "linerate://KEY@")), nil
}

// watched is a look in progress.
type watched struct {
	ctx  context.Context
	b    *Two
	card int
}

// Flowing waits for half a megabyte in both directions together, which no exchange before the
// data reaches.
func (w watched) Flowing() error {
	const script = `all() { echo $(($(cat /sys/class/net/$e/statistics/rx_bytes) + $(cat /sys/class/net/$e/statistics/tx_bytes))); }
least=$(($(all) + 500000))
for i in $(seq 600); do [ $(all) -lt $least ] || exit 0; sleep 0.1; done
exit 1`
	if err := w.b.Shell(w.ctx, 0, w.card, script); err != nil {
		return fmt.Errorf("no payload: %w", err)
	}
	return nil
}

func (w watched) Pull(length time.Duration) error {
	set := func(up bool) (err error) {
		for _, m := range w.b.hosts {
			err = errors.Join(err, m.SetLink(w.ctx, fmt.Sprint("n", w.card), up))
		}
		return err
	}
	if err := set(false); err != nil {
		return err
	}
	select {
	case <-time.After(length):
	case <-w.ctx.Done():
	}
	return set(true)
}
