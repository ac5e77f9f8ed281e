package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/control/deploy"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/mdns"
	"linerate/internal/control/wire/ssh"
	"linerate/internal/control/wire/stdio"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/model"
	"linerate/internal/core/mtu"
	"linerate/internal/core/probe"
	"linerate/internal/fault"
	"linerate/internal/host/canary"
)

// Options say how to reach hosts, and what to pass to their agents.
type Options struct {
	Sudo        bool // over ssh: run the far agent as root
	Keep        Keep // over ssh: whether a copy of this program stays there
	TrustFar    bool // over ssh: run as root a program that cannot be checked
	AtBoot      bool // a boot job undoes changes too
	Acknowledge bool // the user has seen that the far journal was damaged

	Path     model.DataPath // how data connections are made
	Contract Contract       // the rate of the path, remembered for it

	// Commands are the ends that are to run commands of the user. A server decides for itself
	// whether it does.
	Commands []model.Host
}

// commandsFlag lets an agent run commands of its controller. Only the command line that
// starts the agent can allow it: an ssh key or a sudo rule may be for linerate agent alone.
const commandsFlag = "--allow-commands"

// Opener opens hosts.
type Opener struct {
	env app.Env
	o   Options

	mu sync.Mutex
	// passwords of sudo, by target: a lost connection is reopened without asking again.
	passwords map[string][]byte
	copies    map[string]*deploy.Last // of this program, by target
	warned    map[string]bool         // warnings about the command line that were given already

	lookup func(ctx context.Context, name string) ([]mdns.Server, error)
}

// New returns an Opener.
func New(env app.Env, o Options) *Opener {
	return &Opener{env: env, o: o, passwords: map[string][]byte{}, copies: map[string]*deploy.Last{}, warned: map[string]bool{}, lookup: mdns.Find}
}

// warnOnce warns about the command line itself. Such a warning is not part of a result.
func (o *Opener) warnOnce(text string) {
	o.mu.Lock()
	before := o.warned[text]
	o.warned[text] = true
	o.mu.Unlock()
	if text != "" && !before {
		o.env.Observe(app.Warning{Text: text})
	}
}

// Dial connects to one real host. The error has a kind and a hint.
func (o *Opener) Dial(ctx context.Context, t Target) (wire.Peer, error) {
	return o.dial(ctx, t, model.Egress{})
}

// dial is Dial. It connects to a server from the address that data are to leave from: a
// server accepts data only from the address of its session.
func (o *Opener) dial(ctx context.Context, t Target, from model.Egress) (wire.Peer, error) {
	switch t.Kind {
	case Here:
		return local.Dial(o.env, local.Options{AtBoot: o.o.AtBoot, Commands: len(o.o.Commands) > 0}, "127.0.0.1")(ctx)
	case Exec:
		abort := make(chan struct{}) // a command that never answered has nothing to undo
		context.AfterFunc(ctx, func() {
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				close(abort)
			}
		})
		p, err := stdio.Start(ctx, t.Argv, stdio.Options{Name: t.Addr, DataHost: t.Addr, Stderr: local.Lines(o.env, t.Addr), Abort: abort})
		return p, fault.New(fault.Unreachable, err, "what follows the address starts an agent: exec:%s ... linerate agent", t.Addr)
	case SSH:
		return o.dialSSH(ctx, t)
	case Serve:
		if t.Named != "" {
			return o.dialNamed(ctx, t, from)
		}
		p, err := tls.Dial(ctx, t.Link, from)
		if err := otherFamily(t.Link.Addr, from, err); err != nil {
			return p, err
		}
		if err != nil {
			err = fault.WithKind(fault.Unreachable, plainDial(t.Link.Addr, err))
			if errors.Is(err, tls.ErrPin) {
				return p, err // the error itself says what is wrong
			}
			return p, fault.WithHint(err, "is linerate serve running there? use the join link that it prints")
		}
		o.warnOnce(t.Warning)
		return p, nil
	case Lab, Foreign:
	}
	return wire.Peer{}, fmt.Errorf("no way to %s", t)
}

// Alone opens a session with one real host as an end, without reading its facts.
func (o *Opener) Alone(ctx context.Context, t Target, side model.Host) (*session.Client, error) {
	if err := o.fits(t, t); err != nil {
		return nil, err
	}
	c, err := o.env.OpenSession(ctx, side, func(ctx context.Context) (wire.Peer, error) { return o.Dial(ctx, t) })
	return c, noAgent(err, t)
}

// otherFamily is the error of a server that has no address of the family that data are to leave
// from; nil if err is another one.
func otherFamily(addr string, from model.Egress, err error) error {
	if _, ok := errors.AsType[*net.AddrError](err); !ok || from.Bind == "" {
		return nil
	}
	return fault.WithHint(fault.Usagef("--bind %s: %s has no address of that family, IPv4 or IPv6", from.Bind, addr),
		"give an address of this machine of the other family, or --bind-dev")
}

// plainDial explains the error of a handshake with a server other than linerate's, which says
// nothing or hangs up.
func plainDial(addr string, err error) error {
	op, ok := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("connect to %s: no answer in time", addr)
	case errors.Is(err, io.EOF), ok && op.Op == "read":
		return fmt.Errorf("connect to %s: what answers there hung up", addr)
	}
	return err
}

// fits returns an error if an option applies to none of the hosts.
func (o *Opener) fits(ends ...Target) error {
	overSSH := slices.ContainsFunc(ends, func(t Target) bool { return t.Kind == SSH })
	if (o.o.Sudo || o.o.Keep != KeepAsRemembered || o.o.TrustFar) && !overSSH {
		return fault.Usagef("--sudo, --keep-agent and --trust-far-binary are for hosts that are reached over ssh, as in user@host")
	}
	for i, t := range ends {
		if o.o.AtBoot && t.Kind == Lab {
			return fault.Usagef("--at-boot: a lab ends with its command, there is no next start of it")
		}
		for _, flag := range o.agentFlags() {
			if t.Kind != Exec || slices.ContainsFunc(t.Argv, func(s string) bool { return strings.Contains(s, flag) }) {
				continue
			}
			if end := []model.Host{model.Near, model.Far}[min(i, 1)]; flag == commandsFlag && !slices.Contains(o.o.Commands, end) {
				continue
			}
			return fault.WithHint(fault.Usagef("%s does not reach the agent of %s, whose command is your own", flag, t.Addr),
				"write it into that command: exec:ADDRESS ... linerate agent %s", flag)
		}
	}
	return nil
}

// agentFlags returns the flags for an agent that is started here.
func (o *Opener) agentFlags() []string {
	var flags []string
	if o.o.AtBoot {
		flags = append(flags, "--at-boot")
	}
	if o.o.Acknowledge {
		flags = append(flags, "--acknowledge")
	}
	if len(o.o.Commands) > 0 {
		flags = append(flags, commandsFlag)
	}
	return flags
}

// dialSSH starts an agent on a host over the user's own ssh.
func (o *Opener) dialSSH(ctx context.Context, t Target) (wire.Peer, error) {
	ctx = app.Unhurried(ctx) // the user may be typing a password, and a copy takes time
	so := ssh.Options{
		Command: strings.Fields(o.env.Getenv("LINERATE_SSH")), Stderr: local.Lines(o.env, t.SSH.Host), Timeout: cmp.Or(o.env.Timeout, app.DefaultTimeout),
	}
	if o.o.Path.Through != "" {
		var err error
		if so.Forward, err = forwarding(ctx); err != nil {
			return wire.Peer{}, err
		}
	}
	shell, err := ssh.Dial(ctx, t.SSH, so)
	if err != nil {
		return wire.Peer{}, o.blackHole(ctx, sshFault(err))
	}
	keep, mayKeep, err := o.keeping(t.SSH)
	if err != nil {
		_ = shell.Close()
		return wire.Peer{}, err
	}
	peer, err := deploy.Agent(ctx, shell, deploy.Options{
		Self: o.env.Self[0], Version: o.env.Version, Sudo: o.o.Sudo, TrustFar: o.o.TrustFar, Flags: o.agentFlags(),
		Copying: o.copying(t.SSH.Host), Keep: keep, MayKeep: mayKeep,
		Password: o.sudoPassword(ctx, t.Text), Last: o.lastCopy(t.Text),
	})
	if err != nil {
		return wire.Peer{}, sshFault(err)
	}
	if so.Forward != (ssh.Forward{}) {
		peer.Warnings = append(peer.Warnings, fmt.Sprintf(throughWarning, t.SSH.Host))
	}
	return peer, nil
}

// lastCopy returns the place of this program's copy on a target.
func (o *Opener) lastCopy(target string) *deploy.Last {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.copies[target] == nil {
		o.copies[target] = new(deploy.Last)
	}
	return o.copies[target]
}

// throughWarning explains a rate that was measured through ssh.
const throughWarning = "the data go to %s through ssh: the rate is that of ssh, with its cipher, its windows and one connection of TCP for all streams, " +
	"and what each host says of TCP is about the way to its own ssh"

// forwarding chooses the ports of a forwarding: a free one here, and one on the far host
// outside the range of ephemeral ports.
func forwarding(ctx context.Context) (ssh.Forward, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return ssh.Forward{}, fmt.Errorf("find a port for ssh: %w", err)
	}
	defer func() { _ = l.Close() }()
	const low, high = 20000, 32768 // Linux gives away 32768 and up (ip_local_port_range), others from 49152
	return ssh.Forward{Here: l.Addr().(*net.TCPAddr).Port, There: low + rand.N(high-low)}, nil
}

// sudoPassword returns a function that returns the password given for a target before, or
// asks the user if there is none or it was wrong. The caller may clear what it gets.
func (o *Opener) sudoPassword(ctx context.Context, target string) func(host string) ([]byte, error) {
	o.mu.Lock()
	remembered := slices.Clone(o.passwords[target])
	o.mu.Unlock()
	return func(host string) ([]byte, error) {
		if password := remembered; password != nil {
			remembered = nil
			return password, nil
		}
		answer, err := o.env.Ask(ctx, app.Question{Kind: app.Password, Host: host})
		if errors.Is(err, app.ErrNoTerminal) {
			return nil, deploy.ErrNoTerminal
		}
		if err != nil {
			return nil, err
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.passwords[target] = slices.Clone(answer.Secret)
		return answer.Secret, nil
	}
}

// parseSSH reads user@host or ssh://...
func parseSSH(s string) (Target, error) {
	t, err := ssh.ParseTarget(s)
	if err != nil {
		return Target{}, fault.New(fault.Usage, err, "write user@host, or ssh://user@host:port; ssh://host takes the user from ssh's configuration")
	}
	return Target{Kind: SSH, Text: s, SSH: t}, nil
}

// sizeTime bounds the search for the packet size that passes, which takes half a second if the
// machine has time for it.
const sizeTime = 20 * time.Second

// blackHole adds to an error of ssh, if full packets vanish on the path to a host, which size
// passes and how to go on with it.
func (o *Opener) blackHole(ctx context.Context, err error) error {
	f, ok := errors.AsType[*ssh.BlackHole](err)
	if !ok {
		return err
	}
	facts, ferr := local.New(o.env, local.Options{}).Facts(ctx, f.Server)
	if ferr != nil {
		return err
	}
	most, link := facts.MTU.Or(mtu.Least), facts.Interface.Or("")
	target := probe.PathTo(f.Server, most)
	p, found := probe.PathOf(canary.Probe(ctx, target, sizeTime, 0), target)
	if !found || p.Passes < mtu.Least || p.Passes >= most {
		return err
	}
	return fault.WithHint(fmt.Errorf("%w; packets of %d bytes pass, and %s sends %d", err, p.Passes, link, most),
		"until what lies between is mended: linerate set link.mtu=%d --interface %s, which goes back by itself, and then this command again", p.Passes, link)
}

// sshFault gives an error of an ssh connection its kind, if it has none.
func sshFault(err error) error {
	_, hinted := errors.AsType[*fault.Error](err)
	switch {
	case errors.Is(err, context.Canceled):
		return fault.WithKind(fault.Interrupted, err)
	case hinted || err == nil:
		return err
	}
	return fault.WithKind(fault.Unreachable, err)
}
