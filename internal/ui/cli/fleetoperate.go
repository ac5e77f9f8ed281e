package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"linerate/internal/app/hub"
	"linerate/internal/core/fleet"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/ui/config"
)

// operating is what the commands of operators need.
const operating = `

On the machine of the hub no flag is needed. Elsewhere copy the file operate.link from the
directory of its state, and name it: --hub @operate.link.`

// fleetOperations returns the commands that need the right to operate a hub.
func (a *console) fleetOperations(f *fleetFlags) []*cobra.Command {
	var uses int64 // of an invitation
	operation := func(o fleet.Do, use, short, long, example string, hosts ...string) (*cobra.Command, *string) {
		var last string
		c := &cobra.Command{Use: use, Short: short, Long: long + operating, Example: example, Args: exactArgs(hosts...)}
		c.RunE = func(cmd *cobra.Command, args []string) error {
			do := fleet.Operation{Do: o, Uses: uses}
			for i, to := range []*string{&do.Host, &do.Far} {
				if i < len(args) {
					*to = args[i]
				}
			}
			if cmd.Flags().Changed("uses") && uses < 1 {
				return fault.WithHint(fault.Usagef("--uses: %d hosts are not 1 or more", uses), "leave it out for any number")
			}
			if last != "" {
				d, err := units.ParseDuration(last)
				if err != nil || d < time.Second {
					return fault.Usagef("--for: %q is no time of a second or more", last)
				}
				do.Seconds = int64(d / time.Second)
			}
			if err := do.Validate(); err != nil {
				return fault.WithKind(fault.Usage, err)
			}
			return a.operate(cmd.Context(), *f, do)
		}
		return c, &last
	}
	drain, last := operation(fleet.Drain, "drain HOST", "have a host measure nothing for a while",
		`drain takes a host out of the plan, for the time of --for or until linerate fleet resume: it
starts no run from then on, and refuses those of others within seconds. A run that has begun
goes on to its end.`, "  linerate fleet drain nas --for 2h\n  linerate fleet drain nas", "HOST")
	drain.Flags().StringVar(last, "for", "", "how long (default: until linerate fleet resume)")
	resume, _ := operation(fleet.Resume, "resume HOST", "have a drained host measure again",
		`resume ends what drain began: the host is in the next round that leaves another host free.`, "  linerate fleet resume nas", "HOST")
	remove, _ := operation(fleet.Remove, "remove HOST", "take a host out of the fleet for good",
		`remove takes a host out: the hub refuses its key from now on, and orders nothing of it. What it
measured stays. The host joins again only with another key: linerate agent --hub LINK --rejoin.`, "  linerate fleet remove pi", "HOST")
	test, _ := operation(fleet.Test, "test HOST HOST", "have two hosts measure with each other now",
		`test plans a look at two hosts as soon as both are free, within the limits of their owners, and
says when that is. linerate fleet queue shows what became of it.`, "  linerate fleet test nas pi", "HOST", "HOST")
	invite, valid := operation(fleet.Invite, "invite", "print a join link that expires",
		`invite prints the command with which hosts join, with a link of its own that expires, and with
--uses after that many hosts. The hub tells of each host that joins.`, "  linerate fleet invite\n  linerate fleet invite --uses 3 --for 1h")
	invite.Flags().StringVar(valid, "for", "24h", "how long hosts may join with it")
	invite.Flags().Int64Var(&uses, "uses", 0, "how many hosts may join with it (default: any number)")
	apply := &cobra.Command{
		Use: "apply FILE", Short: "say which hosts measure less, and which paths share a link",
		Long: `apply reads FILE (- is standard input), which takes the place of what was applied before:

  groups:                       # lower the limits that the owners of hosts have set
    - hosts: ["edge-*"]
      max_rate: 100mbit
      max_share: 2%
    - hosts: [pi]
      probe_only: true
  shared:                       # so many of these paths measure at a time
    - name: uplink fra-ams
      between: ["fra-*", "ams-*"]
      at_once: 1
    - name: rack 12             # paths from a host of the rack to one that is not
      around: ["fra-12*"]
      at_once: 2

Paths that share a link disturb each other if they measure at the same time: each would show
less than it carries. apply says how many hosts and paths each entry holds for. An empty file
({}) ends all of it. linerate fleet plan shows what holds.` + operating,
		Example: "  linerate fleet apply fleet.yaml\n  echo '{}' | linerate fleet apply -", Args: exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := a.readAll(args[0])
			if err != nil {
				return fault.Usagef("%w", err)
			}
			setup, err := config.ParseSetup(text)
			if err != nil {
				return fault.WithHint(fault.Usagef("%s: %w", args[0], err), "linerate fleet apply --help shows such a file")
			}
			return a.operate(cmd.Context(), *f, fleet.Operation{Do: fleet.Apply, Setup: setup})
		},
	}
	return []*cobra.Command{drain, resume, remove, test, invite, apply}
}

// operate asks the hub for an operation, and says what was done.
func (a *console) operate(ctx context.Context, f fleetFlags, o fleet.Operation) error {
	c, err := a.fleetSource(f, hub.OperateFile)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	out, err := c.Operate(ctx, o)
	if err != nil {
		return err
	}
	if a.json {
		return a.document("linerate/fleetoperation/v1", out)
	}
	if out.Link != "" {
		_, err = fmt.Fprintf(a.Out, "linerate agent --hub %s\n", plain.ShellWord(out.Link))
		a.talk("%s", out.Text)
		return err
	}
	page := a.page()
	for line := range strings.Lines(out.Text) {
		page.Line(plain.Line(line))
	}
	return page.Print(a.Out)
}
