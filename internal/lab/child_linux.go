package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/lab/wire"
)

// child runs the role that the lab gave this process.
func child(args []string) error {
	switch args[0] {
	case "wire":
		return wireProcess()
	case "host":
		return hostProcess()
	}
	return fmt.Errorf("unknown role %q of a lab process", args[0])
}

// wireProcess is process 1 of the lab. When it returns, everything in the lab
// is killed by the kernel.
func wireProcess() error {
	// The two pumps hold a scheduler slot each during raw system calls.
	runtime.GOMAXPROCS(4)
	debug.SetGCPercent(400) // the wire itself does not allocate
	control, err := inherited(fdControl)
	if err != nil {
		return err
	}
	for _, fd := range []int{fdHostA, fdHostB} {
		unix.CloseOnExec(fd)
	}
	w, err := buildWire(control)
	if err != nil {
		return errors.Join(err, control.send(failed(0, err)))
	}
	defer func() { _ = w.wire.Close() }()
	if err := control.send(message{Op: opReady}); err != nil {
		return err
	}
	return w.serve(control)
}

// wireSide is the wire process at work.
type wireSide struct {
	kind  wire.Kind
	wire  *wire.Wire
	links map[model.Host]*link // to the hosts
	pids  map[int]model.Host
}

// buildWire starts the hosts and joins their interfaces.
func buildWire(control *link) (*wireSide, error) {
	m, _, err := control.expect(opSetup, 0)
	if err != nil {
		return nil, err
	}
	if m.Setup == nil || len(m.Setup.Command) == 0 {
		return nil, errors.New("setup message without a setup")
	}
	if err := privateMounts(); err != nil {
		return nil, err
	}
	w := &wireSide{kind: m.Setup.Wire, links: map[model.Host]*link{}, pids: map[int]model.Host{}}
	for host, fd := range map[model.Host]uintptr{model.Near: fdHostA, model.Far: fdHostB} {
		if err := w.startHost(*m.Setup, host, os.NewFile(fd, "host socket")); err != nil {
			return nil, fmt.Errorf("start host %s: %w", host, err)
		}
	}
	ports, err := w.ports(m.Setup)
	if err != nil {
		return nil, err
	}
	spec := m.Setup.Spec
	w.wire, err = wire.Start(wire.Config{
		To: spec.To, From: spec.From, HalfDuplex: spec.HalfDuplex, Bus: spec.Bus, Seed: spec.Seed,
		FrameBytes: spec.MTU + wire.HeaderBytes + vlanTag,
	}, ports[0], ports[1])
	if err != nil {
		return nil, fmt.Errorf("start wire: %w", err)
	}
	for host, l := range w.links {
		if err := l.send(message{Op: opReady}); err != nil {
			return nil, err
		}
		if _, _, err := l.expect(opReady, 0); err != nil {
			return nil, fmt.Errorf("set up host %s: %w", host, err)
		}
	}
	return w, nil
}

// vlanTag is the length of an IEEE 802.1Q tag, which a host may add to a frame
// of full size.
const vlanTag = 4

// startHost starts the process of a host, which takes over its socket to the
// controller.
func (w *wireSide) startHost(s setup, host model.Host, controller *os.File) error {
	here, there, err := pair(unix.SOCK_SEQPACKET)
	if err != nil {
		return err
	}
	// Not bound to a context: a host lives as long as this process.
	cmd := exec.CommandContext(context.Background(), s.Command[0],
		append(s.Command[1:len(s.Command):len(s.Command)], "host", string(host))...)
	cmd.ExtraFiles = []*os.File{controller, there}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWUTS}
	err = startOrdinary(cmd)
	closeAll([]*os.File{controller, there})
	if err != nil {
		closeAll([]*os.File{here})
		return err
	}
	w.pids[cmd.Process.Pid] = host
	l, err := newLink(here)
	if err != nil {
		return err
	}
	w.links[host] = l
	s.Host = host
	return l.send(message{Op: opSetup, Setup: &s})
}

// startOrdinary starts cmd with the ordinary nice value instead of the wire's. A
// thread cannot go back to a lower one without rights, so one is spent on it.
func startOrdinary(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		err := unix.Setpriority(unix.PRIO_PROCESS, 0, 0)
		if err == nil || errors.Is(err, unix.EACCES) { // EACCES: nice is above 0 already
			err = cmd.Start()
		}
		started <- err
	}()
	return <-started
}

// ports returns the wire's ends of the hosts' interfaces, both of one kind.
// Packet comes first: TAP costs about as much, but its frames do not say when
// they came, so a thread that is late counts them late.
func (w *wireSide) ports(s *setup) ([]wire.Port, error) {
	spaces := map[model.Host]*os.File{}
	for host, l := range w.links {
		_, files, err := l.expect(opDevice, 1)
		if err != nil {
			return nil, fmt.Errorf("network of host %s: %w", host, err)
		}
		spaces[host] = files[0]
	}
	defer func() { closeAll([]*os.File{spaces[model.Near], spaces[model.Far]}) }()
	join := func(one func(model.Host) (wire.Port, error)) ([]wire.Port, error) {
		a, err := one(model.Near)
		if err != nil {
			return nil, fmt.Errorf("interface of host %s: %w", model.Near, err)
		}
		b, err := one(model.Far)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("interface of host %s: %w", model.Far, err), a.Close())
		}
		return []wire.Port{a, b}, nil
	}
	var refused error
	if w.kind != wire.TAP {
		ports, err := join(func(h model.Host) (wire.Port, error) { return vethPort(h, spaces[h], s.Spec.MTU) })
		if err == nil || w.kind == wire.Packet {
			w.kind = wire.Packet
			return ports, err
		}
		refused = err
		removeVeths()
	}
	ports, err := join(w.tapPort)
	if err != nil {
		return nil, errors.Join(refused, err)
	}
	w.kind = wire.TAP
	return ports, nil
}

// tapPort asks host for a TAP file.
func (w *wireSide) tapPort(host model.Host) (wire.Port, error) {
	if err := w.links[host].send(message{Op: opTAP}); err != nil {
		return nil, err
	}
	_, files, err := w.links[host].expect(opDevice, 1)
	if err != nil {
		return nil, err
	}
	defer closeAll(files)
	fd, err := unix.FcntlInt(files[0].Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate TAP file: %w", err)
	}
	return wire.NewTAP(fd)
}

// serve answers the controller until it is gone or a host has ended.
func (w *wireSide) serve(control *link) error {
	over := make(chan error, 2)
	go func() { over <- w.reap() }()
	go func() {
		for {
			m, files, err := control.receive()
			closeAll(files)
			if err != nil {
				over <- nil // the controller is gone: the usual end
				return
			}
			if err := control.send(w.answer(m)); err != nil {
				over <- nil
				return
			}
		}
	}()
	return <-over
}

func (w *wireSide) answer(m message) message {
	if m.Op != opStats {
		return failed(m.ID, fmt.Errorf("unknown request %q", m.Op))
	}
	st := &Stats{Wire: w.kind}
	st.To, st.From = w.wire.Counters()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return failed(m.ID, fmt.Errorf("read CPU time: %w", err))
	}
	st.CPU = (time.Duration(usage.Utime.Nano()) + time.Duration(usage.Stime.Nano())).Seconds()
	return message{ID: m.ID, Op: opStats, Stats: st}
}

// reap waits for every child: the hosts, and programs whose parents ended,
// which fall to process 1. It returns when a host has ended.
func (w *wireSide) reap() error {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("wait for hosts: %w", err)
		}
		if host, ok := w.pids[pid]; ok {
			return fmt.Errorf("host %s ended: wait status %#x", host, uint32(status))
		}
	}
}
