package judge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"linerate/bench/internal/machines"
	"linerate/internal/core/model"
	"linerate/internal/lab/faults"
)

// Machines is the kind that stands for all of faults.MachineKinds.
const Machines = "machines"

// machineTime is the timeout of a case in machines: emulation is slow.
const machineTime = 4 * time.Minute

// cards returns the cards of both machines. A virtual card has whatever speed is configured.
func cards() []machines.Card {
	return []machines.Card{{Model: "e1000e"}, {Model: "pcnet"}, {Model: "virtio-net-pci", Options: "speed=10,duplex=full"}}
}

// hosts are the machines, once the first case needs them.
type hosts struct {
	both  *machines.Two
	group group // of the machines and their wires, so that other work is not the limit
}

func (h *hosts) start(ctx context.Context, program string) (err error) {
	if h.both != nil {
		return nil
	}
	if h.group, err = newGroup(false); err != nil {
		return err
	}
	h.both, err = machines.Start(ctx, program, cards())
	if err != nil {
		h.close()
	}
	return err
}

func (h *hosts) close() {
	if h.both != nil {
		h.both.Close()
		h.both = nil
	}
	h.group.remove()
	h.group = group{}
}

// ofMachines reports whether o selects cases in machines.
func (o Options) ofMachines() bool {
	return o.Kind == Machines || slices.ContainsFunc(faults.MachineKinds(), func(k faults.MachineKind) bool { return k.Name == o.Kind })
}

// Missing names what the cases of o require and is not installed: images of machines; "" if
// nothing is missing.
func (o Options) Missing() string {
	if !o.ofMachines() {
		return ""
	}
	return machines.Missing()
}

// Kinds returns the kinds of labs, of machines and of paths with routers.
func Kinds() []faults.Kind {
	all := faults.Catalogue()
	for _, k := range faults.MachineKinds() {
		all = append(all, faults.Kind{Name: k.Name, Says: k.Says, Harmless: k.Harmless, Skip: machines.Missing()})
	}
	for _, k := range faults.RouterKinds() {
		all = append(all, faults.Kind{Name: k.Name, Says: k.Says})
	}
	return all
}

// judge measures a case in machines and scores it.
func (h *hosts) judge(ctx context.Context, o Options, c faults.Case) (row Row, text []byte) {
	failed := func(err error) Row {
		return Row{Seed: c.Seed, Kind: c.Kind, Clean: c.Clean, Bit: true, Failed: err.Error()}
	}
	if err := h.start(ctx, o.Program); err != nil {
		return failed(err), nil
	}
	began, late := time.Now(), group{}.sleeper()
	text, err := h.look(ctx, c)
	share := late()
	var d document
	if err == nil && (json.Unmarshal(text, &d) != nil || d.Session == nil) {
		err = errors.New("no document")
	}
	if err != nil {
		row = failed(err)
		h.close() // it may have left something behind
	} else {
		row = Score(c, d.Session, 0) // a guest does not see time that its host steals
	}
	row.Seconds, row.Late, row.Command = time.Since(began).Seconds(), share, strings.Join(machineCommand(c)[:1], " ")
	return row, text
}

// look plants the case's fault, and runs linerate.
func (h *hosts) look(ctx context.Context, c faults.Case) (text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, machineTime)
	defer cancel()
	m := c.Machine
	card := slices.IndexFunc(cards(), func(one machines.Card) bool { return one.Model == m.Card })
	h.both.Set(card, c.Rate, m.Half)
	near, far, back := m.Before[0], m.Before[1], m.Back
	l := machines.Look{Name: fmt.Sprint(c.Kind, "-", c.Seed), Args: machineCommand(c), Card: card}
	if m.Busy != "" {
		const core = "2" // the mask of the second core: the cards interrupt the first
		spin := fmt.Sprintf("setsid taskset %s nice -n %d sh -c 'while :; do :; done' > /dev/null 2>&1 &\necho $! > /tmp/busy\n", core, m.Nice)
		back += "[ ! -e /tmp/busy ] || kill $(cat /tmp/busy)\nrm -f /tmp/busy\npgrep -x linerate | while read -r p; do taskset -a -p 3 $p > /dev/null; done\n"
		if m.Busy == model.Near {
			near += spin
			l.Prefix = []string{"taskset", core}
		} else {
			far += "pgrep -x linerate | while read -r p; do taskset -a -p " + core + " $p > /dev/null; done\n" + spin
		}
	}
	if m.Pulled > 0 {
		l.During = func(w machines.Watched) error {
			if err := w.Flowing(); err != nil {
				return err
			}
			return w.Pull(m.Pulled)
		}
	}
	defer func() {
		for host := range 2 {
			err = errors.Join(err, h.both.Shell(context.WithoutCancel(ctx), host, card, back))
		}
	}()
	if err := errors.Join(h.both.Shell(ctx, 0, card, near), h.both.Shell(ctx, 1, card, far)); err != nil {
		return nil, fmt.Errorf("plant: %w", err)
	}
	return h.both.Look(ctx, l)
}

// machineCommand returns the arguments that measure a case in machines; "" stands for the
// address of far.
func machineCommand(c faults.Case) []string {
	if c.Check {
		return append([]string{"check", "", "--quick"}, c.Args...)
	}
	return append([]string{"test", ""}, c.Args...)
}
