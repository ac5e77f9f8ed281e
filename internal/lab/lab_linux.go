package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/tail"
)

// Descriptors of the wire process and of the hosts. The wire process gets the sockets of both
// hosts only to pass them on.
const (
	fdControl = 3 // to the controller
	fdHostA   = 4 // wire process: controller's socket to the near host
	fdHostB   = 5
	fdWire    = 4 // host: socket to the wire process
)

// wireNice is the nice value of the wire process if it may be set (nice(2)).
const wireNice = -10

// running is the controller's side of a lab.
type running struct {
	wire   *client
	hosts  map[model.Host]*client
	groups groups
	stderr io.Writer

	process *os.Process
	ended   chan struct{} // closed when the wire process has ended
	exit    error         // valid then
	talk    *tail.Tail
	copies  sync.WaitGroup // goroutines that read agents' stderr
	once    sync.Once
}

func start(ctx context.Context, spec Spec, cfg Config) (_ *running, err error) {
	if len(cfg.Command) == 0 {
		return nil, errors.New("no command for the lab's processes is given")
	}
	quotas, err := newGroups("/", spec)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, quotas.remove())
		}
	}()
	r := &running{
		hosts: map[model.Host]*client{}, groups: quotas, stderr: cfg.Stderr,
		ended: make(chan struct{}), talk: &tail.Tail{Keep: 4096},
	}
	if _, file := r.stderr.(*os.File); !file && r.stderr != nil {
		r.stderr = &serial{w: r.stderr} // several agents may write
	}
	links, err := r.launch(cfg.Command)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = r.process.Kill() })
	defer stop()
	err = links[0].send(message{Op: opSetup, Setup: &setup{Spec: spec, Wire: cfg.Wire, Command: cfg.Command, Groups: quotas}})
	if err == nil {
		_, _, err = links[0].expect(opReady, 0)
	}
	if err != nil {
		for _, l := range links {
			err = errors.Join(err, l.close())
		}
		_ = r.process.Kill() // no effect if it has ended already
		<-r.ended
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if _, ok := errors.AsType[*reported](err); !ok {
			err = r.broken(err)
		}
		return nil, explain(err)
	}
	r.wire = newClient(links[0])
	r.hosts[model.Near], r.hosts[model.Far] = newClient(links[1]), newClient(links[2])
	return r, nil
}

// launch starts the wire process and returns the links to it and to the hosts.
func (r *running) launch(command []string) ([]*link, error) {
	var mine []*link
	var theirs []*os.File
	defer func() { closeAll(theirs) }()
	fail := func(err error) ([]*link, error) {
		for _, l := range mine {
			err = errors.Join(err, l.close())
		}
		return nil, err
	}
	for range 3 {
		here, there, err := pair(unix.SOCK_SEQPACKET)
		if err != nil {
			return fail(err)
		}
		theirs = append(theirs, there)
		l, err := newLink(here)
		if err != nil {
			return fail(err)
		}
		mine = append(mine, l)
	}
	err := r.spawn(command, theirs, unix.CLONE_NEWUSER)
	if err != nil && os.Geteuid() == 0 {
		// Root needs no user namespace, which may be forbidden or exhausted.
		err = r.spawn(command, theirs, 0)
	}
	if err != nil {
		return fail(explain(fmt.Errorf("create namespaces: %w", err)))
	}
	return mine, nil
}

// spawn starts the wire process from a thread that lives until that process has ended, because
// PR_SET_PDEATHSIG fires when the forking thread ends.
func (r *running) spawn(command []string, files []*os.File, user uintptr) error {
	started := make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine, and with it its priority.
		runtime.LockOSThread()
		// The wire should not wait for the hosts' use of CPUs. Only root can set this; for
		// other users the wire is as exact as the machine is idle.
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, wireNice)
		// Not bound to a context: the lab lives until close.
		cmd := exec.CommandContext(context.Background(), command[0], append(command[1:len(command):len(command)], "wire")...)
		cmd.ExtraFiles = files
		cmd.Stderr = r.talk
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: user | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC,
			Pdeathsig:  syscall.SIGKILL,
			Setsid:     true, // the controller handles the terminal's Ctrl-C
		}
		if user != 0 {
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		}
		err := cmd.Start()
		r.process = cmd.Process
		started <- err
		if err == nil {
			r.exit = cmd.Wait()
			close(r.ended)
		}
	}()
	return <-started
}

// broken adds the wire process's last output to err.
func (r *running) broken(err error) error {
	if text := strings.TrimSpace(r.talk.String()); text != "" {
		return fmt.Errorf("%w: wire process: %s", err, text)
	}
	return err
}

func (r *running) done() <-chan struct{} { return r.ended }

func (r *running) close() error {
	var err error
	r.once.Do(func() {
		select {
		case <-r.ended:
			err = r.broken(fmt.Errorf("lab ended by itself: %w", errors.Join(r.exit, io.ErrUnexpectedEOF)))
		default:
		}
		_ = r.process.Kill() // fails only if the process has ended
		<-r.ended
		err = errors.Join(err, r.wire.close(), r.hosts[model.Near].close(), r.hosts[model.Far].close(), r.groups.remove())
		r.copies.Wait()
	})
	return err
}

func (r *running) host(h model.Host) (*client, error) {
	c, ok := r.hosts[h]
	if !ok {
		return nil, fmt.Errorf("no such host: use %s or %s", model.Near, model.Far)
	}
	return c, nil
}

func (r *running) stats(ctx context.Context) (Stats, error) {
	m, err := r.wire.ask(ctx, message{Op: opStats})
	if err != nil {
		return Stats{}, err
	}
	if m.Stats == nil {
		return Stats{}, errors.New("answer without counters")
	}
	st := *m.Stats
	for h, missed := range map[model.Host]*uint64{model.Near: &st.To.Missed, model.Far: &st.From.Missed} {
		m, err := r.hosts[h].ask(ctx, message{Op: opStats})
		if err != nil {
			return Stats{}, fmt.Errorf("host %s: %w", h, err)
		}
		*missed += m.Missed
	}
	return st, nil
}

// explain adds to a permission error which setting of this system causes it and what to do
// about it.
func explain(err error) error {
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	hints := []string{"run it as root"}
	for _, k := range []struct{ file, bad, hint string }{
		{"/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"},
		{"/proc/sys/user/max_net_namespaces", "0", "sysctl user.max_net_namespaces=10000"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1 (Debian)"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
			"sysctl kernel.apparmor_restrict_unprivileged_userns=0, or give linerate an AppArmor profile with userns (Ubuntu 23.10 and later)"},
	} {
		text, readErr := os.ReadFile(k.file)
		if readErr == nil && string(bytes.TrimSpace(text)) == k.bad {
			hints = append(hints, k.hint)
		}
	}
	if len(hints) == 1 {
		hints = append(hints, "in a container, allow user namespaces in its seccomp profile")
	}
	return fmt.Errorf("this user may not create virtual hosts here: %s: %w", strings.Join(hints, "; or: "), errors.Join(fs.ErrPermission, err))
}

// serial serialises writes to w.
type serial struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *serial) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}
