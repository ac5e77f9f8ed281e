// Package ssh starts a command interpreter on a far host through the system's own ssh client.
//
//  1. Dial starts ssh with the user's configuration: ssh handles ssh_config, keys, agent, jump
//     hosts, known_hosts and shared connections. One command line starts sh or PowerShell
//     there, whatever the login shell is.
//  2. A marker of random letters ends the noise of login scripts. From then on Shell.Run runs
//     commands one at a time, and linerate has the terminal again.
//  3. Shell.Start replaces the interpreter by a program that uses the connection from then on.
//
// Everything uses one connection, so the user authenticates once.
package ssh

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"linerate/internal/control/wire"
	"linerate/internal/control/wire/stdio"
	"linerate/internal/fault"
	"linerate/internal/tail"
)

// helloTime covers the connection, typing a password, and the login scripts. Linux gives up a
// TCP connection after 127 s (tcp_syn_retries of tcp(7)), sshd a login after 120 s
// (LoginGraceTime of sshd_config(5)).
const helloTime = 4 * time.Minute

// Options of Dial. The zero value is ready for use.
type Options struct {
	// Command starts ssh, optionally with the user's own arguments; nil is "ssh".
	Command []string
	// Hello is how long the far shell may take to answer; 0 is four minutes.
	Hello time.Duration
	// Timeout is how long the server may take to answer, and also the far shell if no password
	// prompt is possible; 0 is ssh's configured value.
	Timeout time.Duration
	// Forward makes ssh forward a port of this machine's loopback address to a port of the far
	// host's.
	Forward Forward
	// Stderr receives the other messages of ssh and of the programs on the far host; nil
	// discards them.
	Stderr io.Writer
}

// Forward is an ssh forwarding between two ports of the loopback addresses; the zero value is
// none.
type Forward struct{ Here, There int }

// Dial starts ssh and returns the interpreter on the far host. Meanwhile ssh may prompt on this
// process's terminal for passwords and new host keys; without a terminal it does not
// (BatchMode). The error is a fault if ssh, or what it found there, is the reason. It wraps
// context.Canceled if the user stopped it.
func Dial(ctx context.Context, t Target, o Options) (*Shell, error) {
	command := o.Command
	if len(command) == 0 {
		command = []string{"ssh"}
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return nil, fault.New(fault.Unreachable, fmt.Errorf("reach %s over ssh: %w", t, err), "install the OpenSSH client, or name another one in LINERATE_SSH")
	}
	conf, err := readConfig(ctx, command, t)
	if err != nil {
		return nil, err
	}
	abort := make(chan struct{})
	s := &Shell{target: t, mark: rand.Text(), stderr: &tail.Tail{Keep: keptWords}}
	terminal := openTerminal()
	words := io.Writer(s.stderr)
	if o.Stderr != nil {
		words = io.MultiWriter(s.stderr, o.Stderr)
	}
	if o.Timeout > 0 {
		command = slices.Concat(command, []string{"-o", fmt.Sprintf("ConnectTimeout=%d", max(1, int(o.Timeout.Seconds())))})
		if !terminal.asks() && o.Hello == 0 {
			o.Hello = o.Timeout
		}
	}
	argv := slices.Concat(command, arguments(t, conf, terminal.asks(), o.Forward), []string{launch(s.mark)})
	peer, err := stdio.Start(ctx, argv, stdio.Options{
		Name: t.Host, DataHost: conf.hostName, Stderr: words, Terminal: terminal.file(), Abort: abort,
	})
	if err != nil {
		terminal.takeBack()
		return nil, fmt.Errorf("reach %s over ssh: %w", t, err)
	}
	if o.Forward != (Forward{}) {
		peer.Forwarded = &wire.Forwarding{Addr: net.JoinHostPort(loopback, strconv.Itoa(o.Forward.Here)), Port: o.Forward.There}
	} else if way := conf.indirect(); way != "" {
		peer.Warnings = append(peer.Warnings,
			fmt.Sprintf("%s is reached over ssh through %s: the data connections do not go there but straight to %s", t.Host, way, conf.hostName))
	}
	s.attach(peer)
	err = s.hello(ctx, cmp.Or(o.Hello, helloTime), conf.direct())
	terminal.takeBack()
	if err != nil {
		close(abort) // there is no agent on the other side to end cleanly
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// arguments returns ssh's arguments besides its configuration and the command.
//
// Like scp, it forwards nothing (ClearAllForwardings, -a, -x): a forwarding that another
// connection already holds would end this one. Keepalives are left to the configuration: the
// session over this connection has its own, at both ends. Host keys are checked as configured.
//
// With a forwarding for data the connection is not shared: a shared one would keep the
// forwarding after this session has ended. ssh cannot drop the configured forwardings and keep
// this one, and ends if one of them fails.
func arguments(t Target, c config, asks bool, f Forward) []string {
	args := []string{"-T", "-a", "-x", "-o", "PermitLocalCommand=no"}
	if f == (Forward{}) {
		args = append(args, "-o", "ClearAllForwardings=yes")
	} else {
		args = append(args, "-S", "none", "-o", "ExitOnForwardFailure=yes", "-o", "GatewayPorts=no",
			"-L", fmt.Sprintf("%s:%d:%[1]s:%[3]d", loopback, f.Here, f.There))
	}
	if c.remoteCommand { // ssh before 7.6 does not know the option
		args = append(args, "-o", "RemoteCommand=none")
	}
	if !asks {
		args = append(args, "-o", "BatchMode=yes")
	}
	return append(args, t.arguments()...)
}

// loopback is the address of both ends of a forwarding.
const loopback = "127.0.0.1"

// arguments returns the arguments that name the host. "--" ends the options, so that a name
// cannot be one.
func (t Target) arguments() []string {
	var args []string
	if t.Port > 0 {
		args = append(args, "-p", strconv.Itoa(t.Port))
	}
	return append(args, "--", t.destination())
}

// BlackHole reports a path on which full packets to the address Server vanish, while small ones
// arrive.
type BlackHole struct {
	Server string
	target Target
}

// Error describes the black hole in one sentence.
func (b *BlackHole) Error() string {
	return fmt.Sprintf("reach %s over ssh: it hangs in its key exchange: the server answers small packets, and full ones vanish on the way to it (a black hole, as behind a tunnel with a smaller MTU)", b.target)
}

// attach makes s the owner of peer.
func (s *Shell) attach(p wire.Peer) {
	s.peer = p
	s.in = newReader(p.Control)
}

// hello waits for the marker. direct is the address that ssh connects to, "" if a jump host or
// proxy is in between.
func (s *Shell) hello(ctx context.Context, limit time.Duration, direct string) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	vanish := func() bool { return false }
	if direct != "" {
		vanish = doubt(limited, direct, cancel)
	}
	noise, rest, err := s.until(limited, noiseLimit)
	switch gone := vanish(); {
	case err == nil:
	case gone && ctx.Err() == nil:
		host, _, _ := net.SplitHostPort(direct)
		return fault.New(fault.Unreachable, &BlackHole{host, s.target},
			"let this machine send smaller packets there: ip route replace, or a smaller link.mtu; better, mend the MTU of what lies between")
	case ctx.Err() != nil:
		return fmt.Errorf("reach %s over ssh: %w", s.target, ctx.Err())
	case errors.Is(err, errNoEnd), limited.Err() != nil:
		return s.strange(noise)
	default:
		return s.failed(noise)
	}
	switch rest {
	case " sh":
		s.Kind = Sh
	case " powershell":
		s.Kind = PowerShell
	default:
		return s.strange(noise)
	}
	return nil
}
