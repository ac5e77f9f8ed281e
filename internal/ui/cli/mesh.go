package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"linerate/internal/app"
	"linerate/internal/app/mesh"
	"linerate/internal/app/target"
	"linerate/internal/core/fleet"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/regex"
)

// meshFlags are the flags of a mesh.
type meshFlags struct {
	hosts, failOn, time string
	withoutHere         bool
	request             mesh.Request
}

// slurmHosts stands for the hosts of the current Slurm allocation.
const slurmHosts = "slurm"

func (a *console) meshCommand() *cobra.Command {
	var f meshFlags
	c := &cobra.Command{
		Use: "mesh HOST...", Short: "all pairs of several hosts: a matrix, and what is odd",
		Long: `mesh measures TCP goodput and round trips between all pairs of hosts, both ways, and
prints a matrix and what is odd: a host or a way that carries less than 80 % of what
the others do, a host that cannot be reached, a pair that cannot be measured. Nothing
is installed or changed on the hosts. One look suspects; --rounds measures every pair
several times and takes the median.

This machine is one of the hosts, unless --without-here leaves it out. NAME=HOST gives
a host another name. --hosts takes hosts from a file, one a line, or from the
allocation of Slurm that linerate runs in, where srun starts an agent on each node.

In a round every host is in one pair at most, and all pairs of a round run at the same
time. Where they share a link, as two switches have, they share its rate too: --at-once 1
measures one pair after the other. A linerate serve measures with other hosts than this
machine only where its --peers names them.

With --fail-on odd the exit code is 8 where something is odd, for a health check.`,
		Example: `  linerate mesh root@nas root@pi ssh://vps
  linerate mesh root@nas pi=root@10.0.0.7 --rounds 3
  linerate mesh --hosts cluster.txt --without-here --at-once 1 --fail-on odd --json
  linerate mesh --hosts slurm --fail-on odd
  linerate report last --open`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && f.hosts == "" {
				return argsFault(cmd, "takes HOST..., or --hosts", args)
			}
			return a.mesh(cmd.Context(), f, args)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.hosts, "hosts", "", "a file with one HOST a line, # begins a comment; or slurm")
	fl.BoolVar(&f.withoutHere, "without-here", false, "leave this machine out")
	fl.IntVar(&f.request.Rounds, "rounds", 1, "measure every pair so many times; the median counts")
	fl.IntVar(&f.request.AtOnce, "at-once", 0, "pairs at the same time at most (default: as many as have no host in common)")
	fl.StringVarP(&f.time, "time", "t", "3s", runTimes)
	fl.IntVarP(&f.request.Streams, "parallel", "P", mesh.DefaultStreams, "parallel connections")
	fl.StringVar(&f.failOn, "fail-on", "", "odd: exit code 8 where something is odd")
	fl.StringVar(&f.request.Title, "title", "", "a name for the session")
	return c
}

// runTimes describes --time of many runs in a row.
const runTimes = "measured time of each way, 100ms to 1m"

// runTime parses --time as runTimes says.
func (f *faults) runTime(text string) time.Duration {
	d, err := units.ParseDuration(text)
	if err == nil && (d < 100*time.Millisecond || d > time.Minute) {
		err = fmt.Errorf("%s is not between 100ms and 1m", text)
	}
	f.add("time", err)
	return d
}

// ask returns the request that flags and arguments describe.
func (a *console) ask(f meshFlags, args []string) (mesh.Request, error) {
	q := f.request
	var bad faults
	q.Time = bad.runTime(f.time)
	for _, n := range []struct {
		flag               string
		value, least, most int
	}{{"rounds", q.Rounds, 1, 100}, {"at-once", q.AtOnce, 0, fleet.MostHosts}, {"parallel", q.Streams, 1, 128}} {
		if n.value < n.least || n.value > n.most {
			bad.add(n.flag, fmt.Errorf("%d is not between %d and %d", n.value, n.least, n.most))
		}
	}
	bad.join(oneOf("fail-on", f.failOn, "odd"))
	if err := bad.err(); err != nil {
		return q, err
	}
	if !f.withoutHere && f.hosts != slurmHosts {
		q.Hosts = []mesh.Host{{Target: target.Target{Kind: target.Here, Text: app.ThisMachine}}}
	}
	switch f.hosts {
	case "":
	case slurmHosts:
		nodes, err := a.slurm()
		if err != nil {
			return q, err
		}
		q.Hosts = append(q.Hosts, nodes...)
	default:
		lines, err := hostLines(f.hosts)
		if err != nil {
			return q, err
		}
		args = append(lines, args...)
	}
	for _, text := range args {
		var h mesh.Host
		if m := named.FindStringSubmatch(text); m != nil {
			h.Name, text = m[1], m[2]
		}
		var err error
		if h.Target, err = target.Parse(text, a.world()); err != nil {
			return q, err
		}
		q.Hosts = append(q.Hosts, h)
	}
	return q, q.Validate()
}

// named matches NAME=HOST.
var named = regex.New(`^([A-Za-z0-9][A-Za-z0-9._-]*)=(.*)$`)

// longestHosts is the largest file of hosts, in bytes.
const longestHosts = 1 << 20

// hostLines returns the hosts in a file.
func hostLines(path string) (hosts []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.New(fault.Usage, err, "--hosts names a file with one HOST a line, or is slurm")
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, longestHosts))
	if err != nil {
		return nil, fault.WithKind(fault.Usage, err)
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			hosts = append(hosts, line)
		}
	}
	if len(hosts) == 0 {
		err = fault.WithHint(fault.Usagef("%s names no host", path), "write one HOST a line")
	}
	return hosts, err
}

// slurm returns the nodes of this allocation. srun starts an agent on each, beside running jobs.
func (a *console) slurm() (nodes []mesh.Host, err error) {
	const variable = "SLURM_JOB_NODELIST" // of sbatch(1)
	list := a.Getenv(variable)
	if list == "" {
		return nil, fault.WithHint(fault.Usagef("--hosts slurm: there is no allocation here: %s is not set", variable), "run it in one: salloc -N 4 linerate mesh --hosts slurm, or a script of sbatch")
	}
	names, err := fleet.Hostlist(list)
	if err != nil {
		return nil, fault.WithKind(fault.Usage, fmt.Errorf("%s: %w", variable, err))
	}
	for _, name := range names {
		argv := append([]string{"srun", "--overlap", "-N1", "-n1", "-w", name}, append(a.Self, "agent")...)
		nodes = append(nodes, mesh.Host{Name: name, Target: target.Target{Kind: target.Exec, Text: "exec:" + name + " " + plain.ShellLine(argv), Addr: name, Argv: argv}})
	}
	return nodes, nil
}

func (a *console) mesh(ctx context.Context, f meshFlags, args []string) error {
	q, err := a.ask(f, args)
	if err != nil {
		return err
	}
	q.Command, q.Seed = target.RedactAll(os.Args), rand.Uint64()>>11 // JSON numbers hold 53 bits exactly
	st, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	world := a.world()
	world.Observer = meshObserver{a}
	s, err := mesh.Run(ctx, world, target.New(world, a.reaching()), st, q)
	if len(s.Runs) == 0 {
		return err
	}
	if rerr := a.report(context.WithoutCancel(ctx), st, s); rerr != nil {
		return errors.Join(err, rerr)
	}
	if err == nil && f.failOn != "" {
		return mesh.Verdict(&s)
	}
	return err
}

// meshObserver reports the progress of a mesh.
type meshObserver struct{ *console }

// Observe implements app.Observer.
func (a meshObserver) Observe(e app.Event) {
	switch e := e.(type) {
	case app.Waiting: // of many hosts, each near and far
	case app.MeshBegan:
		a.talk("session %s: %s in %s, about %s", e.Session.ID, plain.Count(e.Pairs, "pair"), plain.Count(e.Rounds, "round"), units.FormatDuration(e.Takes.Round(time.Second)))
	case app.PairMeasured:
		text := fmt.Sprintf("%s -> %s %s, back %s", e.Near, e.Far, rateText(e.There), rateText(e.Back))
		if e.There == 0 && e.Back == 0 {
			text = fmt.Sprintf("%s and %s not measured", e.Near, e.Far)
		}
		if e.Problem != "" {
			text += ": " + e.Problem
		}
		if e.Left >= time.Second {
			text += "; about " + units.FormatDuration(e.Left.Round(time.Second)) + " left"
		}
		a.talk("%d of %d: %s", e.Done, e.Pairs, text)
	default:
		a.console.Observe(e)
	}
}

func rateText(r units.BitRate) string {
	if r == 0 {
		return "not measured"
	}
	return r.String()
}
