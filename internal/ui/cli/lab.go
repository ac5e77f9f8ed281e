package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"linerate/internal/app"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/lab"
)

// labInterface is the name of a virtual host's interface.
const labInterface = "eth0"

func (a *console) labCommand() *cobra.Command {
	var onFar bool
	c := &cobra.Command{
		Use: "lab SPEC [-- COMMAND...]", Short: "run any program in a virtual host, with the other one over an emulated wire",
		Long: `lab makes two virtual hosts, a (near) and b (far), joined by a wire of known
rate, delay and loss, and runs COMMAND in host a, or in b with --on-b. The names
a and b resolve in both. Without COMMAND it runs your shell. Everything in the
lab ends with it; no root is needed where user namespaces are allowed.

Keys of SPEC:
  ` + strings.Join(lab.Keys(), "\n  "),
		Example: `  linerate lab rate=100mbit,rtt=20ms,loss=0.1% -- ping -c 3 b
  linerate lab rate=1gbit,rtt=10ms -- sh -c 'ip -brief address; ip route'
  linerate lab lan --on-b -- cat /proc/sys/net/ipv4/tcp_rmem`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || cmd.ArgsLenAtDash() > 1 || len(args) > 1 && cmd.ArgsLenAtDash() < 0 {
				return withHint(usagef("lab takes one SPEC and, after --, a command"), "see linerate lab --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := lab.ParseSpec(strings.TrimPrefix(args[0], "lab:"))
			if err != nil {
				return app.WithKind(app.Usage, err)
			}
			argv := args[1:]
			if len(argv) == 0 {
				argv = []string{a.shell()}
			}
			host := model.Near
			if onFar {
				host = model.Far
			}
			return a.inLab(cmd.Context(), spec, host, argv)
		},
	}
	c.Flags().BoolVar(&onFar, "on-b", false, "run COMMAND in host b instead of a")
	return c
}

func (a *console) shell() string {
	if s := a.Getenv("SHELL"); s != "" {
		return s
	}
	return "/bin/sh"
}

// inLab runs one program in a lab of its own.
func (a *console) inLab(ctx context.Context, spec lab.Spec, host model.Host, argv []string) error {
	l, _, err := a.startLab(ctx, spec)
	if err != nil {
		return err
	}
	defer l.Close()
	err = l.Command(ctx, host, argv, a.In, a.raw.Out, a.raw.Err)
	if exit, ok := errors.AsType[*lab.ExitError](err); ok {
		return &app.Fault{Kind: app.Failed, Err: exit}
	}
	return err
}

// startLab starts a lab and gives its hosts the settings that the spec names.
// They are the virtual hosts' own state, not changes: they end with the lab.
// The directory returned is where the hosts keep their journals; the caller
// removes it after closing the lab.
func (a *console) startLab(ctx context.Context, spec lab.Spec) (l *lab.Lab, state string, err error) {
	if err := checkLabKnobs(spec.Knobs); err != nil {
		return nil, "", app.WithKind(app.Usage, err)
	}
	state, err = os.MkdirTemp("", "linerate-lab-")
	if err != nil {
		return nil, "", err
	}
	l, err = lab.Start(ctx, spec, lab.Config{Command: append(a.Self, "lab-init"), Stderr: a.Err})
	if err != nil {
		_ = os.RemoveAll(state)
		if errors.Is(err, errors.ErrUnsupported) {
			err = withHint(err, "the lab needs Linux; linerate demo shows the same over loopback on other systems")
		}
		return nil, "", err
	}
	for _, host := range []model.Host{model.Near, model.Far} {
		if err := a.presetLab(ctx, l, host, spec.Knobs); err != nil {
			_ = l.Close()
			_ = os.RemoveAll(state)
			return nil, "", err
		}
	}
	return l, state, nil
}

// checkLabKnobs makes the values of a spec's settings canonical, and reports
// every one that cannot be.
func checkLabKnobs(knobs []model.Assignment) error {
	var errs []error
	for i, as := range knobs {
		k, ok := knob.ByID(as.Knob)
		err := knob.UnknownError(as.Knob)
		switch {
		case ok && k.Scope == knob.ScopeFlow:
			err = errors.New("belongs to the test traffic, not to a host")
		case ok:
			knobs[i].Value, err = k.Parse(as.Value)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("lab spec: %s.%s: %w", as.Host, as.Knob, err))
		}
	}
	return errors.Join(errs...)
}

func (a *console) presetLab(ctx context.Context, l *lab.Lab, host model.Host, knobs []model.Assignment) error {
	argv := append([]string{}, a.Self...)
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

// labInitCommand is the entry of the lab's own processes.
func (a *console) labInitCommand() *cobra.Command {
	return &cobra.Command{
		Use: "lab-init", Hidden: true, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] == "set" {
				return setLabKnobs(cmd.Context(), args[1:])
			}
			return lab.Child(args)
		},
	}
}

// setLabKnobs runs inside a virtual host and writes KNOB=VALUE arguments.
func setLabKnobs(ctx context.Context, args []string) error {
	host := hostknob.Host{Interface: labInterface}
	for _, arg := range args {
		id, value, _ := strings.Cut(arg, "=")
		if err := setKnob(ctx, host, model.KnobID(id), value); err != nil {
			return err
		}
	}
	return nil
}

// setKnob writes one knob without a journal: the virtual host is new, and ends
// with the lab.
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

// labState is the journal directory of one virtual host.
func labState(root string, host model.Host) string { return filepath.Join(root, string(host)) }
