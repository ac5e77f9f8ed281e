// Package qdisc reads and replaces the packet scheduler of an interface: its root queueing
// discipline (Linux).
//
// It replaces a scheduler only if the present one can be restored exactly: the kernel's
// default, or one of the simple kinds, whose options are stored as the kernel reports them.
package qdisc

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Root is the native name of the one setting.
const Root = "root"

// Discipline is the root queueing discipline of one interface. It is safe for
// concurrent use.
type Discipline struct{ device string }

// Open returns the root discipline of the interface called device. It does not query the
// system. It wraps errors.ErrUnsupported for names other than Root, and in every call on
// systems other than Linux.
func Open(device, name string) (*Discipline, error) {
	if name != Root {
		return nil, fmt.Errorf("queueing discipline %q: %w", name, errors.ErrUnsupported)
	}
	if device == "" || len(device) > maxDevice {
		return nil, fmt.Errorf("interface %q: not a name", device)
	}
	return &Discipline{device: device}, nil
}

// maxDevice is the longest name of an interface, IFNAMSIZ less the final zero.
const maxDevice = 15

// Read returns the discipline, with a remark in parentheses:
//
//	default (pfifo_fast)
//	fq_codel (handle 8001: options 0800010005000000)
//	htb (handle 1: with filters)
//
// It wraps fs.ErrNotExist when there is no such interface.
func (d *Discipline) Read(context.Context) (string, error) {
	s, err := d.state()
	if err != nil {
		return "", err
	}
	return s.text(), nil
}

// Check reports whether raw could be written: a kind, "default", or what Read returned; and
// whether the present discipline could be restored afterwards.
func (d *Discipline) Check(_ context.Context, raw string) error {
	if _, err := parse(raw); err != nil {
		return err
	}
	s, err := d.state()
	if err != nil {
		return err
	}
	return s.restorable()
}

// Write replaces the discipline. For a kind that the kernel lacks it wraps
// errors.ErrUnsupported; without the rights to configure the interface, fs.ErrPermission.
func (d *Discipline) Write(_ context.Context, raw string) error {
	want, err := parse(raw)
	if err != nil {
		return err
	}
	s, err := d.state()
	if err != nil {
		return err
	}
	if want.handle != 0 && want.text() == s.text() {
		return nil
	}
	// An exact text restores what was read before: the present discipline is then linerate's
	// own, whatever its kind.
	if s.complex != "" || !want.exact {
		if err := s.restorable(); err != nil {
			return err
		}
	}
	return d.replace(s, want)
}

// state is a root discipline.
type state struct {
	kind    string // "" for none, on an interface that is down
	handle  uint32 // major and minor number; 0 for one that the kernel made itself
	options []byte // TCA_OPTIONS as the kernel reports and accepts them
	// isDefault asks for the kernel's default; kind is then what that was, if known.
	isDefault bool
	exact     bool   // for a wanted state: what Read returned, and not just a kind
	complex   string // why it cannot be restored exactly; "" if it can
}

// simple returns the kinds whose options, as reported by the kernel, create the same
// discipline again: the dump and init functions of Linux 6.1 net/sched/sch_NAME.c use the
// same attributes.
func simple() []string {
	return []string{"noqueue", "pfifo_fast", "pfifo", "bfifo", "tbf", "fq", "fq_codel", "codel", "cake", "sfq"}
}

func (s state) restorable() error {
	switch {
	case s.complex != "":
		return fmt.Errorf("the scheduler %s has %s and could not be put back exactly: %w", s.kind, s.complex, errors.ErrUnsupported)
	case s.handle != 0 && !slices.Contains(simple(), s.kind):
		return fmt.Errorf("the scheduler %s could not be put back exactly: %w", s.kind, errors.ErrUnsupported)
	}
	return nil
}

func (s state) text() string {
	switch {
	case s.handle == 0 && s.complex == "" && s.kind == "":
		return defaultWord + " (none)"
	case s.handle == 0 && s.complex == "": // also for a wanted kind alone, which never equals a reading
		return defaultWord + " (" + s.kind + ")"
	case s.complex != "":
		return fmt.Sprintf("%s (handle %x: with %s)", s.kind, s.handle>>16, s.complex)
	case len(s.options) == 0:
		return fmt.Sprintf("%s (handle %x:)", s.kind, s.handle>>16)
	}
	return fmt.Sprintf("%s (handle %x: options %x)", s.kind, s.handle>>16, s.options)
}

const defaultWord = "default"

// parse parses what text writes, or a kind alone. "default" is a state without a kind and
// handle.
func parse(raw string) (state, error) {
	bad := func() (state, error) {
		return state{}, fmt.Errorf("scheduler %q: want a kind such as fq, or default", raw)
	}
	value, remark, hasRemark := strings.Cut(strings.Join(strings.Fields(raw), " "), " (")
	if value == "" || strings.Trim(value, kindBytes) != "" || len(value) > maxDevice {
		return bad()
	}
	remark, closed := strings.CutSuffix(remark, ")")
	if hasRemark != closed {
		return bad()
	}
	if value == defaultWord {
		if remark == "none" {
			remark = ""
		}
		return state{kind: remark, isDefault: true, exact: hasRemark}, nil
	}
	s := state{kind: value, exact: hasRemark}
	if !hasRemark {
		return s, nil
	}
	words := strings.Fields(remark)
	if len(words) < 2 || words[0] != "handle" || !strings.HasSuffix(words[1], ":") {
		return bad()
	}
	major, err := strconv.ParseUint(strings.TrimSuffix(words[1], ":"), 16, 16)
	if err != nil || major == 0 {
		return bad()
	}
	s.handle = uint32(major) << 16
	switch {
	case len(words) == 2:
	case len(words) == 4 && words[2] == "options":
		if s.options, err = hex.DecodeString(words[3]); err != nil || len(s.options) == 0 {
			return bad()
		}
	default: // "with filters"
		return state{}, fmt.Errorf("scheduler %q cannot be made: its parts are not known: %w", raw, errors.ErrUnsupported)
	}
	return s, nil
}

const kindBytes = "abcdefghijklmnopqrstuvwxyz0123456789_"
