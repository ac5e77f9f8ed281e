package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"linerate/bench/internal/judge"
	"linerate/internal/core/model"
	"linerate/internal/lab/machine"
)

const (
	startTime = 5 * time.Minute // of two machines in emulation
	lookTime  = 4 * time.Minute // of one recording
)

// two are the machines of all recordings that need some: near and far.
type two struct {
	hosts [2]*machine.Machine
	dir   string
	key   string // of the server at far
}

// startTwo boots both.
func startTwo(ctx context.Context, program string) (*two, error) {
	dir, err := os.MkdirTemp("", "vm") // sockets have short paths
	if err != nil {
		return nil, err
	}
	b := &two{dir: dir}
	if err := b.start(ctx, program); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *two) close() {
	for _, m := range b.hosts {
		if m != nil {
			m.Close()
		}
	}
	os.RemoveAll(b.dir)
}

func (b *two) start(ctx context.Context, program string) error {
	if what := machine.Missing(machine.Debian("x", b.dir, "6.1", false, b.dir).Needs()[:2]...); what != "" {
		return errors.New(what)
	}
	guest, err := machine.BuildGuest(ctx, "linux", b.dir)
	if err != nil {
		return err
	}
	programs, err := machine.Programs(b.dir, guest, program)
	if err != nil {
		return err
	}
	var cables []*machine.Cable
	for i := range cards() {
		cables = append(cables, machine.NewCable(b.dir, fmt.Sprint("c", i)))
	}
	for host, name := range []string{"near", "far"} {
		cfg := machine.Debian(name, b.dir, "6.1", false, programs)
		cfg.CPUs, cfg.Memory = 2, 640
		for i, model := range cards() {
			cfg.Cards = append(cfg.Cards, machine.Card{Model: model, MAC: fmt.Sprintf("52:54:00:00:%02d:%02d", host, i), Cable: cables[i]})
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
		for i := range cards() {
			if err := b.shell(ctx, host, i, fmt.Sprintf("ip addr add 10.0.%d.%d/24 dev $e\nip link set $e up", i, host+1)); err != nil {
				return err
			}
		}
	}
	return b.serve(ctx)
}

// serve starts a server at far and takes the key that it prints: without one it tells
// nothing of its host.
func (b *two) serve(ctx context.Context) error {
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

// joinKey is what stands before the address in the link of a server.
var joinKey = regexp.MustCompile(`linerate://[^@' "]+@`)

// shell runs a script in a machine, in which $e is the interface of a card.
func (b *two) shell(ctx context.Context, host, card int, text string) error {
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

// record makes a recording, and returns its text and what linerate says of it.
func (b *two) record(ctx context.Context, r inMachines) (text []byte, findings []model.Finding, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	card := slices.Index(cards(), r.card)
	defer func() {
		for host := range b.hosts {
			err = errors.Join(err, b.shell(ctx, host, card, r.back))
		}
	}()
	if err := errors.Join(b.shell(ctx, 0, card, r.near), b.shell(ctx, 1, card, r.far)); err != nil {
		return nil, nil, err
	}
	near := b.hosts[0]
	address := fmt.Sprintf("10.0.%d.2", card)
	got, err := near.Shell(ctx, "for i in $(seq 60); do ping -qc1 -W1 "+address+" > /tmp/ping && exit 0; sleep 1; done; cat /tmp/ping; exit 1")
	if err != nil || got.Code != 0 {
		return nil, nil, fmt.Errorf("far does not answer: %w: %s", err, got.Stdout)
	}
	args := slices.Clone(r.args)
	if i := slices.Index(args, ""); i >= 0 {
		args[i] = b.key + address
	}
	ran, err := near.Run(ctx, append(append([]string{"linerate"}, args...), "--quiet", "--db", "/tmp/db-"+r.name)...)
	if err != nil {
		return nil, nil, err
	}
	whole, err := near.Run(ctx, "linerate", "show", "last", "--json=full", "--samples", "--db", "/tmp/db-"+r.name)
	if err == nil && whole.Code != 0 {
		err = errors.New("linerate show: " + strings.TrimSpace(whole.Stderr))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w\nlinerate %s: %s%s", err, r.args[0], ran.Stdout, ran.Stderr)
	}
	return judge.Recorded([]byte(joinKey.ReplaceAllString(whole.Stdout, "linerate://KEY@")), r.planted)
}
