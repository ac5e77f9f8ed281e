package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"

	"linerate/internal/core/model"
	"linerate/internal/lab/wire"
)

// Config sets how a lab runs on this machine.
type Config struct {
	// Command runs this program so that it calls Child with the arguments
	// appended, for example ["/proc/self/exe", "lab-init"]. Required.
	Command []string
	// Wire selects how frames are exchanged with the kernel. Zero is Auto.
	Wire wire.Kind
	// Stderr gets the stderr of agents. Nil discards it.
	Stderr io.Writer
}

// Stats are the wire's exact counters since the lab started.
type Stats struct {
	Wire wire.Kind     `json:"wire"` // how frames are exchanged
	To   wire.Counters `json:"to"`   // from the near host to the far one
	From wire.Counters `json:"from"` // and back
	CPU  float64       `json:"cpu"`  // CPU seconds of the wire process, including part of the receiving hosts' kernel work
}

// Lab is a running lab. Its methods may be called concurrently.
type Lab struct {
	spec Spec
	os   *running
}

// Start builds the lab that spec describes. ctx bounds only the start. It cleans up if it
// fails.
//
// The error wraps errors.ErrUnsupported on systems other than Linux, and fs.ErrPermission if
// this user may not create user namespaces; its text then names the setting that forbids it.
func Start(ctx context.Context, spec Spec, cfg Config) (*Lab, error) {
	r, err := start(ctx, spec, cfg)
	if err != nil {
		return nil, fmt.Errorf("start lab: %w", err)
	}
	return &Lab{spec: spec, os: r}, nil
}

// Spec returns the spec that the lab was started with.
func (l *Lab) Spec() Spec { return l.spec }

// Dial starts argv, an agent, in host and returns its stdin and stdout as one stream. ctx
// bounds only the start. Closing the stream closes both; the agent ends by itself or with the
// lab. Several agents may run in one host.
func (l *Lab) Dial(ctx context.Context, host model.Host, argv []string) (net.Conn, error) {
	c, err := l.os.dial(ctx, host, argv)
	if err != nil {
		return nil, fmt.Errorf("dial lab host %s: %w", host, err)
	}
	return c, nil
}

// Command runs a program in host and waits for it. Nil streams are the null
// device; an *os.File is passed on as it is. The names near and far resolve to the
// hosts' IPv4 addresses, near6 and far6 to the IPv6 ones, and the environment has
// them as NEAR_ADDR, FAR_ADDR, NEAR_ADDR6 and FAR_ADDR6. When ctx ends, the program's
// process group gets SIGTERM, and two seconds later SIGKILL.
//
// The error is an *ExitError if the program ran and its exit code was not 0.
func (l *Lab) Command(ctx context.Context, host model.Host, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	err := l.os.command(ctx, host, argv, stdin, stdout, stderr)
	if err != nil {
		return fmt.Errorf("run in lab host %s: %w", host, err)
	}
	return nil
}

// Addr returns the IPv4 address of host, which must be Near or Far.
func (l *Lab) Addr(host model.Host) netip.Addr { return l.spec.hostEnd(host).v4.Addr() }

// Addr6 returns the IPv6 address of host, which must be Near or Far. It is not configured if
// the kernel has no IPv6 or the MTU is below 1280.
func (l *Lab) Addr6(host model.Host) netip.Addr { return l.spec.hostEnd(host).v6.Addr() }

// Stats returns the counters of the wire so far.
func (l *Lab) Stats(ctx context.Context) (Stats, error) {
	st, err := l.os.stats(ctx)
	if err != nil {
		return Stats{}, fmt.Errorf("read lab counters: %w", err)
	}
	return st, nil
}

// Done returns a channel that is closed when the lab has ended, by Close or because it failed.
func (l *Lab) Done() <-chan struct{} { return l.os.done() }

// Close kills everything in the lab and waits for it. It is idempotent.
func (l *Lab) Close() error { return l.os.close() }

// ExitError is the exit status of a program in a host.
type ExitError struct {
	Program string
	Code    int // exit code, or 128 plus the signal's number, as in shells
}

// Error names the program and its exit code.
func (e *ExitError) Error() string { return fmt.Sprintf("%s: exit code %d", e.Program, e.Code) }

// addresses are the fixed addresses of one end of a link.
type addresses struct {
	v4, v6 netip.Prefix
	mac    net.HardwareAddr
}

// The ends of a link, as the last part of their addresses: nearer to the near host, and nearer
// to the far host.
const (
	nearEnd = 1
	farEnd  = 2
)

// plan returns the addresses of one end of a link. 10.99.0.0/16 is private (RFC 1918),
// fd00:99::/32 is unique local (RFC 4193), and the hardware addresses are locally
// administered (IEEE 802-2014 section 8.4).
func plan(link int, end byte) addresses {
	at := byte(link)
	v6 := [16]byte{0: 0xfd, 3: 0x99, 7: at, 15: end}
	return addresses{
		v4:  netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 99, at, end}), 24),
		v6:  netip.PrefixFrom(netip.AddrFrom16(v6), 64),
		mac: net.HardwareAddr{0x02, 0x99, 0, 0, at, end},
	}
}

// lab4 and lab6 hold the addresses of all links.
var (
	lab4 = netip.PrefixFrom(plan(0, nearEnd).v4.Addr(), 16).Masked()
	lab6 = netip.PrefixFrom(plan(0, nearEnd).v6.Addr(), 32).Masked()
)
