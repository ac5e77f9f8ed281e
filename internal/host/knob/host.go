package knob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
)

// Backend is one native setting of this machine, read and written as the
// native text. Read, Check and Write return errors that wrap
//   - fs.ErrPermission when more rights are needed,
//   - fs.ErrNotExist when the device or file is gone,
//   - errors.ErrUnsupported when this system has no such setting or value.
//
// A Backend with a method InForce(context.Context) error says there whether
// what it holds is at work, see Host.InForce.
type Backend interface {
	// Read returns the text as the system gives it, without a final newline.
	Read(ctx context.Context) (raw string, err error)
	// Check says whether raw could be written, as far as that can be known
	// without writing. It changes nothing.
	Check(ctx context.Context, raw string) error
	// Write sets the text. What Read returned may be written back. A text that
	// Read returns afterwards is one by which Holds is true.
	Write(ctx context.Context, raw string) error
}

// Place is one native setting of a machine, as the journal keeps it.
type Place struct {
	Mechanism Mechanism `json:"mechanism"`
	Native    string    `json:"native"`           // "net.ipv4.tcp_rmem", "mtu"
	Target    string    `json:"target,omitempty"` // name of the interface, or "DESTINATION dev INTERFACE" of a route
}

// String returns the place for people: "net.ipv4.tcp_rmem", "mtu of eth0".
func (p Place) String() string {
	if p.Target != "" {
		return p.Native + " of " + p.Target
	}
	return p.Native
}

// Volatile reports whether a restart of the machine forgets what was written.
func (p Place) Volatile() bool { return p.Mechanism != WinReg && p.Mechanism != WinTCP }

// Host is a machine as knobs see it. The zero value is this machine without an
// interface: knobs of links are not available then. It is safe for concurrent
// use.
type Host struct {
	ProcSys   string                       // root of the sysctl files; "" is /proc/sys
	Interface string                       // that knobs of links act on
	Route     string                       // that knobs of routes act on: "default", or a prefix such as "10.0.0.0/24"; it leaves by Interface
	Backend   func(Place) (Backend, error) // opens places; nil is the system's own, tests give others
}

// Error says what could not be done with a knob, and what to do about it.
type Error struct {
	Op    string // "read", "write", "check", "find"
	Knob  model.KnobID
	Place string // "net.ipv4.tcp_rmem", "" when there is none
	Err   error
}

// Error returns the sentence without the hint.
func (e *Error) Error() string {
	if e.Place == "" {
		return fmt.Sprintf("%s %s: %v", e.Op, e.Knob, e.Err)
	}
	return fmt.Sprintf("%s %s (%s): %v", e.Op, e.Knob, e.Place, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint returns what a person could do, "" when there is nothing to say.
func (e *Error) Hint() string {
	switch {
	case errors.Is(e.Err, fs.ErrPermission):
		return fmt.Sprintf("run linerate as root on that host, or leave out %s", e.Knob)
	case errors.Is(e.Err, errors.ErrUnsupported):
		return fmt.Sprintf("leave out %s on that host", e.Knob)
	case errors.Is(e.Err, fs.ErrNotExist):
		return "the device is gone: nothing is left to set or to undo there"
	}
	return ""
}

// Hint returns the hint of the first error in err's tree that has one, else "".
func Hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// Place returns where this machine keeps the knob. It wraps
// errors.ErrUnsupported, naming the system, where the machine has no such knob
// or linerate cannot use it there.
func (h Host) Place(id model.KnobID) (Knob, Place, error) {
	k, ok := ByID(id)
	if !ok {
		return Knob{}, Place{}, UnknownError(id)
	}
	refuse := func(format string, a ...any) (Knob, Place, error) {
		err := fmt.Errorf(format+": %w", append(a, errors.ErrUnsupported)...)
		return Knob{}, Place{}, &Error{Op: "find", Knob: id, Err: err}
	}
	if k.Scope == ScopeFlow {
		return refuse("belongs to the test traffic, not to a host")
	}
	n, ok := k.Native[runtime.GOOS]
	switch {
	case !ok:
		return refuse("%s has no such setting", runtime.GOOS)
	case n.Mechanism == NotYet:
		return refuse("linerate cannot use %s on %s", n.Name, runtime.GOOS)
	case (k.Scope != ScopeHost || strings.Contains(n.Name, "{")) && h.Interface == "":
		return refuse("the interface of the data path is not known")
	case k.Scope == ScopeRoute && h.Route == "":
		return refuse("the route of the data path is not known")
	}
	p := Place{Mechanism: n.Mechanism, Native: h.Expand(n.Name)}
	switch {
	case k.Scope == ScopeRoute:
		p.Target = h.Route + " dev " + h.Interface
	case k.Scope == ScopeLink && n.Mechanism != Sysctl:
		p.Target = h.Interface
	}
	return k, p, nil
}

// Expand puts the interface into a native name: {if} is "em0", {dev} is "em.0",
// as FreeBSD names the device behind it.
func (h Host) Expand(name string) string {
	unit := strings.TrimLeft(h.Interface, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
	driver := strings.TrimSuffix(h.Interface, unit)
	return strings.NewReplacer("{if}", h.Interface, "{dev}", driver+"."+unit).Replace(name)
}

// Open opens a place. It does not ask whether the device exists.
func (h Host) Open(p Place) (Backend, error) {
	if h.Backend != nil {
		return h.Backend(p)
	}
	return open(h, p)
}

// Read returns the canonical values of the knobs; an unknown one carries the
// reason. No process of its own and no rights beyond reading are needed.
func (h Host) Read(ctx context.Context, ids ...model.KnobID) map[model.KnobID]fact.Of[string] {
	values := make(map[model.KnobID]fact.Of[string], len(ids))
	h = together(h)
	for _, id := range ids {
		values[id] = h.readOne(ctx, id)
	}
	return values
}

func (h Host) readOne(ctx context.Context, id model.KnobID) fact.Of[string] {
	k, p, err := h.Place(id)
	if err != nil {
		return fact.Unknown[string](err.Error())
	}
	raw, err := h.ReadRaw(ctx, id, p)
	if err != nil {
		return fact.Unknown[string](err.Error())
	}
	v, err := k.Decode(raw)
	if err != nil {
		return fact.Unknown[string](err.Error())
	}
	return fact.Known(v, p.String())
}

// ReadRaw returns the native text at p. The error is an *Error about id.
func (h Host) ReadRaw(ctx context.Context, id model.KnobID, p Place) (string, error) {
	b, err := h.Open(p)
	if err != nil {
		return "", &Error{Op: "read", Knob: id, Place: p.String(), Err: err}
	}
	raw, err := b.Read(ctx)
	if err != nil {
		return "", &Error{Op: "read", Knob: id, Place: p.String(), Err: err}
	}
	return raw, nil
}

// Check says whether raw could be written to p, as far as that can be known. A
// setting that nobody may write, or that is read at boot only, wraps
// errors.ErrUnsupported. The error is an *Error about id.
func (h Host) Check(ctx context.Context, id model.KnobID, p Place, raw string) error {
	b, err := h.Open(p)
	if err == nil {
		err = writable(id)
	}
	if err == nil {
		err = b.Check(ctx, raw)
	}
	if err != nil {
		return &Error{Op: "check", Knob: id, Place: p.String(), Err: err}
	}
	return nil
}

// writable says whether the knob can be tried on this system.
func writable(id model.KnobID) error {
	k, ok := ByID(id)
	n := k.Native[runtime.GOOS]
	switch {
	case !ok:
		return UnknownError(id)
	case k.ReadOnly || n.ReadOnly:
		return fmt.Errorf("a fact of this machine, not a setting: %w", errors.ErrUnsupported)
	case k.EffectOn(runtime.GOOS) == EffectBoot:
		return fmt.Errorf("read at boot only (%s): no trial can show its effect: %w", n.Permanent(runtime.GOOS), errors.ErrUnsupported)
	}
	return nil
}

// InForce says whether what p holds is at work: a wish that the driver did not
// follow is an error. Most settings are what they hold. The error is an *Error
// about id.
func (h Host) InForce(ctx context.Context, id model.KnobID, p Place) error {
	b, err := h.Open(p)
	if err != nil {
		return &Error{Op: "verify", Knob: id, Place: p.String(), Err: err}
	}
	f, ok := b.(interface{ InForce(context.Context) error })
	if !ok {
		return nil
	}
	if err := f.InForce(ctx); err != nil {
		return &Error{Op: "verify", Knob: id, Place: p.String(), Err: err}
	}
	return nil
}

// WriteRaw writes the native text to p. The undo record must be on disk. The
// error is an *Error about id; for a name that the system does not know it
// lists those that it does.
func (h Host) WriteRaw(ctx context.Context, id model.KnobID, p Place, raw string) error {
	b, err := h.Open(p)
	if err == nil {
		err = b.Write(ctx, raw)
	}
	if err == nil {
		return nil
	}
	if all, listErr := h.Choices(ctx, id); listErr == nil && !slices.Contains(all, SameText(raw)) {
		err = fmt.Errorf("%w; this host has %s", err, strings.Join(all, ", "))
	}
	return &Error{Op: "write", Knob: id, Place: p.String(), Err: err}
}

// Choices returns the words that this machine accepts for a knob of TypeName.
// It wraps errors.ErrUnsupported where the system keeps no such list.
func (h Host) Choices(ctx context.Context, id model.KnobID) ([]string, error) {
	k, p, err := h.Place(id)
	if err != nil {
		return nil, err
	}
	n := k.Native[runtime.GOOS]
	if n.Choices == "" {
		return nil, fmt.Errorf("list the values of %s: %w", id, errors.ErrUnsupported)
	}
	raw, err := h.ReadRaw(ctx, id, Place{Mechanism: p.Mechanism, Native: n.Choices, Target: p.Target})
	return strings.Fields(raw), err
}
