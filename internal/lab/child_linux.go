package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
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

// wireProcess is process 1 of the lab. When it returns, the kernel kills everything in the lab.
func wireProcess() error {
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
	defer func() { _ = w.close() }()
	if err := control.send(message{Op: opReady}); err != nil {
		return err
	}
	return w.serve(control)
}

// wireSide is the state of the wire process.
type wireSide struct {
	kind    wire.Kind
	wires   []*wire.Wire         // the first one is at the near host, the last one at the far host
	routers []*os.File           // their network namespaces, from the near host on
	links   map[model.Host]*link // to the hosts
	pids    map[int]model.Host
}

func (w *wireSide) close() error {
	var err error
	for _, one := range w.wires {
		err = errors.Join(err, one.Close())
	}
	return err
}

// buildWire starts the hosts and joins their interfaces, over the routers on the path.
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
	spec := m.Setup.Spec
	// Each pump holds a scheduler slot during raw system calls.
	runtime.GOMAXPROCS(2*len(spec.cables()) + 2)
	if err := w.makeRouters(spec); err != nil {
		return nil, err
	}
	if err := w.lay(spec); err != nil {
		return nil, errors.Join(err, w.close())
	}
	if err := w.joinRouters(spec); err != nil {
		return nil, err
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

// vlanTag is the length of an IEEE 802.1Q tag, which a host may add to a full-size frame.
const vlanTag = 4

// startHost starts the process of a host and passes it its socket to the controller.
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

// startOrdinary starts cmd with the default nice value instead of the wire's. A thread cannot
// lower its own without privilege, so it uses a new thread.
func startOrdinary(cmd *exec.Cmd) error {
	return onThread(func() error {
		err := unix.Setpriority(unix.PRIO_PROCESS, 0, 0)
		if err == nil || errors.Is(err, unix.EACCES) { // EACCES: nice is already above 0
			err = cmd.Start()
		}
		return err
	})
}

// onThread runs do on a thread that ends with it.
func onThread(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- do()
	}()
	return <-done
}

// lay creates the links of the path, starts their wires and sets all interfaces up. No
// interface has an address before, so that none sends a frame to one that is down.
func (w *wireSide) lay(spec Spec) error {
	spaces := slices.Concat([]*os.File{nil}, w.routers, []*os.File{nil})
	hosts := map[model.Host]**os.File{model.Near: &spaces[0], model.Far: &spaces[len(spaces)-1]}
	for host, l := range w.links {
		_, files, err := l.expect(opDevice, 1)
		if err != nil {
			return fmt.Errorf("network of host %s: %w", host, err)
		}
		*hosts[host] = files[0]
		defer func() { _ = files[0].Close() }()
	}
	if err := w.layAny(spec, spaces); err != nil {
		return err
	}
	for _, space := range spaces {
		if err := inside(space, allUp); err != nil {
			return err
		}
	}
	return nil
}

// layAny creates links of one kind. Packet comes first: TAP costs about as much, but its frames
// have no arrival time, so a late thread counts them late.
func (w *wireSide) layAny(spec Spec, spaces []*os.File) error {
	var refused error
	if w.kind != wire.TAP {
		refused = w.layVeths(spec, spaces)
		if refused == nil || w.kind == wire.Packet {
			w.kind = wire.Packet
			return refused
		}
	}
	if len(spec.Hops) > 0 {
		return errors.Join(errors.New("routers need veth pairs and packet sockets: leave out hops="), refused)
	}
	for _, host := range []model.Host{model.Near, model.Far} {
		if l, err := netlink.LinkByName(wireEnd(0, host)); err == nil {
			_ = netlink.LinkDel(l) // if it stays, creating the TAP device fails
		}
	}
	w.kind = wire.TAP
	near, err := w.tapPort(model.Near)
	if err != nil {
		return errors.Join(refused, err)
	}
	far, err := w.tapPort(model.Far)
	if err != nil {
		return errors.Join(refused, err, near.Close())
	}
	return w.start(spec, spec.cables()[0], near, far)
}

// start moves frames over a cable between two ports.
func (w *wireSide) start(spec Spec, c cable, near, far wire.Port) error {
	one, err := wire.Start(wire.Config{
		To: c.to, From: c.from, Leave: c.leave, Back: c.back, HalfDuplex: spec.HalfDuplex, Bus: spec.Bus,
		Seed: spec.Seed + uint64(c.number), FrameBytes: spec.MTU + wire.HeaderBytes + vlanTag,
	}, near, far)
	if err != nil {
		return fmt.Errorf("start wire: %w", err)
	}
	w.wires = append(w.wires, one)
	return nil
}

// tapPort requests a TAP file from host.
func (w *wireSide) tapPort(host model.Host) (wire.Port, error) {
	err := w.links[host].send(message{Op: opTAP})
	var files []*os.File
	if err == nil {
		_, files, err = w.links[host].expect(opDevice, 1)
	}
	if err != nil {
		return nil, fmt.Errorf("interface of host %s: %w", host, err)
	}
	defer closeAll(files)
	fd, err := unix.FcntlInt(files[0].Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate TAP file: %w", err)
	}
	return wire.NewTAP(fd)
}

// serve handles the controller's requests until the controller is gone or a host has ended.
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
	for i, one := range w.wires {
		to, from := one.Counters()
		if i > 0 {
			to, from = st.To.Then(to), from.Then(st.From)
		}
		st.To, st.From = to, from
	}
	if err := w.missedByRouters(st); err != nil {
		return failed(m.ID, err)
	}
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return failed(m.ID, fmt.Errorf("read CPU time: %w", err))
	}
	st.CPU = (time.Duration(usage.Utime.Nano()) + time.Duration(usage.Stime.Nano())).Seconds()
	return message{ID: m.ID, Op: opStats, Stats: st}
}

// reap waits for every child: the hosts, and orphaned programs, which process 1 inherits. It
// returns when a host has ended.
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
