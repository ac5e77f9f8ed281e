package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/control/wire/ssh/sshtest"
	"linerate/internal/must"
	"linerate/internal/report/browsertest"
)

// overSSH makes the far host reachable as root@far, with an sshd in its namespace.
func (n *netns) overSSH(t testing.TB) *sshtest.Server {
	t.Helper()
	must.Do(t, os.Mkdir(n.sshTemp(), 0o700))
	return sshtest.Start(t, sshtest.Options{
		Namespace: n.far, Proxy: true, HostName: farAddr,
		Env: map[string]string{"LINERATE_STATE": n.state("far"), "TMPDIR": n.sshTemp(), "PATH": n.sshPath() + ":" + os.Getenv("PATH")},
	})
}

// install puts the program into the far PATH of overSSH, so that it is not copied.
func (n *netns) install(t testing.TB) {
	t.Helper()
	must.Do(t, os.Mkdir(n.sshPath(), 0o700))
	must.Do(t, os.Symlink(binary+"-agent", filepath.Join(n.sshPath(), "linerate")))
}

// sshPath returns a folder of the far PATH.
func (n *netns) sshPath() string { return filepath.Join(n.dir, "bin") }

// sshTemp returns the temporary folder of the far host.
func (n *netns) sshTemp() string { return filepath.Join(n.dir, "tmp") }

// copies returns the directories that linerate made there.
func (n *netns) copies(t testing.TB) []string {
	t.Helper()
	return must.Get(filepath.Glob(n.sshTemp() + "/*"))(t)
}

func withSSH(cmd *exec.Cmd, s *sshtest.Server) *exec.Cmd {
	cmd.Env = append(cmd.Env, "LINERATE_SSH="+strings.Join(s.Command(), " "))
	return cmd
}

// compareOverSSH is compareArgs with the far host behind ssh.
func (n *netns) compareOverSSH(blocks int, more ...string) []string {
	args := n.compareArgs(blocks, more...)
	args[slices.Index(args, "--far")+1] = "root@far"
	return args
}

// TestSSH measures to a host that has only an ssh server, and leaves nothing else behind.
func TestSSH(t *testing.T) {
	n := netnsBeside(t)
	s := n.overSSH(t)
	r := run(t, withSSH(n.inside(t, "near", "test", "root@far", "-t", "0.5s", "--omit", "0s", "--idle", "0s", "--json"), s))
	must.True(t, r.code == 0 && strings.Contains(r.out, "the data connections do not go there but straight to "+farAddr), "exit code %d\n%s%s", r.code, r.out, r.err)
	got := n.session(t)
	must.True(t, got.Far == "root@far" && len(got.Runs) != 0, "stored: %s, %d runs", got.Far, len(got.Runs))
	n.restored(t)
	home, err := os.ReadDir(s.Home("root"))
	left := n.copies(t)
	must.True(t, len(left)+len(home) == 0 && err == nil, "left: %q, home %v, %v", left, home, err)
	must.Fail(t, must.Err(os.Stat(n.state("far"))), "a journal where nothing was changed")
	r = run(t, withSSH(n.command(t, "undo", "root@far"), s))
	must.True(t, r.code == 0 && r.out == "nothing to undo\n", "undo: exit code %d\n%s%s", r.code, r.out, r.err)
}

// TestSSHBlackHole: a router between the hosts silently drops full packets. The error names
// this as the reason why ssh hangs in its key exchange, with the size that passes and a hint
// that works.
func TestSSHBlackHole(t *testing.T) {
	rootBeside(t)
	n := narrowRouter(t, "1300", "1500", true)
	s := sshtest.Start(t, sshtest.Options{Namespace: n.far, HostName: farAddr, Listener: listenIn(t, n.far), Env: map[string]string{"LINERATE_STATE": n.state("far")}})
	test := func() result {
		return run(t, withSSH(n.inside(t, "near", "test", "root@far", "-t", "0.2s", "--omit", "0s", "--idle", "0s", "--to", "--timeout", "1m"), s))
	}
	r := test()
	must.Need(t, r.code == 3 && strings.Contains(r.err, "hangs in its key exchange") && strings.Contains(r.err, "packets of 1300 bytes pass, and v0 sends 1500") && strings.Contains(r.err, "linerate set link.mtu=1300 --interface v0"), "exit code %d\n%s%s", r.code, r.out, r.err)
	ip(t, "-n", n.near, "link", "set", "v0", "mtu", "1300")
	test().ends(t, 0)
}

// TestSSHDrops kills ssh, and the sshd of the connection, while the far host is changed: its
// settings are restored, its directory is removed, and the session goes on over a new
// connection.
func TestSSHDrops(t *testing.T) {
	t.Parallel()
	beside(t, map[string]func(*testing.T){
		"ssh":  func(t *testing.T) { sshDrops(t, "ssh -F") },
		"sshd": func(t *testing.T) { sshDrops(t, "sshd: root@notty") },
	})
}

func sshDrops(t testing.TB, victim string) {
	n := newNetns(t)
	s := n.overSSH(t)
	p := start(t, withSSH(n.command(t, n.compareOverSSH(2, "-t", "1s", "--settle", "0s", "--baseline", "8KiB", "--no-twin")...), s))
	must.Until(t, "the far host is changed", func() bool { return n.knobs(t, "far") != n.before.far })
	first := n.copies(t)
	must.Need(t, len(first) == 1, "during the session: %q", first)
	for _, pid := range sshtest.Children(p.cmd.Process.Pid) {
		line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		text := strings.ReplaceAll(string(line), "\x00", " ")
		if strings.HasPrefix(text, victim) {
			must.Do(t, syscall.Kill(pid, syscall.SIGKILL))
			break
		}
	}
	must.Until(t, "the directory of the first connection is gone", func() bool { return !slices.Contains(n.copies(t), first[0]) })
	r := p.wait(t, patience)
	must.True(t, r.code == 0 || r.code == 5, "exit code %d\n%s%s", r.code, r.out, r.err)
	n.restored(t)
	must.Len(t, n.copies(t), 0, "left")
}

// TestSSHTerminal types the passphrase of a key into ssh's own prompt on a terminal, and
// presses Ctrl-C there while the far host is changed: ssh must survive it, since it carries the
// undo of the far host.
func TestSSHTerminal(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"script", "ssh-keygen"} {
		needProgram(t, program)
	}
	n := newNetns(t)
	s := n.overSSH(t)
	out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-p", "-N", "open sesame", "-f", s.Key).CombinedOutput()
	must.Need(t, err == nil, "%v: %s", err, out)
	words := append([]string{binary}, n.compareOverSSH(2, "-t", "1m", "--settle", "0s", "--baseline", "8KiB", "--no-twin")...)
	for i, w := range words {
		words[i] = "'" + w + "'"
	}
	cmd := withSSH(n.prepare(exec.CommandContext(t.Context(), "script", "-qfec", strings.Join(words, " "), "/dev/null")), s)
	keys := must.Get(cmd.StdinPipe())(t)
	p := start(t, cmd)
	press := func(text string) { must.Get(io.WriteString(keys, text))(t) }
	asked := func(times int) func() bool {
		return func() bool { return strings.Count(p.said(), "Enter passphrase for key") >= times }
	}
	must.Until(t, "the question for the passphrase", asked(1))
	press("\x1a") // Ctrl-Z: only ssh would stop, and nothing could resume it
	must.Until(t, "the question again", asked(2))
	press("open sesame\n")
	must.Until(t, "the question whether it may stay", func() bool { return strings.Contains(p.said(), "leave linerate (") })
	press("n\n")
	must.Until(t, "the far host is changed\n"+p.said(), func() bool { return n.knobs(t, "far") != n.before.far })
	press("\x03")
	r := p.wait(t, patience)
	must.True(t, r.code == 130 && !strings.Contains(r.out, "contact lost"), "exit code %d\n%s", r.code, r.out)
	n.restored(t)
	must.Len(t, n.copies(t), 0, "left")
	b := must.Get(os.ReadFile(filepath.Join(n.dir, "config", "kept_programs")))(t)
	must.True(t, string(b) == "root@far remove\n", "remembered %q", b)
	// Ctrl-C at ssh's prompt ends the command. ssh only notes a signal that arrives between its
	// prompt and its read (readpassphrase(3)), so press it as a user does: until it has an effect.
	cmd = withSSH(n.prepare(exec.CommandContext(t.Context(), "script", "-qfec", binary+" undo root@far", "/dev/null")), s)
	keys = must.Get(cmd.StdinPipe())(t)
	p = start(t, cmd)
	must.Until(t, "the question, and that linerate waits", func() bool {
		return asked(1)() && strings.Contains(p.said(), "if ssh asks above")
	})
	must.Until(t, "the end", func() bool {
		_, _ = io.WriteString(keys, "\x03")
		return len(p.done) > 0
	})
	p.wait(t, patience).ends(t, 130)
}

// TestSSHSudo types the password of sudo, first a wrong one, into linerate's own prompt, and
// requires that it is never shown.
func TestSSHSudo(t *testing.T) {
	t.Parallel()
	sshtest.Need(t)
	for _, program := range []string{"script", "sudo", "openssl"} {
		needProgram(t, program)
	}
	hash := must.Get(exec.CommandContext(t.Context(), "openssl", "passwd", "-6", "open sesame").Output())(t)
	s := sshtest.Start(t, sshtest.Options{
		Users: map[string]sshtest.User{"someone": {UID: 4242}},
		Mount: map[string]string{
			"/etc/shadow":  "root:*:20000:0:99999:7:::\nsomeone:" + strings.TrimSpace(string(hash)) + ":20000:0:99999:7:::\n",
			"/etc/sudoers": "root ALL=(ALL) ALL\nsomeone ALL=(ALL) ALL\n",
		},
		Setup: "mount -t tmpfs -o mode=755 none /var/lib", // root's journal
	})
	words := "'" + binary + "' undo --sudo someone@far --keep-agent=false"
	cmd := withSSH(exec.CommandContext(t.Context(), "script", "-qfec", words, "/dev/null"), s)
	cmd.Env = append(os.Environ(), cmd.Env...)
	keys := must.Get(cmd.StdinPipe())(t)
	p := start(t, cmd)
	for i, password := range []string{"wrong", "open sesame"} {
		must.Until(t, "the question for the password", func() bool { return strings.Count(p.said(), "password of sudo on far: ") > i })
		must.Get(io.WriteString(keys, password+"\n"))(t)
	}
	r := p.wait(t, patience)
	must.True(t, r.code == 0 && strings.Contains(r.out, "nothing to undo") && !strings.Contains(r.out, "sesame"), "exit code %d\n%s", r.code, r.out)
}

// TestFirstHour21CopyIsTold: the first copy of the program over ssh is reported, and a copy
// that may stay is not made again.
func TestFirstHour21CopyIsTold(t *testing.T) {
	n := netnsBeside(t)
	s := n.overSSH(t)
	run(t, withSSH(n.inside(t, "near", "facts", "root@far", "--keep-agent"), s)).ends(t, 0, "copying linerate to far (")
	again := run(t, withSSH(n.inside(t, "near", "facts", "root@far"), s))
	must.True(t, again.code == 0 && !strings.Contains(again.err, "copying"), "exit code %d\n%s", again.code, again.err)
}

// pageOf starts linerate ui, and returns it with its link.
func pageOf(t testing.TB, db string) (*exec.Cmd, string) {
	t.Helper()
	cmd := command(t, "ui", "--no-open", "--db", db)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	link, err := bufio.NewReader(out).ReadString('\n')
	must.Dof(t, err, "no link")
	return cmd, strings.TrimSpace(link)
}

// TestPageShowsWhatIsMeasured: an experiment in a lab that begins while the page is open
// appears in the list, its runs appear as they are measured, without a reload, and its report
// is that of linerate report. An open page does not delay the end.
func TestPageShowsWhatIsMeasured(t *testing.T) {
	labBeside(t)
	b := browsertest.Start(t)
	db := filepath.Join(t.TempDir(), "results.db")
	page, link := pageOf(t, db)
	root, _, _ := strings.Cut(link, "/open/")
	p := b.Open(t, link, browsertest.View{Width: browsertest.Desk})
	p.Until("document.getElementById('state')?.textContent.startsWith('live')")
	p.Until("document.body.innerText.includes('No session is stored yet')")

	session := command(t, "run", "lab:rate=100mbit,rtt=2ms", "--factor", "window=32KiB,256KiB", "--blocks", "4", "-t", "1s", "--omit", "0", "--settle", "0", "--no-twin", "-q", "--db", db)
	var said bytes.Buffer
	session.Stdout, session.Stderr = &said, &said
	must.Do(t, session.Start())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the session said %q", said.String())
		}
	})
	p.Until("document.querySelector('.running')")
	browsertest.Eval[bool](p, "(document.querySelector('#part a[href*=session]').focus(), true)")
	p.Enter()
	p.Until("location.pathname.includes('/session/')")
	p.Until("document.getElementById('state')?.textContent.startsWith('live')")
	browsertest.Eval[bool](p, "window.loaded = true")
	// Rates appear inside a run, before it is stored.
	p.Until("document.querySelector('#now td.n')?.textContent.endsWith('bit/s')")
	const count = "Number(document.body.innerText.match(/([0-9]+) of at most/)[1])"
	p.Until(count + " > " + strconv.Itoa(browsertest.Eval[int](p, count)))
	err := session.Wait()
	must.Need(t, err == nil, "the session: %v\n%s", err, said.String())
	p.Until("document.getElementById('state').textContent == ''")
	must.True(t, browsertest.Eval[bool](p, "window.loaded === true && !document.querySelector('.running')"), "the page was loaded again, or says that the session runs")
	for _, x := range p.Problems() {
		t.Errorf("the console says %s", x)
	}
	id := browsertest.Eval[string](p, "location.pathname.split('/').pop()")
	p.Go(root + "/report/" + id)
	shown := browsertest.Eval[string](p, "fetch(location).then(r => r.text()).catch(e => String(e))")
	want := succeed(t, "report", id, "-o", "-", "--db", db).out
	must.True(t, shown == want, "the page has another report than linerate report: %d and %d bytes, it begins with %.200s", len(shown), len(want), shown)

	p.Go(root + "/")
	p.Until("document.getElementById('state')?.textContent.startsWith('live')")
	must.Do(t, page.Process.Signal(os.Interrupt))
	must.OK(t, page.Wait(), "it ended with")
}

// TestPageIsForItsUser: the answers to other programs of this machine, and to requests under
// other host names.
func TestPageIsForItsUser(t *testing.T) {
	t.Parallel()
	page, link := pageOf(t, filepath.Join(t.TempDir(), "results.db"))
	root, _, _ := strings.Cut(link, "/open/")
	for host, want := range map[string]int{"": http.StatusForbidden, "linerate.example": http.StatusMisdirectedRequest} {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, root+"/", http.NoBody))(t)
		r.Host = host
		answer := must.Get(http.DefaultClient.Do(r))(t)
		_ = answer.Body.Close()
		must.Equal(t, answer.StatusCode, want, "host %q", host)
	}
	must.Do(t, page.Process.Signal(os.Interrupt))
	must.OK(t, page.Wait(), "it ended with")
}
