package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/lab/wire"
)

// hostSide is the state of a host's process.
type hostSide struct {
	controller *link
	env        []string

	mu      sync.Mutex
	running map[int]*os.Process // by request
}

// hostProcess sets up a host and runs programs in it until the lab ends.
func hostProcess() error {
	controller, err := inherited(fdControl)
	if err != nil {
		return err
	}
	up, err := inherited(fdWire)
	if err != nil {
		return err
	}
	m, _, err := up.expect(opSetup, 0)
	if err != nil {
		return err
	}
	if m.Setup == nil {
		return errors.New("setup message without a setup")
	}
	if err := setUpHost(up, *m.Setup); err != nil {
		// The wire process reports it; the host only exits.
		return errors.Join(err, up.send(failed(0, err)))
	}
	h := &hostSide{controller: controller, env: hostEnv(m.Setup.Spec), running: map[int]*os.Process{}}
	if err := up.send(message{Op: opReady}); err != nil {
		return err
	}
	return h.serve()
}

// setUpHost gives the host its interface, addresses, names and file systems.
func setUpHost(up *link, s setup) error {
	if err := s.Groups.join(s.Host); err != nil {
		return fmt.Errorf("join the control group with the CPU quota: %w", err)
	}
	if err := offerDevices(up); err != nil {
		return err
	}
	shape := s.Spec.ShapeNear
	if s.Host == model.Far {
		shape = s.Spec.ShapeFar
	}
	if err := configure(s.Host, s.Spec, shape); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(s.Host)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	return hostMounts(s.Spec)
}

// offerDevices passes this host's network namespace to the wire process, which puts one end of
// a veth pair in it, and a TAP file on request.
func offerDevices(up *link) error {
	file, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return fmt.Errorf("find own network namespace: %w", err)
	}
	err = errors.Join(up.send(message{Op: opDevice}, file), file.Close())
	if err != nil {
		return err
	}
	m, _, err := up.receive()
	if err != nil || m.Op == opReady {
		return err
	}
	fd, err := wire.OpenTAP(interfaceName)
	if err != nil {
		return err
	}
	file = os.NewFile(uintptr(fd), "tap")
	if err := errors.Join(up.send(message{Op: opDevice}, file), file.Close()); err != nil {
		return err
	}
	_, _, err = up.expect(opReady, 0)
	return err
}

// hostEnv returns the environment of programs in a host.
func hostEnv(s Spec) []string {
	env := os.Environ()
	for _, h := range []model.Host{model.Near, model.Far} {
		p, name := s.hostEnd(h), strings.ToUpper(string(h))
		env = append(env, name+"_ADDR="+p.v4.Addr().String(), name+"_ADDR6="+p.v6.Addr().String())
	}
	return env
}

// serve handles the controller's requests until the controller is gone.
func (h *hostSide) serve() error {
	for {
		m, files, err := h.controller.receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch m.Op {
		case opSpawn:
			err = h.spawn(m, files)
		case opSignal:
			err = h.signal(m)
		case opStats:
			err = h.stats(m)
		default:
			err = h.controller.send(failed(m.ID, fmt.Errorf("unknown request %q", m.Op)))
		}
		closeAll(files)
		if err != nil {
			return err
		}
	}
}

// spawn starts a program and answers twice: when it has started and when it has ended. It
// returns only errors of the link.
func (h *hostSide) spawn(m message, files []*os.File) error {
	if len(files) != 3 || len(m.Argv) == 0 {
		return h.controller.send(failed(m.ID, fmt.Errorf("request to start %q with %d descriptors instead of 3", m.Argv, len(files))))
	}
	// Not bound to a context: the controller ends it by opSignal.
	cmd := exec.CommandContext(context.Background(), m.Argv[0], m.Argv[1:]...)
	cmd.Env = h.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	h.mu.Lock()
	err := cmd.Start()
	if err == nil {
		h.running[m.ID] = cmd.Process
	}
	h.mu.Unlock()
	if err != nil {
		return h.controller.send(failed(m.ID, err))
	}
	if err := h.controller.send(message{ID: m.ID, Op: opStarted}); err != nil {
		return err
	}
	go h.await(m.ID, cmd)
	return nil
}

// await reports the end of a program.
func (h *hostSide) await(id int, cmd *exec.Cmd) {
	_ = cmd.Wait() // ProcessState has the result
	h.mu.Lock()
	delete(h.running, id)
	h.mu.Unlock()
	code := cmd.ProcessState.ExitCode()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	// If the link is broken, serve has seen it too and ends the host.
	_ = h.controller.send(message{ID: id, Op: opExited, Code: code})
}

// signal signals a program's process group. It ignores one that has ended.
func (h *hostSide) signal(m message) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p, ok := h.running[m.ID]; ok {
		_ = unix.Kill(-p.Pid, unix.Signal(m.Signal))
	}
	return nil
}

// stats reports how many frames the host's interface dropped on sending.
func (h *hostSide) stats(m message) error {
	missed, err := droppedOnSend()
	if err != nil {
		return h.controller.send(failed(m.ID, err))
	}
	return h.controller.send(message{ID: m.ID, Op: opStats, Missed: missed})
}

// privateMounts keeps the lab's mounts inside the lab, and shows its own processes in /proc. If
// a new /proc is refused, as in containers that hide parts of it, the outer one stays, whose
// /proc/self is still right.
func privateMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	_ = unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	return nil
}

// hostMounts gives the host a /sys with its own interfaces, if permitted, and an /etc/hosts
// with both hosts' names.
func hostMounts(s Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	groups, err := unix.Open(controlGroups, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(groups)
	}
	if unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "") == nil && err == nil {
		// An agent reads there how long a quota throttled it.
		_ = unix.Mount(fmt.Sprintf("/proc/self/fd/%d", groups), controlGroups, "", unix.MS_BIND|unix.MS_REC, "")
	}
	return mountNames("/etc/hosts", s)
}

// mountNames mounts a file with the hosts' names over file, from a private file system in
// memory. IPv6 has names of its own: otherwise each program's resolver would choose the family,
// and with it the ceiling. If there is no such file, or the mount is refused, names do not
// resolve and NEAR_ADDR and FAR_ADDR remain.
func mountNames(file string, s Spec) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	text := bytes.NewBuffer(append(bytes.TrimRight(old, "\n"), '\n'))
	for _, host := range []model.Host{model.Near, model.Far} {
		p := s.hostEnd(host)
		fmt.Fprintf(text, "%s\t%s\n%s\t%s6\n", p.v4.Addr(), host, p.v6.Addr(), host)
	}
	dir := os.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,mode=0755"); err != nil {
		return nil
	}
	err = os.WriteFile(dir+"/hosts", text.Bytes(), 0o644)
	if err == nil {
		err = unix.Mount(dir+"/hosts", file, "", unix.MS_BIND, "")
	}
	// The bind mount keeps the file alive; the directory must be usable by the user again.
	if undo := unix.Unmount(dir, unix.MNT_DETACH); undo != nil {
		return fmt.Errorf("unmount %s: %w", dir, undo)
	}
	if err != nil {
		return fmt.Errorf("show host names in %s: %w", file, err)
	}
	return nil
}
