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
)

// Reason says whose a Problem is.
type Reason int

// The reasons.
const (
	ByCause Reason = iota // what its cause says
	Asked                 // what was asked for makes no sense
	Away                  // the far end could not be reached, or refused
)

// Problem is an error with what to do about it. In one of Fit, HOST stands for the far
// end as it was given.
type Problem struct {
	Reason Reason
	Err    error
	Hint   string // "" for none
}

// Error says what happened, without the hint.
func (p *Problem) Error() string { return p.Err.Error() }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Hinted gives err a hint and a reason; nil stays nil.
func Hinted(r Reason, err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Problem{r, err, fmt.Sprintf(format, args...)}
}

// Askedf returns a Problem of what was asked for, without a hint.
func Askedf(format string, args ...any) error {
	return &Problem{Reason: Asked, Err: fmt.Errorf(format, args...)}
}

// Unreachable says of a server that nobody could connect to, or that speaks of
// something else, what to do. start is the command that starts p.
func (p Program) Unreachable(ctx context.Context, err error, start string) error {
	op, ok := errors.AsType[*net.OpError](err)
	_, told := errors.AsType[*Problem](err)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case ok && op.Op == "dial" && op.Addr == nil: // its name was not found
		return Hinted(Away, cmp.Or(op.Err, err), "is the name right?")
	case ok && op.Op == "dial":
		return Hinted(Away, fmt.Errorf("connect to %s: %w", op.Addr, cmp.Or(errors.Unwrap(op.Err), op.Err)), "is it running there? start it with: %s", start)
	case !told && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission):
		return Hinted(ByCause, err, "is what answers there an %s? start one with: %s", p.Server, start)
	}
	return err
}

// FitBulk is Fit of programs that carry bulk and datagrams, as iperf does: the load of
// a flow with probes, which they do not answer, and neither requests nor sizes.
func FitBulk(f model.Flow, _ Values) (model.Flow, error) {
	f = probes.Load(f)
	switch f.Engine {
	case requests.Name:
		return f, Hinted(Asked, errors.New("HOST answers no requests"), "start linerate serve on that host")
	case sizes.Name:
		return f, Hinted(Asked, errors.New("HOST measures no message sizes"), "use linerate test HOST")
	}
	return f, nil
}

// Pace is the payload rate that --bitrate asks of a test over TCP, 0 without one.
func (v Values) Pace() (units.BitRate, error) {
	if v["bitrate"] == "" || v.On("udp") {
		return 0, nil
	}
	rate, err := units.ParseBitRate(v["bitrate"])
	if err != nil {
		return 0, Askedf("--bitrate: %v", err)
	}
	return rate, nil
}

// Bytes is an amount that a flag says, 0 where it was not given.
func (v Values) Bytes(flag string) (units.Bytes, error) {
	text, ok := v[flag]
	if !ok {
		return 0, nil
	}
	n, err := units.ParseBytes(text)
	if err != nil {
		return 0, Askedf("--%s: %v", flag, err)
	}
	return n, nil
}
