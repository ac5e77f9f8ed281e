package watchdog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"linerate/internal/core/knob"
	"linerate/internal/host/durable/durabletest"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/host/knob/linkid"
)

// world is the setting of a proof case: machines in a bubble of package synctest on which all
// is simulated except the code of this package and of package journal.
type world struct {
	name   string
	wrongs sync.Mutex
	wrong  []string
	mu     sync.Mutex
	far    bool // there are two machines
	all    []*sim

	// The fault occurs when the processes of this role on this machine have done so many
	// operations.
	at     site
	inject func(f *fault, p *proc, o act)
	fault  *fault
	first  *proc  // the operation's first process
	sites  []site // of a dry run, with the operations
	ops    []act
}

// site is a moment of an operation.
type site struct {
	machine, role string
	n             int // 1…
}

// act is one operation of a process: on the disk, or "get" or "put" of a setting.
type act struct {
	durabletest.Op
	place hostknob.Place
	dirty bool // the disk has unsynced data
}

func (o act) String() string {
	if o.place.Native != "" {
		return o.Kind + " " + o.place.String()
	}
	return o.Kind + " " + filepath.Base(o.Path)
}

// sim is one machine.
type sim struct {
	w       *world
	name    string
	disk    durabletest.Disk
	boot    string
	links   []linkid.ID
	values  map[slot]string
	asleep  time.Duration // time that timers did not see
	wall    time.Duration // how far the clock was set
	procs   []*proc
	count   map[string]int               // operations by role
	refuse  map[string]func(o act) error // lasting faults, by name
	written map[slot]bool                // by linerate, in this case
	foreign map[slot]string              // by another program
	unseen  map[slot]bool                // at a moment that cannot be detected
	lastPut map[slot]bool                // the last operation on the setting was a write
}

// slot is a setting of a link, or of the machine (0).
type slot struct {
	link   int
	native string
}

const stateDir = "/state"

var (
	catalogue = sync.OnceValue(knob.NewIndex)
	stamps    = place("net.ipv4.tcp_timestamps")
	mtuPlace  = hostknob.Place{Mechanism: knob.Link, Native: "mtu", Target: "eth0"}
)

// defaults are what a machine starts with.
func defaults() map[slot]string {
	return map[slot]string{
		{0, sack.Native}: "1", {0, stamps.Native}: "1", {0, rmem.Native}: "4096\t131072\t33554432", {2, "mtu"}: "1500",
	}
}

func newWorld(name string, far bool) *world {
	w := &world{name: name, far: far}
	for _, machine := range []string{"near", "far"} {
		if machine == "far" && !far {
			continue
		}
		m := &sim{
			w: w, name: machine, boot: "first", values: defaults(), count: map[string]int{}, refuse: map[string]func(act) error{},
			foreign: map[slot]string{}, unseen: map[slot]bool{}, written: map[slot]bool{}, lastPut: map[slot]bool{},
			links: []linkid.ID{{Name: "eth0", Index: 2, MAC: "02:00:00:00:00:01", Driver: "ixgbe"}},
		}
		w.all = append(w.all, m)
	}
	return w
}

// errorf records an error so that the test of a bubble goes on.
func (w *world) errorf(format string, a ...any) {
	w.wrongs.Lock()
	defer w.wrongs.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, a...))
}

// proc is a process of a machine.
type proc struct {
	m    *sim
	role string
	pid  int
	fs   *durabletest.Process
	dead bool
	err  error         // how it ended
	done chan struct{} // closed at its end
	gone chan struct{} // closed when it is killed
	ends []func()      // closes what the system closes at its end
	once sync.Once
}

func (m *sim) process(role string) *proc {
	p := &proc{m: m, role: role, err: errors.New("signal: killed"), done: make(chan struct{}), gone: make(chan struct{})}
	p.fs = m.disk.Process(func(o durabletest.Op) error { return p.step(act{Op: o}) })
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.procs = append(m.procs, p)
	p.pid = 100 + len(m.procs)
	return p
}

// run starts a process that runs f.
func (m *sim) run(role string, f func(p *proc) error) *proc {
	p := m.process(role)
	go func() {
		defer p.end()
		p.err = f(p)
	}()
	return p
}

func (p *proc) end() {
	p.close()
	close(p.done)
}

// close does what the system does when a process ends.
func (p *proc) close() {
	p.once.Do(func() {
		p.fs.End()
		for _, f := range p.ends {
			f()
		}
	})
}

// kill kills processes with SIGKILL at once, while no other process runs.
func kill(all ...*proc) {
	all = slices.DeleteFunc(slices.Clone(all), func(p *proc) bool { return p.dead })
	for _, p := range all {
		p.dead = true
	}
	for _, p := range all {
		close(p.gone)
		p.close()
	}
}

// living returns the running processes with a role, or all for "".
func (m *sim) living(role string) []*proc {
	return slices.DeleteFunc(slices.Clone(m.procs), func(p *proc) bool {
		select {
		case <-p.done:
			return true
		default:
			return p.dead || role != "" && p.role != role
		}
	})
}

// step runs before every operation and may inject the fault.
func (p *proc) step(o act) error {
	if p.dead {
		runtime.Goexit()
	}
	w, m := p.m.w, p.m
	w.mu.Lock()
	m.count[p.role]++
	here := site{m.name, p.role, m.count[p.role]}
	if w.sites != nil {
		names, bytes := m.disk.Unsynced(journal.Files(stateDir)...)
		o.dirty = names+bytes > 0 || strings.HasPrefix(base(o.Path), "confirmed")
		w.sites, w.ops = append(w.sites, here), append(w.ops, o)
	}
	now := here == w.at && w.inject != nil
	w.mu.Unlock()
	if now {
		w.fault.happened = true
		w.inject(w.fault, p, o)
		if p.dead {
			runtime.Goexit()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range m.refuse {
		if err := f(o); err != nil {
			return err
		}
	}
	return nil
}

// slot returns the setting of a place, or an error if the machine has no such setting.
func (m *sim) slot(p hostknob.Place) (slot, error) {
	if p.Target == "" {
		return slot{0, p.Native}, nil
	}
	for _, l := range m.links {
		if l.Name == p.Target {
			return slot{l.Index, p.Native}, nil
		}
	}
	return slot{}, fmt.Errorf("interface %s: %w", p.Target, fs.ErrNotExist)
}

// setting is a machine's setting as a process sees it.
type setting struct {
	p     *proc
	place hostknob.Place
}

func (s setting) Read(context.Context) (string, error) {
	if err := s.p.step(act{Op: durabletest.Op{Kind: "get"}, place: s.place}); err != nil {
		return "", err
	}
	m := s.p.m
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	at, err := m.slot(s.place)
	if err != nil {
		return "", err
	}
	m.lastPut[at] = false
	return m.values[at], nil
}

func (s setting) Check(context.Context, string) error { return nil }

func (s setting) Write(_ context.Context, raw string) error {
	if err := s.p.step(act{Op: durabletest.Op{Kind: "put"}, place: s.place}); err != nil {
		return err
	}
	m := s.p.m
	at, err := m.slot(s.place)
	if err != nil {
		return err
	}
	m.onDisk(s.place, raw)
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.values[at], m.written[at], m.lastPut[at] = raw, true, true
	return nil
}

// onDisk demands that the value written now, or its undo, would survive any loss of power.
func (m *sim) onDisk(p hostknob.Place, raw string) {
	for _, path := range journal.Files(stateDir) {
		var d durabletest.Disk
		whole := d.Process(nil)
		_ = whole.MakeDir(stateDir)
		f, _ := whole.Open(path, 0x42, 0) // O_RDWR|O_CREAT
		_, _ = f.Write(m.disk.Stored(path))
		records, _, err := journal.Dir{Path: stateDir, FS: whole}.Read()
		if err != nil {
			continue
		}
		open := append(journal.OpenIntents(records), journal.ConfirmedIntents(records)...)
		if slices.ContainsFunc(open, func(o journal.Unfinished) bool {
			return o.Place.Native == p.Native && (o.New == raw || o.Old == raw)
		}) {
			return
		}
	}
	if m.refuse["damage"] == nil { // with damage, none of it need be on disk
		m.w.errorf("%s is set to %q on %s, and no disk knows of it", p, raw, m.name)
	}
}

// config is the configuration that a process passes to this package.
func (p *proc) config() Config {
	m := p.m
	begun := time.Now()
	return Config{
		Dir: stateDir, Version: "sim", Command: []string{"linerate"},
		Host: hostknob.Host{Interface: "eth0", Index: catalogue(), Backend: func(at hostknob.Place) (hostknob.Backend, error) { return setting{p, at}, nil }},
		sys: &system{
			files: p.fs, kernel: func() (kernelLog, error) { return nil, fs.ErrPermission }, spare: &noSpare{}, start: p.watchdog,
			clock: func() time.Duration { return time.Since(begun) + m.asleep },
			now:   func() time.Time { return time.Now().Add(m.wall) },
			links: func() ([]linkid.ID, error) { return slices.Clone(m.links), nil },
			origin: func() journal.Origin {
				return journal.Origin{Boot: m.boot, Netns: 1, PID: p.pid}
			},
		},
	}
}

type noSpare struct{}

func (*noSpare) hold() error { return nil }
func (*noSpare) release()    {}

// watchdog starts a watchdog for a process.
func (p *proc) watchdog(Config) (*process, error) {
	requests, ask := io.Pipe()
	answers, out := io.Pipe()
	w := p.m.process("watchdog")
	p.ends = append(p.ends, func() { _, _ = ask.Close(), answers.Close() })
	w.ends = append(w.ends, func() { _, _ = requests.Close(), out.Close() })
	ctx, term := context.WithCancel(context.Background())
	go func() {
		defer w.end()
		defer term()
		w.err = serve(ctx, requests, out, w.config())
	}()
	return &process{pid: w.pid, in: ask, out: answers, kill: func() error { kill(w); return nil }, wait: func() error {
		select {
		case <-w.done:
		case <-w.gone:
			return errors.New("signal: killed")
		}
		return w.err
	}}, nil
}

// state reads the journal without locking it.
func (m *sim) state() (records []journal.Record, damage []journal.Damage) {
	records, damage, err := journal.Dir{Path: stateDir, FS: m.disk.Process(nil)}.Read()
	if err != nil {
		m.w.errorf("read the journal of %s: %v", m.name, err)
	}
	return records, damage
}

// everybody returns all processes of all machines.
func (w *world) everybody() []*proc {
	var all []*proc
	for _, m := range w.all {
		all = append(all, m.living("")...)
	}
	return all
}

// pause lets time pass and all processes run meanwhile.
func pause(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func base(path string) string { return strings.TrimPrefix(path, stateDir+"/") }
