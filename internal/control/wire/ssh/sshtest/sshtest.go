// Package sshtest runs the system's own sshd for tests, with users that the test defines.
//
// Each connection gets its own sshd, as from inetd, in a mount namespace where /etc/passwd and
// related files are files of the test. The machine's own users, keys and configuration are
// neither used nor changed.
package sshtest

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// program is the path on Debian: sshd requires an absolute one.
const program = "/usr/sbin/sshd"

// User is a user of the far host.
type User struct {
	Shell string // "" is /bin/sh
	UID   int    // 0 is root
	// Files of the home directory, for example .profile. Directories in a name are created.
	Files map[string]string
}

// Options of a server. The zero value has root with /bin/sh.
type Options struct {
	Users  map[string]User
	Sshd   string // lines of sshd_config
	Client string // lines of ssh_config for every host
	// Mount are files of the test that are mounted over others, by path.
	Mount map[string]string
	// Setup are lines of sh that run in the mount namespace before sshd.
	Setup string
	// Namespace is a network namespace by name for the server; "" is the test's.
	Namespace string
	// Proxy makes ssh start the server itself by a ProxyCommand, to reach Namespace;
	// HostName is then the host's name.
	Proxy    bool
	HostName string
	// Listener is where the server listens, at HostName; nil is a port of the loopback.
	Listener net.Listener
	// Env is added to the environment of what users run.
	Env map[string]string
}

// Server is a running server.
type Server struct {
	Dir    string // of the test, all users may read it
	Config string // for ssh -F
	Port   int    // on 127.0.0.1; 0 with Proxy
	Known  string // known_hosts
	Key    string // the user's key

	mu   sync.Mutex
	pids []int
}

// Need skips a test on a host that cannot run a server.
func Need(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to start sshd with users of the test's own")
	}
	for _, p := range []string{program, "ssh", "unshare", "mount"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("needs %s (Debian packages openssh-server, openssh-client, util-linux)", p)
		}
	}
}

// Start starts a server that ends with the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	Need(t)
	if o.Users == nil {
		o.Users = map[string]User{"root": {}}
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // other users must reach it
		t.Fatal(err)
	}
	s := &Server{Dir: dir, Config: dir + "/ssh_config", Known: dir + "/known_hosts", Key: dir + "/user_key"}
	hostKey, userKey := writeKey(t, dir+"/host_key"), writeKey(t, s.Key)
	s.write(t, "authorized_keys", userKey+"\n", 0o644)
	s.write(t, "known_hosts", "far "+hostKey+"\n", 0o600)
	argv := s.server(t, o)
	if o.Proxy {
		o.Client += "ProxyCommand " + strings.Join(argv, " ") + "\n"
	} else {
		if o.Listener == nil {
			o.HostName = "127.0.0.1"
		}
		s.Port = s.listen(t, argv, o.Listener)
		o.Client += fmt.Sprintf("Port %d\n", s.Port)
	}
	// A post-quantum exchange of keys takes a third of the processor time of a login.
	s.write(t, "ssh_config", fmt.Sprintf(`Host *
KexAlgorithms curve25519-sha256
HostName %s
HostKeyAlias far
UserKnownHostsFile %s
GlobalKnownHostsFile /dev/null
IdentityFile %s
IdentitiesOnly yes
IdentityAgent none
StrictHostKeyChecking yes
User %s
%s`, o.HostName, s.Known, s.Key, slices.Min(slices.Collect(maps.Keys(o.Users))), o.Client), 0o600)
	return s
}

// Command returns the value of LINERATE_SSH for this server.
func (s *Server) Command() []string { return []string{"ssh", "-F", s.Config} }

// Home returns the home directory of a user.
func (s *Server) Home(user string) string { return filepath.Join(s.Dir, "home", user) }

// PIDs returns the processes that were started for connections, in order.
func (s *Server) PIDs() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pids)
}

// server writes the server's files and returns its command.
func (s *Server) server(t testing.TB, o Options) []string {
	passwd := []string{"sshd:x:100:65534::/run/sshd:/usr/sbin/nologin"}
	for name, u := range o.Users {
		shell := cmp.Or(u.Shell, "/bin/sh")
		passwd = append(passwd, fmt.Sprintf("%s:x:%d:%d::%s:%s", name, u.UID, u.UID, s.Home(name), shell))
		s.home(t, name, u)
	}
	if _, ok := o.Users["root"]; !ok {
		passwd = append(passwd, "root:x:0:0::/root:/bin/sh")
	}
	s.write(t, "passwd", lines(passwd), 0o644)
	config := []string{fmt.Sprintf("HostKey %s/host_key\nAuthorizedKeysFile %s/authorized_keys\nStrictModes no\nUsePAM no\n"+
		"PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\nPidFile none\n%s", s.Dir, s.Dir, o.Sshd)}
	if len(o.Env) > 0 { // one line: sshd uses only the first of several
		var env []string
		for key, value := range o.Env {
			env = append(env, key+"="+value)
		}
		config = append(config, "SetEnv "+strings.Join(env, " "))
	}
	s.write(t, "sshd_config", lines(config), 0o600)
	setup := []string{"set -e", "mount --make-rprivate /", "mount -t tmpfs none /run", "mkdir /run/sshd", "mount --bind " + s.Dir + "/passwd /etc/passwd"}
	for i, path := range slices.Sorted(maps.Keys(o.Mount)) {
		file := fmt.Sprintf("mount%d", i)
		s.write(t, file, o.Mount[path], 0o440)
		setup = append(setup, fmt.Sprintf("mount --bind %s/%s %s", s.Dir, file, path))
	}
	setup = append(setup, o.Setup, fmt.Sprintf("exec %s -i -f %s/sshd_config -E %s/sshd.log", program, s.Dir, s.Dir))
	s.write(t, "start", lines(setup), 0o700)
	argv := []string{"unshare", "-m", "sh", s.Dir + "/start"}
	if o.Namespace != "" {
		argv = append([]string{"ip", "netns", "exec", o.Namespace}, argv...)
	}
	t.Cleanup(func() {
		if log, err := os.ReadFile(s.Dir + "/sshd.log"); err == nil && t.Failed() {
			t.Logf("sshd said:\n%s", log)
		}
	})
	return argv
}

func lines(all []string) string { return strings.Join(all, "\n") + "\n" }

func (s *Server) home(t testing.TB, name string, u User) {
	if err := os.MkdirAll(s.Home(name), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range u.Files {
		path := filepath.Join(s.Home(name), file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.Chmod(filepath.Dir(s.Home(name)), 0o755) // the parent of all homes
	err := filepath.WalkDir(s.Home(name), func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, u.UID, u.UID)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *Server) write(t testing.TB, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.Dir, name), []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// listen starts argv for each connection to l, or to a port on the loopback address if l is nil.
func (s *Server) listen(t testing.TB, argv []string, l net.Listener) int {
	if l == nil {
		var err error
		if l, err = new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	// The test's context ends before its sessions are closed cleanly.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() {
		_ = l.Close()
		cancel()
		all.Wait()
	})
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { s.serve(ctx, c, argv) })
		}
	})
	return l.Addr().(*net.TCPAddr).Port
}

func (s *Server) serve(ctx context.Context, c net.Conn, argv []string) {
	f, err := c.(*net.TCPConn).File()
	_ = c.Close()
	if err != nil {
		return
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout = f, f
	err = cmd.Start()
	_ = f.Close()
	if err != nil {
		return
	}
	s.mu.Lock()
	s.pids = append(s.pids, cmd.Process.Pid)
	s.mu.Unlock()
	_ = cmd.Wait()
}

// writeKey writes an Ed25519 key in OpenSSH's format (PROTOCOL.key of its source) and returns
// the public key in the format of known_hosts.
func writeKey(t testing.TB, path string) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	str := func(parts ...[]byte) []byte {
		var out []byte
		for _, p := range parts {
			out = append(binary.BigEndian.AppendUint32(out, uint32(len(p))), p...)
		}
		return out
	}
	blob := str([]byte("ssh-ed25519"), public)
	inner := append([]byte("chckchck"), str([]byte("ssh-ed25519"), public, private, []byte("test"))...)
	for i := byte(1); len(inner)%8 != 0; i++ {
		inner = append(inner, i)
	}
	text := append([]byte("openssh-key-v1\x00"), str([]byte("none"), []byte("none"), nil)...)
	text = binary.BigEndian.AppendUint32(text, 1)
	text = append(text, str(blob, inner)...)
	block := pem.EncodeToMemory(&pem.Block{Type: "OPENSSH PRIVATE KEY", Bytes: text})
	if err := os.WriteFile(path, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return "ssh-ed25519 " + base64.StdEncoding.EncodeToString(blob)
}

// Forget replaces the server's key in the client's known_hosts by another one.
func (s *Server) Forget(t testing.TB) {
	t.Helper()
	s.write(t, "known_hosts", "far "+writeKey(t, s.Dir+"/other_key")+"\n", 0o600)
}

// Children returns the processes below pid, itself included, parents first.
func Children(pid int) []int {
	parents := map[int]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if p, err := strconv.Atoi(e.Name()); err == nil {
			parents[p] = parent(p)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		for p, of := range parents {
			if of == all[i] {
				all = append(all, p)
			}
		}
	}
	return all
}

// parent returns the parent of a process (proc_pid_stat(5), field 4).
func parent(pid int) int {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	if fields := strings.Fields(rest); len(fields) > 1 {
		of, _ := strconv.Atoi(fields[1])
		return of
	}
	return 0
}
