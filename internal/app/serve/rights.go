package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/control/access"
	"linerate/internal/control/agent"
	"linerate/internal/control/tuner"
	"linerate/internal/control/wire/tls"
	"linerate/internal/fault"
	"linerate/internal/host/sandbox"
)

// servedCopiesDir is the ledger of test files of a server that gave up root: it belongs to
// the user that the server becomes, and root reads nothing in it.
const servedCopiesDir = "copies-of-serve"

// chooseUser chooses the user that a server started as root becomes. The ledger of copies is
// then in a folder of its own, which becomes the working directory.
func (s *Server) chooseUser() error {
	if !sandbox.IsRoot() {
		return nil
	}
	u, err := sandbox.Choose(s.c.User, s.dir)
	switch {
	case err == nil:
		s.user, s.copies = &u, "."
	case s.c.User == "" && (errors.Is(err, sandbox.ErrNoOtherUser) || errors.Is(err, errors.ErrUnsupported)):
		s.got = append(s.got, fmt.Sprintf("as this user (%v)", err))
	default:
		return fault.New(fault.Usage, err, "name a user without rights: --user NAME")
	}
	return nil
}

// giveUpRights becomes an unprivileged user if the process is root, and keeps access only to
// the files that measuring needs, if the kernel supports that. It reports the result. If root
// started the server on Linux and it gets neither no_new_privs nor Landlock, giveUpRights
// returns an error, unless Unconfined allows it. A Guest keeps its rights.
func (s *Server) giveUpRights(server *tls.Server) error {
	if s.c.Guest {
		return nil
	}
	got, bare := s.got, sandbox.Confines
	if s.user != nil {
		if err := s.become(*s.user, server); err != nil {
			return fault.WithHint(err, "start serve as that user, or name another: --user NAME")
		}
		got = append(got, "as "+s.user.String())
	}
	for _, part := range []struct {
		name string
		do   func() (string, error)
	}{
		{"without new privileges", func() (string, error) { return "", sandbox.NoNewPrivileges() }},
		{"with few files", func() (string, error) {
			abi, err := sandbox.Confine(s.allowed())
			return fmt.Sprintf(" (Landlock %d)", abi), err
		}},
	} {
		more, err := part.do()
		switch {
		case err == nil:
			got, bare = append(got, part.name+more), false
		case errors.Is(err, errors.ErrUnsupported):
			got = append(got, fmt.Sprintf("not %s: %v", part.name, err))
		default:
			return err
		}
	}
	if bare && s.user != nil && !s.c.Unconfined {
		return fault.New(fault.Unsupported, fmt.Errorf("serve was started by root and can give up neither new privileges nor files: %s", strings.Join(got, ", ")),
			"use a linerate that was built without cgo, start serve as a user without rights, or accept it: --unconfined")
	}
	s.say("")("runs " + strings.Join(got, ", "))
	return nil
}

// become changes the user from root to u. It first opens what u has to read and write later,
// or gives it to u. The folder of the ledger becomes the working directory, so that u can
// reach it whatever the folders above it allow. SQLite opens its files by their full paths,
// so other users may pass through the state folder: the files in it belong to root.
func (s *Server) become(u sandbox.User, server *tls.Server) error {
	if err := server.GiveTo(u.UID, u.GID); err != nil {
		return fmt.Errorf("become %s: %w", u, err)
	}
	if err := s.ring.Share(u.UID, u.GID); err != nil {
		return err
	}
	copies := filepath.Join(s.dir, servedCopiesDir)
	if err := os.MkdirAll(copies, 0o700); err != nil {
		return err
	}
	if err := errors.Join(os.Chown(copies, u.UID, u.GID), os.Chmod(s.dir, 0o711)); err != nil {
		return err
	}
	if err := os.Chdir(copies); err != nil {
		return err
	}
	for _, dir := range s.c.Writes {
		if err := Give(dir, u); err != nil {
			return err
		}
	}
	if s.file != nil {
		if err := s.file.Descriptor(func(f *os.File) error { return f.Chown(u.UID, u.GID) }); err != nil {
			return fmt.Errorf("audit log: %w", err)
		}
	}
	return sandbox.Drop(u)
}

// Give makes u the owner of a directory and of the files in it.
func Give(dir string, u sandbox.User) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, u.UID, u.GID)
	})
}

// allowed returns the files that a measuring server needs: those that describe the host, its
// keys, and where copies and the audit log go.
func (s *Server) allowed() sandbox.Files {
	f := sandbox.Files{
		Read: []string{
			"/proc", "/sys", "/etc", "/usr/share/zoneinfo", "/dev/urandom",
			"/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager", // where /etc/resolv.conf may lead
			filepath.Join(s.store.Dir, "keys"),
		},
		Write: []string{filepath.Join(s.store.Dir, "used"), s.copies, filepath.Join(s.dir, servedCopiesDir), "/dev/null", "/dev/shm", "/tmp", "/var/tmp", os.TempDir()},
	}
	f.Write = append(f.Write, s.c.Writes...)
	if cache, err := os.UserCacheDir(); err == nil {
		f.Write = append(f.Write, cache)
	}
	if s.c.Results != "" && len(s.c.Foreign.Addrs) > 0 && s.user == nil {
		_ = os.MkdirAll(s.c.Results, 0o700) // the writer of the results reports an error
		f.Write = append(f.Write, s.c.Results)
	}
	if s.c.Audit != "" {
		f.Write = append(f.Write, filepath.Dir(s.c.Audit))
	}
	return f
}

// tunerCommand returns the command of the process that changes settings for the server.
func (s *Server) tunerCommand() []string {
	command := append(append([]string{}, s.env.Self...), "tuner", "--state", s.dir)
	if s.c.AllowCommands {
		command = append(command, "--allow-commands")
	}
	return command
}

// Tune serves the sessions that may change settings on in, a socket from the server, after it
// has undone what an earlier one left. state is the directory of the server's state; commands
// allows those sessions to run their own commands. It is the only part of a server that stays
// root.
func Tune(ctx context.Context, env app.Env, in *os.File, state string, commands bool) error {
	o := local.Options{State: state, Commands: commands}
	changes, err := local.New(env, o).RecoverNow(ctx)
	for _, c := range changes {
		env.Observe(app.Recovered{Host: app.ThisMachine, Change: c})
	}
	if err != nil {
		env.Observe(app.Trouble{Err: err}) // each session tries again
	}
	store, err := keyStore(state)
	if err != nil {
		return err
	}
	ring, err := store.Ring(func(line string) { env.Observe(app.Serving{Line: "linerate: tuner: " + line}) })
	if err != nil {
		return err
	}
	ring.Silent() // the server records the use of keys
	defer func() { _ = ring.Close() }()
	watching, end := context.WithCancel(ctx)
	defer end()
	go ring.Watch(watching)
	return tuner.Serve(ctx, in, func(ctx context.Context, r tuner.Request, conn net.Conn) {
		if err := tuneFor(ctx, env, ring, r, conn, o); err != nil {
			env.Observe(app.Trouble{Err: fmt.Errorf("tuner: %w", err)})
		}
	})
}

// tuneFor runs the agent of one session, for as long as its key is valid.
func tuneFor(ctx context.Context, env app.Env, ring *access.Ring, r tuner.Request, conn net.Conn, o local.Options) error {
	defer func() { _ = conn.Close() }()
	g, ok := ring.Find(r.Secret)
	if !ok || g.Right != access.Tune {
		return errors.New("asked by the server for a session without a key that may tune: refused")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-g.Over:
			cancel()
		case <-ctx.Done():
		}
	}()
	h := local.New(env, o)
	defer h.BeginRecovery(ctx)()
	c := h.Agent()
	c.Commands = o.Commands
	return agent.Serve(ctx, conn, c)
}
