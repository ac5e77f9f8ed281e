package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/control/wire/ssh/sshtest"
	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	"linerate/internal/must"
)

// operation is an operation that faults are injected into.
type operation struct {
	name  string
	hosts []string // whose steps a fault may follow
	knobs []model.KnobID
	// begin starts the controller.
	begin func(r *faultRun) *process
	// confirmed makes a confirmed change on the hosts first, which the operation undoes.
	confirmed bool
	keeps     bool // it may end with a confirmed change
	// older makes another confirmed change first, which this one partly overlays: it stays,
	// until undo undoes both.
	older bool
	// spare changes the MTU of x0, an unused link of the near host.
	spare bool
	// writes is the end of the text that it writes to a setting, if other than usual.
	writes    map[model.KnobID]string
	inProcess bool // the near agent is in the controller
	document  string
	ssh, link bool // the far host is reached over ssh, or over the changed link itself
}

// heldFor is how long a change is held at first.
const heldFor = 3 * time.Second

func (r *faultRun) tcpArgs(more ...string) []string {
	return append([]string{"set", "tcp.sack=off", "tcp.recv_buffer_max=64KiB", "--json", "--for", r.held.String()}, more...)
}

func operations() []operation {
	tcp := []model.KnobID{rmemKnob, sackKnob}
	return []operation{
		{name: "set near", hosts: []string{"near"}, knobs: tcp, inProcess: true, document: "linerate/set/v1",
			begin: func(r *faultRun) *process { return start(r.t, r.controller("near", r.tcpArgs()...)) }},
		{name: "set far", hosts: []string{"far"}, knobs: tcp, inProcess: true, document: "linerate/set/v1",
			begin: func(r *faultRun) *process { return start(r.t, r.controller("near", r.tcpArgs(r.target("far"))...)) }},
		{name: "set both", hosts: []string{"near", "far"}, knobs: tcp, inProcess: true, document: "linerate/set/v1",
			begin: func(r *faultRun) *process {
				return start(r.t, r.controller("near", r.tcpArgs("--both", r.target("far"))...))
			}},
		{name: "keep", hosts: []string{"near", "far"}, knobs: tcp, inProcess: true, keeps: true, document: "linerate/set/v1", begin: (*faultRun).keep},
		{name: "keep over an older change", hosts: []string{"near", "far"}, knobs: tcp, inProcess: true, keeps: true, older: true,
			writes: map[model.KnobID]string{sackKnob: "1"}, document: "linerate/set/v1", begin: (*faultRun).keepOverOlder},
		{name: "run", hosts: []string{"near", "far"}, knobs: tcp, begin: func(r *faultRun) *process {
			return start(r.t, r.controller("", "run", "--from", r.target("near"), "--far", r.target("far"),
				"--factor", "tcp.recv_buffer_max=64KiB", "--factor", "tcp.sack=off", "--baseline", crashSetting,
				"-w", "16KiB", "-t", "0.1s", "-i", "0.1s", "--omit", "0s", "--settle", "0s", "--blocks", "2", "--no-twin"))
		}},
		{name: "undo near", hosts: []string{"near"}, knobs: tcp, inProcess: true, confirmed: true, document: "linerate/undo/v1",
			begin: func(r *faultRun) *process { return start(r.t, r.controller("near", "undo", "--json")) }},
		{name: "undo far", hosts: []string{"far"}, knobs: tcp, inProcess: true, confirmed: true, document: "linerate/undo/v1",
			begin: func(r *faultRun) *process { return start(r.t, r.controller("near", "undo", "--json", r.target("far"))) }},
		{name: "change over ssh", hosts: []string{"far"}, knobs: tcp, inProcess: true, document: "linerate/set/v1", ssh: true,
			begin: func(r *faultRun) *process { return start(r.t, r.overSSH(r.tcpArgs("root@far")...)) }},
		{name: "change of the link", hosts: []string{"near", "far"}, knobs: []model.KnobID{mtuKnob}, inProcess: true, document: "linerate/set/v1", link: true,
			begin: func(r *faultRun) *process {
				return start(r.t, r.controller("near", "set", "link.mtu=1400", "--both", "--json", "--for", (2*r.held).String(), r.overLink()))
			}},
		{name: "change of a spare link", hosts: []string{"near"}, knobs: []model.KnobID{mtuKnob}, inProcess: true, document: "linerate/set/v1", spare: true,
			begin: func(r *faultRun) *process {
				return start(r.t, r.controller("near", "set", "link.mtu=1400", "--interface", "x0", "--json", "--for", r.held.String()))
			}},
	}
}

// faultRun is one running case.
type faultRun struct {
	*netns
	t      *testing.T
	c      faultCase
	held   time.Duration    // how long an unconfirmed change stays
	gates  map[string]*gate // of the watched hosts
	stop   map[string]int   // after which step
	mounts *mounts

	before map[string]settings
	base   map[string]settings // before anything was confirmed: the result of undo
	older  map[string]int      // earlier confirmed transactions, and their settings on each host
	link   string              // current name of the spare link; "" for none
	says   string              // what a report must say about the link
	others map[string]string   // MTU of links of the near host that linerate may not change
	cgroup string              // of the agent of the case's host
	root   string              // of its system files; "" is the machine's own
	stuck  string              // value of tcp.sack while it accepts none
	lost   bool                // a part of its journal is damaged in both copies
	unread bool                // its journal is from a newer linerate
	kept   bool                // it has records of files that linerate keep wrote
	p      *process
	tty    *terminal
	extra  *process // of another program
	dead   bool     // the controller was killed
	deaf   bool     // its output cannot be read any more
	open   map[string]bool
	// foreign is what another program has written to a host, and after which steps.
	foreignOn    string
	foreignAfter []string
	rebooted     bool
	shut         func() // undoes what the fault did to the host itself
}

// program returns the binary that has gates, if the host has one.
func (r *faultRun) program(host string) string {
	if r.gates[host] != nil {
		return os.Args[0]
	}
	return binary
}

// variables returns the environment of a host's processes.
func (r *faultRun) variables(host string) []string {
	all := []string{"LINERATE_STATE=" + r.state(host), "TMPDIR=" + r.temp(), "NO_COLOR=1"}
	if g := r.gates[host]; g != nil {
		all = append(all, "LINERATE_TEST_MAIN=1", g.variable(r.stop[host]))
		if r.root != "" {
			all = append(all, rootVar+"="+r.root)
		}
	}
	return all
}

// enter returns the command prefix that enters a host; "" is outside both.
func (r *faultRun) enter(host string) []string {
	argv := r.mounts.enter()
	if host != "" {
		argv = append(argv, "ip", "netns", "exec", r.name(host))
	}
	if r.cgroup != "" && host == r.c.host && r.gates[host] != nil {
		argv = append(argv, r.enterPath())
	}
	return argv
}

// controller prepares linerate in a host, "" for outside of both.
func (r *faultRun) controller(host string, args ...string) *exec.Cmd {
	program := binary
	if host != "" {
		program = r.program(host)
	}
	argv := slices.Concat(r.enter(host), []string{program}, args)
	cmd := r.prepare(exec.CommandContext(r.t.Context(), argv[0], argv[1:]...))
	cmd.Env = append(cmd.Env, r.variables(host)...)
	cmd.WaitDelay = 0 // a watchdog that outlives the controller does not write to its pipes
	return cmd
}

// target returns an agent in a host.
func (r *faultRun) target(host string) string {
	addr := map[string]string{"near": nearAddr, "far": farAddr}[host]
	return strings.Join(slices.Concat([]string{"exec:" + addr}, r.agentArgs(host)), " ")
}

func (r *faultRun) agentArgs(host string) []string {
	return slices.Concat(r.enter(host), []string{"env"}, r.variables(host), []string{r.program(host), "agent", "--state", r.state(host)})
}

// overLink returns an agent in the far host behind a TCP connection from the near host.
func (r *faultRun) overLink() string {
	port := r.inetd(r.t, r.agentArgs("far"), os.Environ())
	return fmt.Sprintf("exec:%s env %s=relay=%s:%d %s", farAddr, roleVar, farAddr, port, os.Args[0])
}

// overSSH prepares linerate in the near host with the far host behind ssh.
func (r *faultRun) overSSH(args ...string) *exec.Cmd {
	// The program is already there: TestSSHDrops tests the copying.
	bin := r.dir + "/bin"
	must.Do(r.t, errors.Join(os.MkdirAll(bin, 0o700), os.Symlink(r.program("far"), bin+"/linerate")))
	env := map[string]string{"LINERATE_STATE": r.state("far"), "TMPDIR": r.temp(), "PATH": bin + ":" + os.Getenv("PATH")}
	if g := r.gates["far"]; g != nil {
		name, value, _ := strings.Cut(g.variable(r.stop["far"]), "=")
		env[name], env["LINERATE_TEST_MAIN"] = value, "1"
	}
	s := sshtest.Start(r.t, sshtest.Options{Namespace: r.far, Proxy: true, HostName: farAddr, Env: env})
	cmd := r.controller("near", args...)
	// The program that it looks for there is itself.
	cmd.Args[slices.Index(cmd.Args, r.program("near"))] = r.program("far")
	cmd.Env = append(cmd.Env, "LINERATE_TEST_MAIN=1")
	return withSSH(cmd, s)
}

// keep changes both hosts from a terminal and confirms.
func (r *faultRun) keep() *process {
	return r.confirmOn("tcp.sack=off", "tcp.recv_buffer_max=64KiB", "--both", r.target("far"))
}

// keepOverOlder does the same after tcp.sack=off and another setting were confirmed.
func (r *faultRun) keepOverOlder() *process {
	return r.confirmOn("tcp.sack=on", "tcp.recv_buffer_max=64KiB", "--both", r.target("far"))
}

func (r *faultRun) confirmOn(what ...string) *process {
	args := append([]string{"set", "--json", "--for", "20s"}, what...)
	r.tty = onTerminal(r.t, r.controller("near", args...))
	ended := make(chan struct{})
	r.t.Cleanup(func() { close(ended) })
	go func(tt *terminal) {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			if strings.Contains(tt.shown.String(), "[y/N]") {
				_, _ = tt.master.WriteString("y\n") // it may be closed
				return
			}
		}
	}(r.tty)
	return r.tty.process
}

// changed returns the hosts that the operation changes.
func (o operation) changed() []string { return o.hosts }

// ready prepares the hosts: it confirms the changes that are to be undone, or to stay.
func (r *faultRun) ready() {
	r.t.Helper()
	for _, dir := range []string{r.temp(), r.state("near"), r.state("far")} {
		must.Do(r.t, os.MkdirAll(dir, 0o700))
	}
	if r.c.op.spare {
		ip(r.t, "-n", r.near, "link", "add", "x0", "index", spareIndex, "type", "veth", "peer", "name", "x1")
		r.link = "x0"
	}
	r.before = r.settings()
	r.base = r.before
	r.open = map[string]bool{}
	gates := r.gates
	r.gates = nil // of the operation, not of the preparation
	switch {
	case r.c.op.older:
		r.confirmed("tcp.sack=off", "tcp.timestamps=off", "--both", r.target("far"))
		r.before, r.older = r.settings(), map[string]int{}
		for _, host := range r.c.op.hosts {
			records, _, err := journal.Read(r.mounts.path(r.state(host)))
			for _, o := range journal.ConfirmedIntents(records) {
				r.older[o.Transaction]++
			}
			must.Do(r.t, err)
		}
	case r.c.op.confirmed && r.c.op.hosts[0] == "far":
		r.confirmed("tcp.sack=off", "tcp.recv_buffer_max=64KiB", r.target("far"))
	case r.c.op.confirmed:
		r.confirmed("tcp.sack=off", "tcp.recv_buffer_max=64KiB")
	}
	r.gates, r.tty = gates, nil
}

// confirmed makes a confirmed change, and waits for its end.
func (r *faultRun) confirmed(what ...string) {
	r.t.Helper()
	got := r.confirmOn(what...).wait(r.t, time.Minute)
	must.Need(r.t, got.code == 0, "prepare: exit code %d\n%s%s", got.code, got.out, got.err)
	r.gone("prepare")
}

// written reports whether a text is a value that the operation writes.
func (r *faultRun) written(id model.KnobID, text string) bool {
	ends := map[model.KnobID]string{rmemKnob: "\t65536", sackKnob: "0", mtuKnob: "1400"}
	end, ok := ends[id]
	if own := r.c.op.writes[id]; own != "" {
		end = own
	}
	return ok && strings.HasSuffix(text, end)
}

// claims is what a report says about the settings.
type claims struct {
	Outcome string `json:"outcome"`
	Changes []struct {
		Host  string            `json:"host"`
		Knob  model.KnobID      `json:"knob"`
		State model.ChangeState `json:"state"`
	} `json:"changes"`
}

// claimed reads the report of an operation that has ended; nil for none.
func (r *faultRun) claimed(o operation, got result) *claims {
	r.t.Helper()
	var c claims
	if o.document == "" {
		s, err := r.trySession(r.t)
		if err != nil {
			return nil
		}
		for _, ch := range s.Changes {
			c.Changes = append(c.Changes, struct {
				Host  string            `json:"host"`
				Knob  model.KnobID      `json:"knob"`
				State model.ChangeState `json:"state"`
			}{string(ch.Host), ch.Knob, ch.State})
		}
		return &c
	}
	i := strings.Index("\n"+got.out, "\n{")
	if i < 0 {
		return nil
	}
	var raw json.RawMessage // a terminal also shows messages
	if err := json.NewDecoder(strings.NewReader(got.out[i:])).Decode(&raw); err != nil {
		r.t.Errorf("the document: %v\n%s", err, got.out)
		return nil
	}
	if got.code != 0 && validate("linerate/error/v1", string(raw)) == nil {
		return nil // it claims nothing
	}
	err := validate(o.document, string(raw))
	must.True(r.t, err == nil, "the document: %v\n%s", err, raw)
	err = json.Unmarshal(raw, &c)
	must.True(r.t, err == nil, "the document: %v\n%s", err, raw)
	return &c
}

// controllerPID returns the controller's process ID.
func (r *faultRun) controllerPID() int { return r.p.cmd.Process.Pid }

// kill sends a signal to the living processes of some roles: to at least one.
func (r *faultRun) kill(sig syscall.Signal, roles ...string) {
	r.t.Helper()
	found := r.victims()
	found["controller"] = []int{r.controllerPID()}
	if r.c.op.inProcess {
		found["agent-near"] = append(found["agent-near"], r.controllerPID())
	}
	hit := 0
	for _, role := range roles {
		for _, pid := range found[role] {
			r.dead = r.dead || pid == r.controllerPID() && sig == syscall.SIGKILL
			err := syscall.Kill(pid, sig)
			must.Need(r.t, err == nil || err == syscall.ESRCH, "%v to %s: %v", sig, role, err)
			hit++
		}
	}
	// The process that keeps a change learns when it is on disk, and may be gone by now.
	must.Need(r.t, hit != 0 || r.c.after == "confirmed" || r.c.after == "drop confirmation", "no process is %q, there are %v", roles, found)
}
