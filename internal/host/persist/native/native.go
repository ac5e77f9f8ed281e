// Package native renders settings as the files in which a system keeps them over a restart.
//
// The package does not access files: package persist writes them, or users paste them. A
// setting that a system cannot express is never dropped silently: it is returned as an
// Omission, and is a comment in the file.
package native

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/host/files"
)

// Input is what to render, and what the files need to know about the host.
type Input struct {
	Settings   []model.Assignment // of one host, which is not read; canonical values, each knob once
	Comments   []string           // the reasons, for people: one line each, any text
	Before     map[string]string  // native texts before any change, by native name, for the parts of shared texts that stay
	Interface  string             // for settings of a link; "" omits these
	MAC        string             // of Interface, to find it by; "" matches the name
	AdapterKey string             // Windows: the number of the adapter's registry key, such as "0007"; "" omits keywords
	System     string             // for Ansible: GOOS, "" is linux
	Catalogue  *knob.Index        // of the settings
	Anyway     bool               // also values that do not fit together; a note says so
}

// Output is the result of rendering an Input.
type Output struct {
	Files    []files.File
	Commands []string // to run once, as root, after the files are in place
	Omitted  []model.Omission
	Notes    []string // what to know before using the files
}

// ErrInput reports an Input that no format can render.
var ErrInput = errors.New("cannot be made permanent")

// Render returns the files of format f for in. It returns an error with all faults if a knob
// is unknown, a value is out of the range of that system (a *knob.ValueError), values do not
// fit together (knob.ErrConstraint) unless in.Anyway, or a host cannot have such a name
// (ErrInput).
func Render(f model.FileFormat, in Input) (Output, error) {
	system := f.System()
	if f == model.FormatAnsible {
		system = in.System
		system = cmp.Or(system, "linux")
	}
	r, err := resolve(system, in)
	if err != nil {
		return Output{}, err
	}
	switch f {
	case model.FormatLinuxSysctl, model.FormatSystemdNetworkd, model.FormatNetplan, model.FormatNetworkManager, model.FormatIfupdown, model.FormatFreeBSD:
		r.export(f)
	case model.FormatMacOS:
		r.darwin()
	case model.FormatWindowsReg:
		r.registry()
	case model.FormatWindowsPowerShell:
		r.powershell()
	case model.FormatAnsible:
		err = r.ansible(system)
	default:
		err = fmt.Errorf("format %q: unknown: %w", f, ErrInput)
	}
	if err := errors.Join(append(r.errs, err)...); err != nil {
		return Output{}, err
	}
	r.finish()
	return r.out, nil
}

// checkNames refuses names that no host can have, since they appear in shell commands and in
// paths.
func (in Input) checkNames(system string) error {
	var errs []error
	if n := in.Interface; n != "" && system == "windows" {
		if len(n) > 256 || !plain.Printable(n) {
			errs = append(errs, fmt.Errorf("interface %q: no name of an adapter: %w", n, ErrInput))
		}
	} else if n != "" && !interfaceName(n) {
		errs = append(errs, fmt.Errorf("interface %q: no name of an interface: %w", n, ErrInput))
	}
	if in.MAC != "" {
		if a, err := net.ParseMAC(in.MAC); err != nil || len(a) != 6 {
			errs = append(errs, fmt.Errorf("address %q: want one like 02:00:00:00:00:01: %w", in.MAC, ErrInput))
		}
	}
	if k := in.AdapterKey; k != "" && (len(k) != 4 || strings.Trim(k, "0123456789") != "") {
		errs = append(errs, fmt.Errorf("adapter key %q: want four digits like 0007: %w", k, ErrInput))
	}
	for name, text := range in.Before {
		if !plain.Printable(name) || !plain.Printable(text) {
			errs = append(errs, fmt.Errorf("text %q before the change: not one line of plain text: %w", name, ErrInput))
		}
	}
	if !slices.Contains(knob.Systems(), system) {
		errs = append(errs, fmt.Errorf("system %q: want one of %s: %w", system, strings.Join(knob.Systems(), ", "), ErrInput))
	}
	return errors.Join(errs...)
}

// interfaceName accepts interface names of Linux (IFNAMSIZ, 15 bytes), FreeBSD and macOS
// without characters that are special to a shell or in a path. A name may not start with a
// dash, which a command would take for an option.
func interfaceName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return len(s) <= 15 && strings.Trim(s, letters+"._-") == "" && strings.ContainsAny(s[:1], letters)
}
