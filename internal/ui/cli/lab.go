package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"linerate/internal/app/target"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/fault"
	"linerate/internal/lab"
)

func (a *console) labCommand() *cobra.Command {
	var onFar bool
	c := &cobra.Command{
		Use: "lab SPEC [-- COMMAND...]", Short: "run any program in a virtual host, with the other one over an emulated wire",
		Long: `lab makes two virtual hosts, near and far, joined by a wire of known
rate, delay and loss, and runs COMMAND in the near one, or in the far one with
--on-far. The names near and far resolve in both. Without COMMAND it runs your
shell. Everything in the lab ends with it; no root is needed where user
namespaces are allowed. The exit code is that of COMMAND, 128 and the number of
the signal that ended it.

Keys of SPEC:
  ` + strings.Join(lab.Keys(), "\n  "),
		Example: `  linerate lab rate=100mbit,rtt=20ms,loss=0.1% -- ping -c 3 far
  linerate lab rate=1gbit,rtt=10ms -- sh -c 'ip -brief address; ip route'
  linerate lab lan --on-far -- cat /proc/sys/net/ipv4/tcp_rmem`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || cmd.ArgsLenAtDash() > 1 || len(args) > 1 && cmd.ArgsLenAtDash() < 0 {
				err := fault.Usagef("lab takes one SPEC and, after --, a command")
				if len(args) > 1 && cmd.ArgsLenAtDash() < 0 {
					return fault.WithHint(err, "did you mean linerate lab %s -- %s?", plain.ShellWord(args[0]), strings.Join(args[1:], " "))
				}
				return fault.WithHint(err, "as in linerate lab lan -- ping -c 3 far; see linerate lab --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := lab.ParseSpec(strings.TrimPrefix(args[0], "lab:"))
			if err != nil {
				return fault.WithKind(fault.Usage, err)
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
	c.Flags().BoolVar(&onFar, "on-far", false, "run COMMAND in the far host instead of the near one")
	return c
}

func (a *console) shell() string {
	if s := a.Getenv("SHELL"); s != "" {
		return s
	}
	return "/bin/sh"
}

// inLab runs one program in a separate lab.
func (a *console) inLab(ctx context.Context, spec lab.Spec, host model.Host, argv []string) error {
	l, end, err := target.StartLab(ctx, a.world(), spec)
	if err != nil {
		return err
	}
	defer end()
	return l.Command(ctx, host, argv, a.In, a.raw.Out, a.raw.Err)
}

// labInitCommand is the entry point of the lab's own processes.
func (a *console) labInitCommand() *cobra.Command {
	return &cobra.Command{
		Use: "lab-init", Hidden: true, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] == "set" {
				return target.SetInLab(cmd.Context(), a.knobs, args[1:])
			}
			return lab.Child(args)
		},
	}
}
