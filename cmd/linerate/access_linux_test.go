package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/host/referee"
	"linerate/internal/must"
)

// addKey makes a key on the far host and returns its link in a file.
func (n *netns) addKey(t testing.TB, name string, more ...string) (link, file string) {
	t.Helper()
	r := run(t, n.inside(t, "far", append([]string{"serve", "key", "add", name, "--state", n.state("far"), "--json"}, more...)...))
	err := validate("linerate/key/v1", r.out)
	must.Need(t, err == nil && r.code == 0, "exit code %d, %v\n%s%s", r.code, err, r.out, r.err)
	link = decode[struct {
		Link string `json:"link"`
	}](t, r.out).Link
	file = filepath.Join(n.dir, name+".link")
	must.Do(t, os.WriteFile(file, []byte(link+"\n"), 0o600))
	return link, "@" + file
}

// audited returns the lines of an audit log.
func audited(t testing.TB, path string) (all []map[string]any) {
	t.Helper()
	f := must.Get(os.Open(path))(t)
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		var m map[string]any
		must.Dof(t, json.Unmarshal(s.Bytes(), &m), "%s", s.Text())
		all = append(all, m)
	}
	return all
}

// tells reports whether a line has all fields of want, "NAME=VALUE ...".
func tells(lines []map[string]any, want string) bool {
	return slices.ContainsFunc(lines, func(m map[string]any) bool {
		for w := range strings.FieldsSeq(want) {
			name, value, _ := strings.Cut(w, "=")
			if fmt.Sprint(m[name]) != value {
				return false
			}
		}
		return true
	})
}

// asBefore waits until both hosts have their old values, while a server runs on.
func (n *netns) asBefore(t testing.TB) {
	t.Helper()
	must.Until(t, "the values of before", func() bool { return n.bothKnobs(t) == n.before })
}

// status reads a line of /proc/PID/status.
func status(t testing.TB, pid int, name string) string {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status")))(t)
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.Join(strings.Fields(v), " ")
		}
	}
	return ""
}

// daemon returns the processes of the server on the far host: the listener and its tuner.
func (n *netns) daemon(t testing.TB) (listener, tuner int) {
	t.Helper()
	for _, pid := range netnsPIDs(n.far) {
		b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if err != nil {
			continue
		}
		switch words := strings.Split(string(b), "\x00"); {
		case len(words) > 1 && words[1] == "serve":
			listener = pid
		case len(words) > 1 && words[1] == "tuner":
			tuner = pid
		}
	}
	return listener, tuner
}

// TestServeKeys: a key gets in by its link in a file and in the environment, is cut off when it
// is revoked, and all of it is in the audit log.
func TestServeKeys(t *testing.T) {
	n := netnsBeside(t)
	log := filepath.Join(n.dir, "audit.log")
	server, _ := n.serve(t, "--audit", log)
	link, file := n.addKey(t, "ci")
	sane(t, n.look(t, file, "--json"))

	look := n.inside(t, "near", "test", "@", "-t", "0.4s", "-i", "0.2s", "--omit", "0s", "--idle", "0s", "-q", "--json")
	look.Env = append(look.Env, "LINERATE_LINK="+link)
	sane(t, run(t, look))

	must.Do(t, os.Chmod(strings.TrimPrefix(file, "@"), 0o644))
	run(t, n.inside(t, "near", "facts", file)).ends(t, 0, "others may read it: chmod 600") // a link that others may read

	r := run(t, n.inside(t, "far", "serve", "key", "list", "--state", n.state("far"), "--json"))
	err := validate("linerate/keys/v1", r.out)
	must.True(t, err == nil && strings.Count(r.out, `"state": "valid"`) == 2, "%v\n%s%s", err, r.out, r.err)

	p := start(t, n.inside(t, "near", "test", file, "--to", "-t", "1m"))
	enough := n.received(t) + 10e6
	must.Until(t, "traffic", func() bool { return n.received(t) > enough })
	r = run(t, n.inside(t, "far", "serve", "key", "revoke", "ci", "--state", n.state("far")))
	must.True(t, r.code == 0 && r.out == "key ci is revoked\n", "exit code %d\n%s%s", r.code, r.out, r.err)
	p.wait(t, patience).ends(t, 3, "the key was revoked or has expired") // a session whose key was revoked
	n.look(t, file).ends(t, 3, "the secret is wrong")                    // a revoked key
	must.Do(t, os.Rename(log, log+".1"))                                 // as logrotate does
	again, _ := n.addKey(t, "ci", "--expires", "1h")
	must.True(t, again != link, "the same secret again")
	server.signal(t, syscall.SIGHUP)
	server.signal(t, syscall.SIGTERM)
	r = server.wait(t, patience)
	must.True(t, r.code == 0 && !strings.Contains(r.err, again), "exit code %d\n%s", r.code, r.err)
	lines := audited(t, log+".1")
	for _, want := range []string{
		"event=started", "event=session-begin key=ci address=10.77.0.1", "event=run-begin key=ci engine=tcpbulk direction=to",
		"event=run-end key=ci direction=from outcome=ok", "event=session-end key=ci outcome=ok", "event=session-end key=ci outcome=cut",
		"event=refused address=10.77.0.1 outcome=denied",
	} {
		must.True(t, tells(lines, want), "the audit log has no %s", want)
	}
	for _, file := range []string{log + ".1", log} {
		b, err := os.ReadFile(file)
		must.True(t, err != nil || !strings.Contains(string(b), "linerate://"), "%s has a secret", file)
	}
	// A later start shows no secret.
	later, _ := n.serve(t, "--open")
	if regexp.MustCompile(`linerate://[^@\s]*[.]`).MatchString(later.said()) { // PIN.SECRET@HOST
		t.Errorf("a later start says\n%s", later.said())
	}
	later.signal(t, syscall.SIGTERM)
	later.wait(t, patience)
}

// TestServeTune: only a key with that right changes settings of a server's host; the listening
// process has no privileges of its own.
func TestServeTune(t *testing.T) {
	n := netnsBeside(t)
	log := filepath.Join(n.dir, "audit.log")
	server, first := n.serve(t, "--allow-tune", "--audit", log)
	_, ops := n.addKey(t, "ops", "--right", "tune")
	listener, tuner := n.daemon(t)
	must.Need(t, listener != 0 && tuner != 0, "no listener, or no tuner")
	uid, caps := status(t, listener, "Uid"), status(t, listener, "CapEff")
	must.True(t, !strings.HasPrefix(uid, "0 ") && strings.Trim(caps, "0") == "" && status(t, listener, "NoNewPrivs") == "1", "what listens is user %s with capabilities %s", uid, caps)
	run(t, n.inside(t, "near", setArgs(first.String(), "--for", "3s")...)).ends(t, 4, "nothing can be set on 10.77.0.2: ") // a key that may measure
	if r := run(t, n.inside(t, "near", setArgs(ops, "--for", "1s", "--json")...)); r.code != 0 || strings.Count(r.out, `"state": "undone"`) != 2 {
		t.Errorf("exit code %d\n%s%s", r.code, r.out, r.err)
	}
	n.asBefore(t)

	r := run(t, n.inside(t, "near", "run", "--far", ops, "--factor", "far.tcp.recv_buffer_max=64KiB", "--blocks", "2",
		"-t", "0.2s", "-i", "0.2s", "--omit", "0s", "--settle", "0s", "--no-twin", "--json", "-q"))
	d := decode[document](t, r.out)
	must.True(t, (r.code == 0 || r.code == 5) && len(d.Session.Changes) != 0, "run over a server: exit code %d, %d changes\n%s", r.code, len(d.Session.Changes), r.err)
	n.asBefore(t)

	// A person confirms over a separate connection, and undoes it later.
	tt := onTerminal(t, n.inside(t, "near", setArgs(ops)...))
	tt.asked(t, "y\n")
	tt.wait(t, patience).ends(t, 0)
	n.changed(t, false, true)
	r = run(t, n.inside(t, "near", "undo", ops))
	must.True(t, r.code == 0 && strings.Count(r.out, ": back to ") == 2, "undo: exit code %d\n%s%s", r.code, r.out, r.err)
	n.asBefore(t)
	server.signal(t, syscall.SIGTERM)
	server.wait(t, patience).ends(t, 0)
	lines := audited(t, log)
	for _, want := range []string{
		"event=change key=ops address=10.77.0.1 knob=tcp.sack old=1 new=0 outcome=ok", "event=undo key=ops knob=tcp.sack old=0 new=1 outcome=ok",
		"event=confirm key=ops outcome=ok",
	} {
		must.True(t, tells(lines, want), "the audit log has no %s", want)
	}

	// Without --allow-tune the same key measures.
	plain, _ := n.serve(t, "--open")
	r = run(t, n.inside(t, "near", setArgs(ops, "--for", "3s")...)).ends(t, 4, "nothing can be set on 10.77.0.2: ") // without --allow-tune
	plain.signal(t, syscall.SIGTERM)
	plain.wait(t, patience)
	n.asBefore(t)
}

// TestServeTuneKilled kills the parts of a server while a change is held, each in turn and both
// at once, and revokes the key: the change is always undone.
func TestServeTuneKilled(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(t *testing.T, n *netns, listener, tuner int){
		"listener": func(_ *testing.T, _ *netns, listener, _ int) { _ = syscall.Kill(listener, syscall.SIGKILL) },
		"tuner":    func(_ *testing.T, _ *netns, _, tuner int) { _ = syscall.Kill(tuner, syscall.SIGKILL) },
		"both": func(_ *testing.T, _ *netns, listener, tuner int) {
			_ = syscall.Kill(tuner, syscall.SIGKILL)
			_ = syscall.Kill(listener, syscall.SIGKILL)
		},
		"revoked": func(t *testing.T, n *netns, _, _ int) {
			run(t, n.inside(t, "far", "serve", "key", "revoke", "ops", "--state", n.state("far"))).ends(t, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetns(t)
			server, _ := n.serve(t, "--allow-tune")
			_, ops := n.addKey(t, "ops", "--right", "tune")
			p := start(t, n.inside(t, "near", setArgs(ops, "--for", "10m")...))
			n.changed(t, false, true)
			listener, tuner := n.daemon(t)
			kill(t, n, listener, tuner)
			n.changed(t, false, false)
			n.asBefore(t)
			_ = p.cmd.Process.Kill()
			_ = server.cmd.Process.Kill()
			p.wait(t, patience)
			server.wait(t, patience)
			must.Until(t, "the end of all processes", func() bool { return len(netnsPIDs(n.far)) == 0 })
		})
	}
}

// TestPrintUnit lets systemd itself check the units, if it is installed.
func TestPrintUnit(t *testing.T) {
	t.Parallel()
	judge := referee.Program(t, "systemd-analyze")
	for name, c := range map[string]struct {
		args, has, not []string
	}{
		"measure": {[]string{"serve"}, []string{"DynamicUser=yes", "\nCapabilityBoundingSet=\n", "ProtectSystem=strict", " serve\n"}, []string{"ExecReload"}},
		"tune": {[]string{"serve", "--allow-tune", "--audit", "/var/log/linerate/100%.log", "--state", "/x"},
			[]string{"CAP_NET_ADMIN", "ProtectSystem=yes", " --allow-tune=true --audit=/var/log/linerate/100%%.log\n", "ExecReload="}, []string{"DynamicUser", "--state"}},
		"low port": {[]string{"serve", "--listen", ":443", "--host", "a b"}, []string{"AmbientCapabilities=CAP_NET_BIND_SERVICE", `"--host=a b" --listen=:443`}, nil},
		"hub":      {[]string{"hub", "--rounds", "12", "--metrics", ":9101"}, []string{"DynamicUser=yes\nUser=linerate\n", " hub --metrics=:9101 --rounds=12\n"}, nil},
		"agent":    {[]string{"agent", "--hub", "linerate://a.b@c:1", "--quiet-hours", "08:00-18:00"}, []string{"User=linerate\n", " agent --hub=linerate://a.b@c:1 --quiet-hours=08:00-18:00\n"}, []string{"CAP_"}},
		"link":     {[]string{"agent", "--hub", "@/etc/x.link"}, []string{" agent --hub=@${CREDENTIALS_DIRECTORY}/hub.link\n", "LoadCredential=hub.link:/etc/x.link\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			unit := succeed(t, append(c.args, "--print-unit")...).out
			has(t, "unit", unit, append(c.has, "NoNewPrivileges=yes", "ExecStart="+binary+" "+c.args[0])...)
			must.True(t, !slices.ContainsFunc(c.not, func(s string) bool { return strings.Contains(unit, s) }), "it has one of %q\n%s", c.not, unit)
			file := filepath.Join(t.TempDir(), "linerate.service")
			must.Do(t, os.WriteFile(file, []byte(unit), 0o600))
			out, err := referee.Command(t, judge, "verify", "--man=no", "--generators=no", file).CombinedOutput()
			for line := range strings.Lines(string(out)) {
				must.True(t, !strings.Contains(line, filepath.Base(file)), "systemd: %s", line)
			}
			t.Logf("%v\n%s", err, out)
		})
	}
}

// TestKeysOfAServerOfAnotherUser: root manages the keys of a server that systemd runs as another
// user, with that user's rights and nothing else.
func TestKeysOfAServerOfAnotherUser(t *testing.T) {
	rootBeside(t)
	const nobody = 61234
	dir := filepath.Join(t.TempDir(), "private") // closed to that user, as /var/lib/private is
	state := filepath.Join(dir, "linerate")
	must.Do(t, os.MkdirAll(state, 0o700))
	must.Do(t, os.Chown(state, nobody, nobody))
	r := run(t, command(t, "serve", "key", "add", "anna", "--state", state))
	must.Need(t, r.code == 0 && strings.Contains(r.err, "as user 61234") && strings.Contains(r.out, "linerate://"), "exit code %d\n%s%s", r.code, r.out, r.err)
	made := 0
	err := filepath.WalkDir(state, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		made++
		must.Equal(t, info.Sys().(*syscall.Stat_t).Uid, nobody, "%s belongs to user", path)
		return nil
	})
	must.True(t, err == nil && made >= 4, "%d files: %v", made, err)
	run(t, command(t, "serve", "key", "list", "--state", state)).ends(t, 0).prints(t, "anna")
	// Root does not manage keys in its own directory if others may write there.
	open := filepath.Join(t.TempDir(), "open")
	must.Do(t, os.Mkdir(open, 0o700))
	must.Do(t, os.Chmod(open, 0o777))
	for _, args := range [][]string{{"serve", "key", "add", "anna"}, {"set", "tcp.sack=off", "--for", "1s"}, {"undo"}, {"keep", "--list"}} {
		run(t, newNetns(t).inside(t, "near", append(args, "--state", open)...)).ends(t, 4, "may be written by others") // a directory that every user may write
	}
}

// TestServeSharesItsPort: even after it has become another user a server has one UDP port, so
// that one firewall rule covers it.
func TestServeSharesItsPort(t *testing.T) {
	n := netnsBeside(t)
	_, link := n.serve(t)
	p := start(t, n.inside(t, "near", "test", link.String(), "--to", "--udp", "-b", "10M", "-t", "1m", "--omit", "0s", "--idle", "0s", "-q"))
	var sockets string
	must.Until(t, "a UDP socket of the run at "+serverAddr, func() bool {
		sockets = ip(t, "netns", "exec", n.far, "ss", "-Hun")
		return strings.Contains(sockets, serverAddr+" ") && strings.Contains(sockets, nearAddr+":") || len(p.done) > 0
	})
	must.Contain(t, sockets, serverAddr+" ", "the run's sockets")
	p.signal(t, os.Interrupt)
	p.wait(t, patience).ends(t, 130)
}
