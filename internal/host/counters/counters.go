// Package counters reads a host's counters while traffic flows: the time of its cores, and what
// its network stack, its interface and the queue in front of it received, sent and dropped.
//
// Two readings yield samples and counters; their names are a closed list (Definitions,
// docs/counters.md). Unknown values are absent: Missing lists what a system does not count,
// or does not show, with the reason.
//
// Network counters are those of the network namespace in which Open was called, if the system
// has such a thing (Linux; FreeBSD jails with their own stack). Cores and softnet counters
// are the machine's: in a container they include all other work. Linux counts the time of
// cores in ticks of 10 ms, so a share over one second is accurate to about 1 %, and softirq
// time is accurate only if the kernel accounts for it (CONFIG_IRQ_TIME_ACCOUNTING); otherwise
// it is sampled.
package counters

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Watcher reads the counters of this host. It is safe for concurrent use.
type Watcher struct {
	device string

	mu     sync.Mutex
	source *source // nil when closed
}

// Open prepares to read the counters of this host and of its interface iface, "" for none. It
// omits what cannot be read; Missing says what and why. It returns an error only if nothing
// at all can be read, wrapping errors.ErrUnsupported on systems that linerate does not know.
func Open(iface string) (*Watcher, error) {
	s, err := openSource(iface)
	if err != nil {
		return nil, fmt.Errorf("watch this host: %w", err)
	}
	w := &Watcher{device: iface, source: s}
	if _, err := w.Read(time.Time{}); err != nil {
		return nil, errors.Join(fmt.Errorf("watch this host: %w", err), w.Close())
	}
	return w, nil
}

// Missing returns what cannot be read here, each with the reason: "qdisc of eth0: …". It does
// not list single counters that a system simply does not have.
func (w *Watcher) Missing() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.source == nil {
		return nil
	}
	return w.source.missing()
}

// Read returns the values of the counters. at is the time, by the caller's clock. What could
// not be read this time is unknown in the snapshot; an error means that nothing could. It
// wraps os.ErrClosed after Close.
func (w *Watcher) Read(at time.Time) (Snapshot, error) { return w.read(at, true) }

// read omits the driver's own counters unless driver is true.
func (w *Watcher) read(at time.Time, driver bool) (Snapshot, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.source == nil {
		return Snapshot{}, fmt.Errorf("read the counters of this host: %w", os.ErrClosed)
	}
	s := Snapshot{at: at, device: w.device}
	if err := w.source.read(&s, driver); err != nil {
		return Snapshot{}, fmt.Errorf("read the counters of this host: %w", err)
	}
	return s, nil
}

// Close stops watching. It is idempotent.
func (w *Watcher) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.source == nil {
		return nil
	}
	s := w.source
	w.source = nil
	return s.close()
}

// gaps collects what could not be read, one entry for each subject.
type gaps struct{ list []gap }

type gap struct {
	subject string
	reason  error
}

// note records that subject could not be read, or, with a nil error, that it could after all.
func (g *gaps) note(subject string, err error) {
	for i := range g.list {
		if g.list[i].subject == subject {
			g.list[i].reason = err
			return
		}
	}
	if err != nil {
		g.list = append(g.list, gap{subject, err})
	}
}

func (g *gaps) texts() []string {
	var out []string
	for _, one := range g.list {
		if one.reason != nil {
			out = append(out, one.subject+": "+one.reason.Error())
		}
	}
	return out
}
