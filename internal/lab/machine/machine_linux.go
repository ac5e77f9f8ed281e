package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"linerate/internal/tail"
)

// Machine is a running machine.
type Machine struct {
	cfg     Config
	args    []string // of qemu
	monitor *monitor
	guest   *guest
	ctx     context.Context
	stop    context.CancelFunc
	process *os.Process
	again   atomic.Bool   // Reset ends qemu, and starts it again
	ended   chan struct{} // closed when qemu has ended
	exit    error         // qemu's exit error, once ended is closed
	once    sync.Once
	said    tail.Tail // qemu's own output
}

// Start starts a machine and returns when qemu runs; its kernel has just begun. The machine
// ends with ctx, with Close and with this process.
func Start(ctx context.Context, cfg Config) (*Machine, error) {
	initrd, err := cfg.initrd()
	if err != nil {
		return nil, fmt.Errorf("machine %s: %w", cfg.Name, err)
	}
	if err := cfg.copyDisks(ctx); err != nil {
		return nil, fmt.Errorf("machine %s: %w", cfg.Name, err)
	}
	args, err := cfg.arguments(initrd)
	if err != nil {
		return nil, fmt.Errorf("machine %s: %w", cfg.Name, err)
	}
	_ = os.Remove(cfg.file("console"))
	ctx, stop := context.WithCancel(ctx)
	m := &Machine{cfg: cfg, args: args, ctx: ctx, stop: stop, said: tail.Tail{Keep: 4096}}
	m.guest = newGuest(ctx, cfg.file("line"))
	if err := m.boot(); err != nil {
		m.Close()
		return nil, fmt.Errorf("machine %s: %w", cfg.Name, err)
	}
	return m, nil
}

// boot starts qemu and connects to its monitor.
func (m *Machine) boot() error {
	for _, kind := range []string{"line", "qmp"} {
		_ = os.Remove(m.cfg.file(kind))
	}
	cmd := exec.CommandContext(m.ctx, qemu, m.args...)
	cmd.Stdout, cmd.Stderr = &m.said, &m.said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := m.launch(cmd); err != nil {
		return err
	}
	m.process = cmd.Process
	greeting, cancel := context.WithTimeout(m.ctx, 30*time.Second)
	defer cancel()
	var err error
	if m.monitor, err = newMonitor(greeting, m.cfg.file("qmp"), m.guest.reset); err != nil {
		return fmt.Errorf("%w: qemu said: %s", err, m.said.String())
	}
	return nil
}

// launch starts qemu from a thread that lasts as long as qemu: otherwise qemu would be killed
// when the forking thread ends (PR_SET_PDEATHSIG).
func (m *Machine) launch(cmd *exec.Cmd) error {
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			exit := cmd.Wait()
			if !m.again.Load() {
				m.exit = exit
				m.stop() // wakes all waiting requests
			}
			close(ended)
		}
	}()
	err := <-started
	if err == nil {
		m.ended = ended
	}
	return err
}

// initrd returns the value of -initrd. It joins Linux archives in one file.
func (c Config) initrd() (string, error) {
	if c.Multiboot || len(c.Initrd) < 2 {
		return strings.Join(c.Initrd, ","), nil
	}
	out, err := os.Create(c.file("initrd"))
	if err != nil {
		return "", err
	}
	defer out.Close()
	for _, name := range c.Initrd {
		in, err := os.Open(name)
		if err != nil {
			return "", err
		}
		n, err := io.Copy(out, in)
		in.Close()
		if err != nil {
			return "", err
		}
		if _, err := out.Write(make([]byte, (4-n%4)%4)); err != nil { // archives begin at multiples of four
			return "", err
		}
	}
	return out.Name(), nil
}

// copyDisks gives the machine its own copies of the disks, if requested.
func (c *Config) copyDisks(ctx context.Context) error {
	if !c.Own {
		return nil
	}
	c.Disks = slices.Clone(c.Disks)
	for i, from := range c.Disks {
		c.Disks[i] = c.file(fmt.Sprint("disk", i))
		if text, err := exec.CommandContext(ctx, "cp", "--sparse=always", "--reflink=auto", from, c.Disks[i]).CombinedOutput(); err != nil {
			return fmt.Errorf("copy %s: %w: %s", from, err, text)
		}
	}
	return nil
}

// Close kills the machine and waits for it. It is idempotent.
func (m *Machine) Close() {
	m.once.Do(func() {
		m.stop()
		if m.ended != nil {
			<-m.ended
		}
		if m.monitor != nil {
			m.monitor.conn.Close()
		}
		if m.guest != nil {
			m.guest.close()
		}
		for _, kind := range []string{"line", "qmp", "initrd"} {
			_ = os.Remove(m.cfg.file(kind))
		}
		if m.cfg.Own {
			for _, disk := range m.cfg.Disks {
				_ = os.Remove(disk)
			}
		}
	})
}

// Wait waits until the guest answers, at first or after a reset. Its error has the end of the
// console.
func (m *Machine) Wait(ctx context.Context) error {
	if err := m.guest.wait(ctx); err != nil {
		return fmt.Errorf("machine %s does not answer: %w; its console ends with:\n%s%s", m.cfg.Name, err, last(m.Console(), 2000), m.said.String())
	}
	return nil
}

// Reset presses the reset button: what the machine did not write to its disk is lost. Call Wait
// for the guest to answer. A machine with a root in memory (FreeBSD) must have been started
// after the machine at the other end of its cable.
func (m *Machine) Reset(ctx context.Context) error {
	if m.cfg.Multiboot {
		return m.resetRoot(ctx)
	}
	m.guest.reset() // not only on the event, which comes later
	return m.monitor.do(ctx, "system_reset", nil)
}

// PowerCut cuts the machine's power and restores it: what it did not write to its disks, which
// must be its own, is lost. Call Wait for the guest to answer. It restarts the emulator too:
// qemu caches translated code, and a Debian that was reset after ten minutes of changes was
// observed to stall for minutes at its start. Cables must lead to machines that were started
// before.
func (m *Machine) PowerCut() error {
	if len(m.cfg.Disks) > 0 && !m.cfg.Own {
		return fmt.Errorf("machine %s: its disks end with the emulator", m.cfg.Name)
	}
	return m.restart()
}

// restart kills the emulator and starts it again.
func (m *Machine) restart() error {
	m.again.Store(true)
	defer m.again.Store(false)
	if err := m.process.Kill(); err != nil {
		return err
	}
	<-m.ended
	m.monitor.conn.Close()
	m.guest.reset()
	return m.boot()
}

// SetLink plugs in or pulls the cable of a card: n0 is the first card.
func (m *Machine) SetLink(ctx context.Context, card string, up bool) error {
	return m.monitor.do(ctx, "set_link", map[string]any{"name": card, "up": up})
}

// died distinguishes an exit of the emulator from a reset, which cuts its line too. It returns
// err if qemu still runs.
func (m *Machine) died(err error) error {
	if !errors.Is(err, errReset) || m.again.Load() {
		return err
	}
	select {
	case <-m.ended:
	case <-time.After(3 * time.Second): // a process that dumps core ends late
		return err
	}
	why := "without a fault"
	if m.exit != nil {
		why = m.exit.Error()
	}
	return fmt.Errorf("%w: %s %s", ErrEmulator, why, m.said.String())
}

// Console returns the output of the machine's first serial port.
func (m *Machine) Console() string {
	text, err := os.ReadFile(m.cfg.file("console"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Missing names what a machine requires and is not installed: qemu, or one of the files; "" if
// nothing is missing.
func Missing(files ...string) string {
	if _, err := exec.LookPath(qemu); err != nil {
		return "no " + qemu + " (Debian package qemu-system-x86; make vm installs it)"
	}
	for _, name := range files {
		if _, err := os.Stat(name); err != nil {
			return "no " + name + " (make vm makes it)"
		}
	}
	return ""
}

// BuildGuest builds the guest for a system (linux, freebsd) into dir, from this
// module, and returns its path.
func BuildGuest(ctx context.Context, system, dir string) (string, error) {
	out := filepath.Join(dir, "guest-"+system)
	return out, build(ctx, system, "linerate/internal/lab/machine/guest", out)
}

// BuildLinerate builds linerate for a system, likewise.
func BuildLinerate(ctx context.Context, system, dir string) (string, error) {
	out := filepath.Join(dir, "linerate-"+system)
	return out, build(ctx, system, "linerate/cmd/linerate", out)
}

func build(ctx context.Context, system, folder, out string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, folder)
	cmd.Env = append(cmd.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s for %s: %w\n%s", folder, system, err, text)
	}
	return nil
}

func last(text string, n int) string { return text[max(0, len(text)-n):] }

var errReset = errors.New("the machine was reset")

// ErrEmulator reports that qemu itself ended, which says nothing about the machine.
var ErrEmulator = errors.New("the emulator (qemu) ended")
