package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"linerate/internal/app"
	"linerate/internal/control/wire"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/lab"
)

// linkInLab is the name of a virtual host's interface.
const linkInLab = "eth0"

// labFolder is the prefix of the state folders of lab agents; the ID of the process that made
// the folder follows.
const labFolder = "linerate-lab-"

// sweepLabs removes the lab folders in dir whose process no longer exists: it was killed.
func sweepLabs(dir string) {
	folders, _ := filepath.Glob(filepath.Join(dir, labFolder+"*-*"))
	for _, f := range folders {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(f), labFolder), "-")
		if _, err := os.Stat(filepath.Join("/proc", pid)); pid != "" && errors.Is(err, fs.ErrNotExist) {
			_ = os.RemoveAll(f)
		}
	}
}

// startLab starts a lab for e, with an agent in each of its hosts.
func (e *Ends) startLab(ctx context.Context, spec lab.Spec, commands []model.Host) error {
	l, end, err := StartLab(ctx, e.env, spec)
	if err != nil {
		return err
	}
	e.InLab, e.pathRates, e.after = true, spec.Rates(), append(e.after, end)
	sweepLabs(os.TempDir())
	state, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", labFolder, os.Getpid()))
	if err != nil {
		end()
		return err
	}
	e.after = append([]func(){func() { _ = os.RemoveAll(state) }}, e.after...) // once the agents are gone
	e.WireRate = e.pathRates[0]
	if back := e.pathRates[1]; !back.IsKnown() || back.Or(0) < e.WireRate.Or(0) {
		e.WireRate = back
	}
	e.Dial = func(ctx context.Context, h model.Host) (wire.Peer, error) {
		argv := append(append([]string{}, e.env.Self...), "agent", "--state", filepath.Join(state, string(h)), "--interface", linkInLab)
		if slices.Contains(commands, h) {
			argv = append(argv, commandsFlag)
		}
		if r, ok := e.WireRate.Get(); ok {
			argv = append(argv, fmt.Sprintf("--link-rate=%.0f", float64(r)))
		}
		conn, err := l.Dial(ctx, h, argv)
		if err != nil {
			return wire.Peer{}, err
		}
		return wire.Peer{Control: conn, Name: "lab host " + string(h), DataHost: l.Addr(h).String()}, nil
	}
	return nil
}

// StartLab starts a lab and gives its hosts the settings in the spec. They are the virtual
// hosts' own state, not changes: they end with the lab, which the caller ends.
func StartLab(ctx context.Context, env app.Env, spec lab.Spec) (l *lab.Lab, end func(), err error) {
	if err := checkLabKnobs(env.Catalogue, spec.Knobs); err != nil {
		return nil, nil, fault.WithKind(fault.Usage, err)
	}
	said := &lines{each: func(line string) { env.Observe(app.LabSaid{Line: line}) }}
	l, err = lab.Start(ctx, spec, lab.Config{Command: append(append([]string{}, env.Self...), "lab-init"), Stderr: said})
	if errors.Is(err, errors.ErrUnsupported) && fault.HintOf(err) == "" {
		err = fault.WithHint(err, "the lab needs Linux; linerate demo shows the same over loopback on other systems")
	}
	if err != nil {
		return nil, nil, err
	}
	for _, host := range []model.Host{model.Near, model.Far} {
		if err := presetLab(ctx, env.Self, l, host, spec.Knobs); err != nil {
			_ = l.Close()
			return nil, nil, err
		}
	}
	return l, func() { _ = l.Close() }, nil
}

// lines is a writer that passes on whole lines, each at most maxLine bytes.
type lines struct {
	each func(string)
	mu   sync.Mutex
	part []byte
}

// maxLine is far longer than any message line.
const maxLine = 4096

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(p) {
		l.part = append(l.part, line[:min(len(line), maxLine-len(l.part))]...)
		if line[len(line)-1] == '\n' {
			l.each(strings.TrimRight(string(l.part), "\r\n"))
			l.part = l.part[:0]
		}
	}
	return len(p), nil
}

// checkLabKnobs makes the values of a spec's settings canonical, and reports every one that
// is not valid.
func checkLabKnobs(x *knob.Index, knobs []model.Assignment) error {
	var errs []error
	for i, as := range knobs {
		k, ok := x.ByID(as.Knob)
		err := x.UnknownError(as.Knob)
		switch {
		case ok && k.Scope == knob.ScopeFlow:
			err = errors.New("belongs to the test traffic, not to a host")
		case ok:
			knobs[i].Value, err = k.Parse(as.Value)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("lab spec: %s: %w", as.Host.Of(as.Knob), err))
		}
	}
	return errors.Join(errs...)
}

func presetLab(ctx context.Context, self []string, l *lab.Lab, host model.Host, knobs []model.Assignment) error {
	argv := append([]string{}, self...)
	argv = append(argv, "lab-init", "set")
	n := len(argv)
	for _, as := range knobs {
		if as.Host == host {
			argv = append(argv, string(as.Knob)+"="+as.Value)
		}
	}
	if len(argv) == n {
		return nil
	}
	var stderr strings.Builder
	if err := l.Command(ctx, host, argv, nil, nil, &stderr); err != nil {
		return fmt.Errorf("lab: set host %s: %s", host, strings.TrimSpace(strings.TrimPrefix(stderr.String(), "linerate:")))
	}
	return nil
}

// SetInLab runs inside a virtual host and applies KNOB=VALUE arguments.
func SetInLab(ctx context.Context, catalogue *knob.Index, args []string) error {
	host := hostknob.Host{Interface: linkInLab, Index: catalogue}
	for _, arg := range args {
		id, value, _ := strings.Cut(arg, "=")
		if err := setKnob(ctx, host, model.KnobID(id), value); err != nil {
			return err
		}
	}
	return nil
}

// setKnob writes one knob without a journal: the virtual host is new, and ends with the lab.
func setKnob(ctx context.Context, host hostknob.Host, id model.KnobID, value string) error {
	k, place, err := host.Place(id)
	if err != nil {
		return err
	}
	old, err := host.ReadRaw(ctx, id, place)
	if err != nil {
		return err
	}
	raw, err := k.Encode(runtime.GOOS, old, value)
	if err != nil {
		return err
	}
	return host.WriteRaw(ctx, id, place, raw)
}
