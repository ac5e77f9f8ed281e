//go:build unix

// Package postgrestest runs this machine's PostgreSQL server for tests: in its own folder, on
// loopback, as an unprivileged user, and no longer than the tests.
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// User and Password belong to a role that has to authenticate on loopback; the superuser is
// postgres, over the socket.
const (
	User     = "linerate"
	Password = "not,a:real/pass@word"
)

// startTime limits how long the server may take to answer.
const startTime = 60 * time.Second

// Server is a running server.
type Server struct {
	Dir  string // of its socket
	Port int    // on 127.0.0.1, and part of the socket's name

	cmd   *exec.Cmd
	attr  *syscall.SysProcAttr
	alive io.Closer // closing it, or the end of this process, stops the server
	count int
}

// ErrMissing reports that this machine has no PostgreSQL.
var ErrMissing = errors.New("PostgreSQL's server is not installed (Debian package postgresql)")

// programs returns the folder with the server programs of the newest version.
func programs() (string, error) {
	if p, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(p), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", ErrMissing
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

// Start starts a server, which the caller stops; the error is ErrMissing if none is installed.
// No test depends on data after a power cut, so the server runs without fsync.
func Start(ctx context.Context) (s *Server, err error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "linerate-pg-")
	if err != nil {
		return nil, err
	}
	s = &Server{Dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if s.attr, err = without(dir); err != nil {
		return s, err
	}
	data := s.data()
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-E", "UTF8", "--locale=C", "-A", "trust", "-N")
	initdb.SysProcAttr, initdb.Dir = s.attr, dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return s, fmt.Errorf("initdb: %w: %s", err, out)
	}
	hba := "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(hba), 0o600); err != nil {
		return s, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0") // only to find a free port
	if err != nil {
		return s, err
	}
	s.Port = l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return s, err
	}
	if err := s.start(bin); err != nil {
		return s, err
	}
	return s, s.ready(ctx, fmt.Sprintf(`CREATE ROLE %s LOGIN CREATEDB PASSWORD '%s'`, User, Password))
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// start starts the server. A shell stops it, and removes its data, when its own standard input
// ends, which happens with the end of this process, even if that is killed.
func (s *Server) start(bin string) (err error) {
	cmd := exec.CommandContext(context.Background(), "sh", "-c", `"$@" & p=$!; cat >/dev/null; kill -INT $p; wait $p; cd /; rm -rf "$0"`, s.Dir,
		filepath.Join(bin, "postgres"), "-D", s.data(), "-k", s.Dir, "-p", strconv.Itoa(s.Port), "-c", "listen_addresses=127.0.0.1",
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off", "-c", "shared_buffers=32MB", "-c", "max_connections=40")
	cmd.SysProcAttr, cmd.Dir = s.attr, s.Dir
	if s.alive, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd = cmd
	return nil
}

// Crash kills the server, and starts it again after a time. What it has committed stays, unless the
// database has synchronous_commit off.
func (s *Server) Crash(ctx context.Context, down time.Duration) error {
	bin, err := programs()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	time.Sleep(down)
	for end := time.Now().Add(startTime); ; {
		if err := s.cmd.Process.Kill(); err != nil { // the shell would remove the data
			return err
		}
		_ = s.cmd.Wait() // it was killed
		if err := s.start(bin); err != nil {
			return err
		}
		soon, cancel := context.WithTimeout(ctx, startTime/10) // it ends if a child of the first one is still there
		err := s.ready(soon, "SELECT 1")
		cancel()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// without returns the attributes to start a process without root rights, which the server
// rejects, and makes its user the owner of dir.
func without(dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return &syscall.SysProcAttr{}, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, uerr := strconv.Atoi(u.Uid)
	gid, gerr := strconv.Atoi(u.Gid)
	if err := errors.Join(uerr, gerr, os.Chown(dir, uid, gid)); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// ready waits until the server carries out a statement.
func (s *Server) ready(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		err := s.Exec(ctx, "postgres", statement)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// URL returns the address of a database over the socket, as the superuser.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@/%s?host=%s&port=%d", database, s.Dir, s.Port)
}

// Exec runs statements in a database as the superuser.
func (s *Server) Exec(ctx context.Context, database, script string) error {
	c, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, script)
	return errors.Join(err, c.Close(context.WithoutCancel(ctx)))
}

// Database creates a new, empty database and returns its address over the socket.
func (s *Server) Database(ctx context.Context) (string, error) {
	s.count++
	name := fmt.Sprintf("test%d", s.count)
	return s.URL(name), s.Exec(ctx, "postgres", "CREATE DATABASE "+name+" OWNER "+User)
}

// Stop stops the server and removes its data. It is idempotent.
func (s *Server) Stop() error {
	if s.cmd != nil {
		_ = s.alive.Close()
		_ = s.cmd.Wait() // however it ends
		s.cmd = nil
	}
	return os.RemoveAll(s.Dir)
}
