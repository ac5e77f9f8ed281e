//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// fault is a kind of fault, with its part of all.
type fault struct {
	name string
	part int // percent
	do   func(w *world, rng *rand.Rand) error
}

// faults are the kinds. A fault ends by itself; others go on meanwhile.
var faults = []fault{
	{"a host killed, started again after up to 60 s", 34, func(w *world, rng *rand.Rand) error {
		return bounce(pick(rng, w.hosts), span60(rng))
	}},
	{"a tenth of all hosts killed", 8, func(w *world, rng *rand.Rand) error {
		var all sync.WaitGroup
		var failed error
		var mu sync.Mutex
		for _, i := range rng.Perm(len(w.hosts))[:max(1, len(w.hosts)/10)] {
			d := span60(rng)
			all.Go(func() {
				err := bounce(w.hosts[i], d)
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
			})
		}
		all.Wait()
		return failed
	}},
	{"a host that hangs for up to 60 s", 15, func(w *world, rng *rand.Rand) error {
		p := pick(rng, w.hosts)
		p.busy.Lock()
		defer p.busy.Unlock()
		return p.stop(span60(rng))
	}},
	{"a hub killed, started again after up to 60 s", 14, func(w *world, rng *rand.Rand) error {
		return bounce(pick(rng, w.hubs), span60(rng))
	}},
	{"a hub that hangs for up to 60 s", 8, func(w *world, rng *rand.Rand) error {
		p := pick(rng, w.hubs)
		p.busy.Lock()
		defer p.busy.Unlock()
		return p.stop(span60(rng))
	}},
	{"the database killed, started again after up to 20 s", 6, func(w *world, rng *rand.Rand) error {
		dbBusy.Lock()
		defer dbBusy.Unlock()
		return w.db.Crash(context.Background(), span60(rng)/3)
	}},
	{"the disk of a tenth of all hosts full for up to 60 s", 8, func(w *world, rng *rand.Rand) error {
		return fill(w.disks[rng.IntN(len(w.disks))], span60(rng))
	}},
	{"no network for up to 10 s", 7, func(_ *world, rng *rand.Rand) error {
		netBusy.Lock()
		defer netBusy.Unlock()
		err := do("ip link set lo down")
		time.Sleep(span60(rng) / 6)
		return errors.Join(err, do("ip link set lo up"))
	}},
}

// dbBusy and netBusy are held during a fault of the database and of the network.
var dbBusy, netBusy sync.Mutex

func span60(rng *rand.Rand) time.Duration {
	return time.Second + time.Duration(rng.Int64N(int64(59*time.Second)))
}

func pick(rng *rand.Rand, all []*process) *process { return all[rng.IntN(len(all))] }

// bounce kills a process and starts it again after a time.
func bounce(p *process, down time.Duration) error {
	p.busy.Lock()
	defer p.busy.Unlock()
	if err := p.kill(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	time.Sleep(down)
	return p.start()
}

// fill leaves no room on a disk for a time.
func fill(disk string, d time.Duration) error {
	f, err := os.CreateTemp(disk, "full-")
	if err != nil {
		return err
	}
	block := make([]byte, 1<<16)
	for err == nil {
		_, err = f.Write(block)
	}
	for err = nil; err == nil; { // to the last byte
		_, err = f.Write(block[:1])
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	time.Sleep(d)
	return errors.Join(f.Close(), os.Remove(filepath.Join(disk, filepath.Base(f.Name()))))
}

// suffer has the faults happen at random moments, and returns how many of each kind there were.
func (w *world) suffer(ctx context.Context) (map[string]int, error) {
	rng := rand.New(rand.NewPCG(w.seed, 0))
	var kinds []fault
	for _, f := range faults {
		for range (w.faults*f.part + 50) / 100 {
			kinds = append(kinds, f)
		}
	}
	for len(kinds) < w.faults {
		kinds = append(kinds, faults[0])
	}
	kinds = kinds[:w.faults]
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	happened := map[string]int{}
	w.say("%d hosts have joined; %d faults in %v", w.options.hosts, len(kinds), w.length)
	for i, f := range kinds {
		own := rand.New(rand.NewPCG(w.seed, uint64(i)+1))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(rng.ExpFloat64() * float64(w.length) / float64(len(kinds)))):
		}
		happened[f.name]++
		all.Go(func() {
			if err := f.do(w, own); err != nil {
				mu.Lock()
				failed = errors.Join(failed, fmt.Errorf("%s: %w", f.name, err))
				mu.Unlock()
			}
		})
		if i%10 == 9 {
			w.say("%d faults", i+1)
		}
	}
	all.Wait()
	return happened, failed
}
