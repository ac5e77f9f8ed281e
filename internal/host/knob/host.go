// Package knob reads and writes the settings of package core/knob on this machine.
//
// A [Host] turns an entry of the catalogue into a [Place], which is one native setting of one
// machine, and opens the [Backend] that reads and writes it. Each native mechanism has its
// own folder. This package writes no undo records: the caller of Backend.Write has done that
// before (package watchdog).
package knob

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// Backend is one native setting of this machine, read and written as the native text. Read,
// Check and Write return errors that wrap
//   - fs.ErrPermission when more rights are needed,
//   - fs.ErrNotExist when the device or file is gone,
//   - errors.ErrUnsupported when this system has no such setting or value.
//
// Host does not call them with a ctx that has ended; a Backend that waits must watch ctx.
//
// A Backend may have a method InForce(context.Context) error, which reports whether its value
// has taken effect, see Host.InForce.
type Backend interface {
	// Read returns the text as the system gives it, without a final newline.
	Read(ctx context.Context) (raw string, err error)
	// Check reports whether raw could be written, as far as that can be known without
	// writing. It changes nothing.
	Check(ctx context.Context, raw string) error
	// Write sets the text. It accepts what Read returned. For the text that Read then
	// returns, Holds is true.
	Write(ctx context.Context, raw string) error
}

// Place is one native setting of a machine, as the journal stores it.
type Place struct {
	Mechanism knob.Mechanism `json:"mechanism"`
	Native    string         `json:"native"`           // "net.ipv4.tcp_rmem", "mtu"
	Target    string         `json:"target,omitempty"` // name of the interface, or "DESTINATION dev INTERFACE" of a route
}

// String returns the place for display: "net.ipv4.tcp_rmem", "mtu of eth0".
func (p Place) String() string {
	if p.Target != "" {
		return p.Native + " of " + p.Target
	}
	return p.Native
}

// Volatile reports whether a reboot of the machine resets the setting.
func (p Place) Volatile() bool { return p.Mechanism != knob.WinReg && p.Mechanism != knob.WinTCP }

// Host is a machine as knobs see it. The zero value is this machine without an interface, so
// that knobs of links are not available. It is safe for concurrent use.
type Host struct {
	ProcSys   string                       // root of the sysctl files; "" is /proc/sys
	Interface string                       // the interface of knobs of links
	Route     string                       // the route of knobs of routes: "default", or a prefix such as "10.0.0.0/24"; it leaves by Interface
	Backend   func(Place) (Backend, error) // opens places; nil means the system's own, tests set others
	Held      Held                         // places that stay open
	Index     *knob.Index                  // of the catalogue
}

// Place returns where this machine keeps the knob. It wraps errors.ErrUnsupported, naming the
// system, if the machine has no such knob or linerate cannot use it there.
func (h Host) Place(id model.KnobID) (knob.Knob, Place, error) {
	k, ok := h.Index.ByID(id)
	if !ok {
		return knob.Knob{}, Place{}, h.Index.UnknownError(id)
	}
	n, err := k.On(runtime.GOOS)
	switch {
	case err != nil:
	case (k.Scope != knob.ScopeHost || strings.Contains(n.Name, "{")) && h.Interface == "":
		err = knob.Because(knob.NoPath, fmt.Errorf("the interface of the data path is not known: %w", errors.ErrUnsupported))
	case k.Scope == knob.ScopeRoute && h.Route == "":
		err = knob.Because(knob.NoPath, fmt.Errorf("the route of the data path is not known: %w", errors.ErrUnsupported))
	default:
		err = h.elsewhere(n)
	}
	if err != nil {
		return knob.Knob{}, Place{}, &knob.Error{Op: "find", Knob: id, Err: err}
	}
	p := Place{Mechanism: n.Mechanism, Native: h.Expand(n.Name)}
	switch {
	case k.Scope == knob.ScopeRoute:
		p.Target = h.Route + " dev " + h.Interface
	case k.Scope == knob.ScopeLink && n.Mechanism != knob.Sysctl:
		p.Target = h.Interface
	}
	return k, p, nil
}

// Expand puts the interface into a native name: {if} is "em0", {dev} is "em.0", FreeBSD's
// name for the device.
func (h Host) Expand(name string) string {
	unit := strings.TrimLeft(h.Interface, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
	driver := strings.TrimSuffix(h.Interface, unit)
	return strings.NewReplacer("{if}", h.Interface, "{dev}", driver+"."+unit).Replace(name)
}

// Open opens a place. It does not check whether the device exists.
func (h Host) Open(p Place) (Backend, error) {
	if b, ok := h.Held[p]; ok {
		return b, nil
	}
	if h.Backend != nil {
		return h.Backend(p)
	}
	return open(h, p)
}

// Read returns the canonical values of the knobs; an unknown one carries the reason. It needs
// no helper process and no rights beyond reading.
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
	var raw, v string
	if err == nil {
		raw, err = h.ReadRaw(ctx, id, p)
	}
	if err == nil {
		v, err = k.Decode(runtime.GOOS, raw)
	}
	if err != nil {
		return knob.Unread(err, k.Scope == knob.ScopeLink && p.Mechanism != knob.Sysctl)
	}
	return fact.Known(v, p.String()+k.OwnDriver(raw))
}

// at opens a place for one operation, unless ctx has ended. The error is an *Error about id.
func (h Host) at(ctx context.Context, op string, id model.KnobID, p Place, do func(Backend) error) error {
	err := ctx.Err()
	if err == nil {
		var b Backend
		if b, err = h.Open(p); err == nil {
			err = do(b)
		}
	}
	if err != nil {
		return &knob.Error{Op: op, Knob: id, Place: p.String(), Err: err}
	}
	return nil
}

// ReadRaw returns the native text at p. The error is an *Error about id.
func (h Host) ReadRaw(ctx context.Context, id model.KnobID, p Place) (raw string, err error) {
	err = h.at(ctx, "read", id, p, func(b Backend) (err error) {
		raw, err = b.Read(ctx)
		return err
	})
	return raw, err
}

// Check reports whether raw could be written to p, as far as that can be known. For a
// read-only setting, or one that is read only at boot, it wraps errors.ErrUnsupported. The
// error is an *Error about id.
func (h Host) Check(ctx context.Context, id model.KnobID, p Place, raw string) error {
	return h.at(ctx, "check", id, p, func(b Backend) error {
		if err := h.writable(id); err != nil {
			return err
		}
		return b.Check(ctx, raw)
	})
}

// writable returns why the knob cannot be changed on this system.
func (h Host) writable(id model.KnobID) error {
	k, ok := h.Index.ByID(id)
	if !ok {
		return h.Index.UnknownError(id)
	}
	return k.Writable(runtime.GOOS)
}

// InForce returns an error if the value at p has not taken effect, for example because the
// driver does not follow it. Most settings take effect as such. The error is an *Error about
// id.
func (h Host) InForce(ctx context.Context, id model.KnobID, p Place) error {
	return h.at(ctx, "verify", id, p, func(b Backend) error {
		if f, ok := b.(interface{ InForce(context.Context) error }); ok {
			return f.InForce(ctx)
		}
		return nil
	})
}

// WriteRaw writes the native text to p. The undo record must be on disk. The error is an
// *Error about id; for a name that the system does not know it lists the known ones.
func (h Host) WriteRaw(ctx context.Context, id model.KnobID, p Place, raw string) error {
	return h.at(ctx, "write", id, p, func(b Backend) error {
		err := b.Write(ctx, raw)
		if err == nil {
			return nil
		}
		if all, listErr := h.Choices(ctx, id); listErr == nil && !slices.Contains(all, knob.SameText(raw)) {
			err = fmt.Errorf("%w; this host has %s", err, strings.Join(all, ", "))
		}
		return err
	})
}

// Choices returns the words that this machine accepts for a knob of TypeName. It wraps
// errors.ErrUnsupported if the system has no such list.
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

// CheckChanges checks whether the changes may be made together on this machine, before
// anything is written: every value must be in the system's own range, and no constraint
// broken. Values must be canonical. It reads the other knobs that matter. The error joins all
// faults; those of constraints wrap knob.ErrConstraint.
func (h Host) CheckChanges(ctx context.Context, changes []model.Assignment) error {
	return errors.Join(h.Index.Misfits(runtime.GOOS, h.related(ctx, changes), changes)...)
}

// related reads the knobs in the constraints of the changes.
func (h Host) related(ctx context.Context, changes []model.Assignment) knob.Values {
	before := make(knob.Values)
	for _, id := range knob.Related(runtime.GOOS, changes) {
		if v, ok := h.readOne(ctx, id).Get(); ok {
			before[id] = v
		}
	}
	return before
}
