package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/measure/sockio"
)

// Unreachable adds a hint to an error about a server at addr that cannot be reached, or speaks
// another protocol.
func (p Program) Unreachable(ctx context.Context, err error, addr string) error {
	op, ok := errors.AsType[*net.OpError](err)
	_, hinted := errors.AsType[*fault.Error](err)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case ok && op.Op == "dial" && op.Addr == nil: // name not found
		return fault.New(fault.Unreachable, cmp.Or(op.Err, err), "is the name right?")
	case ok && op.Op == "dial":
		return fault.New(fault.Unreachable, fmt.Errorf("connect to %s: %w", op.Addr, cmp.Or(errors.Unwrap(op.Err), op.Err)), "is it running there? start it with: %s", p.Starts(addr))
	case !hinted && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission):
		return fault.WithHint(err, "is what answers there %s? start one with: %s", p.Server, p.Starts(addr))
	}
	return err
}

// Open returns the error of a connection to a server at addr that its program does not see,
// with a hint, nil if that cannot be found out.
func (p Program) Open(ctx context.Context, addr string, from model.Egress) error {
	return p.Unreachable(ctx, sockio.PortOpen(ctx, addr, from), addr)
}

// FitBulk is Fit for programs that carry bulk and datagrams, such as iperf: they carry only the
// load of a flow with probes, which they do not answer, and neither requests nor sizes.
func FitBulk(f model.Flow, _ Values) (model.Flow, error) {
	f = probes.Load(f)
	switch f.Engine {
	case requests.Name:
		return f, fault.New(fault.Usage, errors.New("HOST answers no requests"), "start linerate serve on that host")
	case sizes.Name:
		return f, fault.New(fault.Usage, errors.New("HOST measures no message sizes"), "use linerate test HOST")
	}
	return f, nil
}

// Pace returns the payload rate of --bitrate for a TCP test, 0 if not set.
func (v Values) Pace() (units.BitRate, error) {
	if v["bitrate"] == "" || v.On("udp") {
		return 0, nil
	}
	rate, err := units.ParseBitRate(v["bitrate"])
	if err != nil {
		return 0, fault.Usagef("--bitrate: %v", err)
	}
	return rate, nil
}

// Bytes returns the amount of a flag, 0 if not set.
func (v Values) Bytes(flag string) (units.Bytes, error) {
	text, ok := v[flag]
	if !ok {
		return 0, nil
	}
	n, err := units.ParseBytes(text)
	if err != nil {
		return 0, fault.Usagef("--%s: %v", flag, err)
	}
	return n, nil
}
