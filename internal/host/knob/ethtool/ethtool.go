// Package ethtool reads and writes the settings of a network interface's driver: rings,
// queues, interrupt delays, flow control, offloads and link modes (Linux).
//
// It uses the generic netlink family "ethtool" (since 5.6), or the older SIOCETHTOOL request
// if the kernel lacks that. Pure functions of this package encode and decode both.
package ethtool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"linerate/internal/core/knob"
)

// Setting is one setting of one interface's driver. It is safe for concurrent
// use.
type Setting struct {
	device string
	name   string // "rings.rx"
	group  group
	field  string // "rx"
	open   func() (transport, error)
}

// transport queries the kernel about one interface.
type transport interface {
	// get returns what the kernel says about a group.
	get(device string, g group) (Fields, error)
	// set changes the settings in f, and nothing else of the group.
	set(device string, g group, f Fields) error
	// driver returns the name of the interface's driver, "" if unknown.
	driver(device string) string
}

// Open returns the setting called name of the interface called device, such as rings.rx,
// channels.combined, coalesce.adaptive-rx, pause.tx, eee.enabled, wol.modes, linkmodes.mode,
// features.tso or features.NAME for any feature of "ethtool -k". It does not query the
// system. It wraps errors.ErrUnsupported for other names.
func Open(device, name string) (*Setting, error) {
	if device == "" || len(device) > maxDevice {
		return nil, fmt.Errorf("interface %q: not a name", device)
	}
	of, field, ok := strings.Cut(name, ".")
	g, known := groupByName(of)
	if !ok || !known || of != features && of != linkmodes && !g.has(field) || field == "" {
		return nil, fmt.Errorf("setting %q of a driver: %w", name, errors.ErrUnsupported)
	}
	return &Setting{device: device, name: name, group: g, field: field, open: open}, nil
}

// Remember returns a function like Open for many reads at one moment: the settings that it opens
// query the kernel once for each group of an interface. They are not safe for concurrent use.
func Remember() func(device, name string) (*Setting, error) { return remember(open) }

func remember(find func() (transport, error)) func(device, name string) (*Setting, error) {
	r := &remembered{answers: map[[2]string]answer{}}
	return func(device, name string) (*Setting, error) {
		s, err := Open(device, name)
		if err != nil {
			return nil, err
		}
		s.open = func() (transport, error) {
			if r.transport == nil {
				r.transport, err = find()
			}
			return r, err
		}
		return s, nil
	}
}

type remembered struct {
	transport
	answers map[[2]string]answer // by interface and group
}

type answer struct {
	fields Fields
	err    error
}

func (r *remembered) get(device string, g group) (Fields, error) {
	a, ok := r.answers[[2]string{device, g.name}]
	if !ok {
		a.fields, a.err = r.transport.get(device, g)
		r.answers[[2]string{device, g.name}] = a
	}
	return a.fields, a.err
}

// maxDevice is the longest name of an interface, IFNAMSIZ less the final zero.
const maxDevice = 15

// Read returns the setting: a number in decimal, 0 or 1 for a switch, words
// with commas, "name=on" pairs for features, and the form that package knob
// describes for link modes. It wraps fs.ErrNotExist when there is no such
// interface, and errors.ErrUnsupported when its driver has no such setting.
func (s *Setting) Read(context.Context) (string, error) {
	f, err := s.get()
	if err != nil {
		return "", err
	}
	text, err := s.text(f)
	if driver := s.driver(); err == nil && driver != "" {
		text += " (" + driver + ")"
	}
	return text, err
}

// driver returns the interface's driver if that treats some numbers of this setting as modes,
// else "".
func (s *Setting) driver() string {
	if !knob.DriverHasModes(s.name) {
		return ""
	}
	t, err := s.open()
	if err != nil {
		return ""
	}
	return modeDriver(s.name, t.driver(s.device))
}

// modeDriver returns driver if that treats some number of a setting as a mode, else "".
func modeDriver(name, driver string) string {
	if knob.DriverTakes(driver, name, neverTaken) == nil {
		return ""
	}
	return driver
}

// neverTaken is a delay of more than an hour.
const neverTaken = 1<<32 - 1

// Check reports whether raw could be written: well-formed, within the driver's limits, and
// reversible.
func (s *Setting) Check(_ context.Context, raw string) error {
	f, err := s.get()
	if err != nil {
		return err
	}
	if s.name == "linkmodes.mode" {
		if err := modeKnown(f); err != nil {
			return err
		}
	}
	_, err = s.changes(f, raw)
	return err
}

// Write sets the setting. A value that the driver refuses is an error with the
// driver's reason. It wraps fs.ErrPermission without the rights to configure
// the interface.
func (s *Setting) Write(_ context.Context, raw string) error {
	f, err := s.get()
	if err != nil {
		return err
	}
	changes, err := s.changes(f, raw)
	if err != nil {
		return err
	}
	t, err := s.open()
	if err != nil {
		return err
	}
	if err := t.set(s.device, s.group, changes); err != nil {
		return fmt.Errorf("%w%s", err, s.becauseOf(f))
	}
	return nil
}

// becauseOf returns what else must be set for a setting that the driver refused; f is the
// state before.
func (s *Setting) becauseOf(f Fields) string {
	if s.group.name == "pause" && s.field != "autoneg" && f.Numbers["autoneg"] == 1 {
		return "; flow control is negotiated: nic.pause.autoneg=off is needed beside it"
	}
	return ""
}

// InForce reports whether the driver follows the setting: a feature that is wanted and not
// active is an error.
func (s *Setting) InForce(context.Context) error {
	if s.group.name != features {
		return nil
	}
	f, err := s.get()
	if err != nil {
		return err
	}
	return inForce(f, s.field)
}

func (s *Setting) get() (Fields, error) {
	t, err := s.open()
	if err != nil {
		return Fields{}, err
	}
	return t.get(s.device, s.group)
}

// text returns the text of Read for the kernel's answer.
func (s *Setting) text(f Fields) (string, error) {
	switch {
	case s.group.name == features:
		return featureText(f, s.field)
	case s.name == "linkmodes.mode":
		return modeText(f), nil
	case s.name == "wol.modes":
		return wolText(f)
	}
	n, ok := f.Numbers[s.field]
	switch {
	case !ok:
		return "", fmt.Errorf("the driver does not report it: %w", errors.ErrUnsupported)
	case s.name == "linkmodes.speed" && (n == 0 || n == unknownSpeed):
		return "", knob.Because(knob.NotInDriver, errors.New("the link has no speed"))
	case s.name == "linkinfo.port":
		return portName(n), nil
	}
	return strconv.FormatUint(uint64(n), 10), nil
}

// changes returns what to set, given the present state f.
func (s *Setting) changes(f Fields, raw string) (Fields, error) {
	switch {
	case s.group.set == 0 || strings.HasSuffix(s.field, maxSuffix) || s.name == "linkmodes.speed":
		return Fields{}, fmt.Errorf("%s is a fact and no setting: %w", s.name, errors.ErrUnsupported)
	case s.group.name == features:
		return featureChanges(f, s.field, raw)
	case s.name == "linkmodes.mode":
		return modeChanges(f, raw)
	case s.name == "wol.modes":
		return wolChanges(f, raw)
	}
	if _, ok := f.Numbers[s.field]; !ok {
		return Fields{}, fmt.Errorf("%s: the driver of %s has no such setting: %w", s.name, s.device, errors.ErrUnsupported)
	}
	number, driver, _ := strings.Cut(raw, " (") // Read's text may include the driver
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || driver != "" && !knob.DriverHasModes(s.name) {
		return Fields{}, fmt.Errorf("%s %q: want a number", s.name, raw)
	}
	if err := knob.DriverTakes(s.driver(), s.name, uint32(n)); err != nil {
		return Fields{}, fmt.Errorf("%s %d: %w", s.name, n, err)
	}
	if s.group.kindOf(s.field) == kindU8 && n > 1 {
		return Fields{}, fmt.Errorf("%s %q: want 0 or 1", s.name, raw)
	}
	if most, ok := f.Numbers[s.field+maxSuffix]; ok && most > 0 && n > uint64(most) {
		return Fields{}, fmt.Errorf("%s %d: the driver of %s takes %d at most", s.name, n, s.device, most)
	}
	return Fields{Numbers: map[string]uint32{s.field: uint32(n)}}, nil
}

const maxSuffix = "-max"

// absent returns the error for a missing interface.
func absent(device string) error { return fmt.Errorf("interface %s: %w", device, fs.ErrNotExist) }
