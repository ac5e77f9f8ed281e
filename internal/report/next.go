package report

import (
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/analysis"
	"linerate/internal/core/candidate"
	"linerate/internal/core/diagnose"
	"linerate/internal/core/health"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/plan"
	"linerate/internal/core/profile"
	"linerate/internal/core/units"
)

// tries returns the experiments that would show whether the candidates help: one command for
// all levels of a setting.
func (b *builder) tries() []Step {
	if b.s.Kind != model.KindTest && b.s.Kind != model.KindCheck {
		return nil
	}
	var steps []Step
	all := candidate.Session(b.s)
	short := slices.IndexFunc(all, func(c candidate.Candidate) bool { return c.Rule == candidate.QueueRule && b.mayChange(c.Setting) })
	if short >= 0 {
		steps = append(steps, Step{"try what keeps the queue short", b.command("tune", all[short].Setting, "--goal latency")})
	}
	for i, c := range all {
		if c.Rule == candidate.QueueRule {
			continue // they help the latency, not the rate
		}
		first := slices.IndexFunc(all, func(o candidate.Candidate) bool { return o.Levels == c.Levels && o.Direction == c.Direction })
		if first != i || c.Caution != "" || !b.mayChange(c.Setting) {
			continue
		}
		var values []string
		for _, o := range all {
			if o.Levels == c.Levels && o.Direction == c.Direction {
				values = append(values, o.Text())
			}
		}
		steps = append(steps, Step{"try it", b.runCommand(c, values)})
	}
	return steps
}

// closer returns the check of a path whose limit a test could not fully determine, if a check
// can: it measures both directions at once, several streams, and datagrams.
func (b *builder) closer() []Step {
	if strings.HasPrefix(b.s.Far, "iperf") { // check cannot reach it
		return nil
	}
	for _, f := range b.findings() {
		byCheck := slices.ContainsFunc(f.Missing, func(m model.Missing) bool { return m.How == diagnose.ByCheck })
		if b.s.Kind == model.KindTest && f.Main && byCheck {
			return []Step{{"look closer, with both directions at once", b.command("check", model.Setting{})}}
		}
	}
	return nil
}

// keep returns the command that keeps the result of an experiment, if that is unambiguous: on
// this machine, on the far end, or on both. A lab cannot keep anything.
func (b *builder) keep() []Step {
	name, _ := profile.Chosen(*b.s)
	if name == "" || b.s.Kind != model.KindRun || b.untrustworthy() != "" || strings.HasPrefix(b.s.Far, "lab:") {
		return nil
	}
	setting, _ := b.s.Plan.Setting(name)
	p, _, err := profile.FromSession(*b.s, name)
	if err != nil || !b.mayChange(setting) {
		return nil
	}
	changes := map[model.Host]bool{}
	for _, a := range setting.Assignments {
		changes[a.Host] = true
	}
	command := func(words ...string) string {
		words = append([]string{"linerate keep", b.s.ID}, words...)
		return strings.Join(append(append(words, b.reached(setting)...), b.stored()...), " ")
	}
	what := "keep " + name
	far, near := b.hostWord(b.s.Far), b.hostWord(b.s.Near)
	switch here := b.s.Near == model.ThisMachine; {
	case here && changes[model.Near] && changes[model.Far]:
		return []Step{{what, command(far, "--both")}}
	case here && changes[model.Near]:
		return []Step{{what, command()}}
	case here:
		return []Step{{what, command(far)}}
	}
	var steps []Step
	for _, end := range []struct {
		host model.Host
		word string
		role profile.Role
	}{{model.Near, near, p.Hosts[0].Role}, {model.Far, far, p.Hosts[len(p.Hosts)-1].Role}} {
		switch {
		case !changes[end.host]:
		case end.role == profile.Both:
			steps = append(steps, Step{what, command(end.word)})
		default:
			steps = append(steps, Step{what, command(end.word, "--role "+string(end.role))})
		}
	}
	return steps
}

// target returns the text by which host h was reached.
func (b *builder) target(h model.Host) string {
	if h == model.Near {
		return b.s.Near
	}
	return b.s.Far
}

// mayChange reports whether this controller can change the hosts that s changes: a server of
// linerate or of another program only measures, unless its key says otherwise, which sessions
// do not store.
func (b *builder) mayChange(s model.Setting) bool {
	for _, a := range s.Assignments {
		scheme, _, isURL := strings.Cut(b.target(a.Host), "://")
		if a.Host != "" && isURL && scheme != "ssh" {
			return false
		}
	}
	return true
}

// testCommand returns the command of a quick test between the same hosts, reached in the same
// way.
func (b *builder) testCommand() string { return b.command("test", model.Setting{}) }

// command returns a linerate command between the same hosts, reached in the same way, which may
// apply s.
func (b *builder) command(name string, s model.Setting, flags ...string) string {
	words := append([]string{"linerate " + name, b.hostWord(b.s.Far)}, b.from()...)
	words = append(words, b.s.Plan.Path.Flags()...)
	words = append(append(words, b.reached(s)...), flags...)
	return strings.Join(append(words, b.stored()...), " ")
}

// from returns the flag for a near end other than this machine. A lab is both ends.
func (b *builder) from() []string {
	if near := b.s.Near; near != "" && near != b.s.Far && near != model.ThisMachine {
		return []string{"--from " + b.hostWord(near)}
	}
	return nil
}

// runCommand returns the experiment over one factor, between the same hosts, reached in the
// same way, with the same traffic.
func (b *builder) runCommand(c candidate.Candidate, values []string) string {
	words := append([]string{"linerate run", b.hostWord(b.s.Far)}, b.from()...)
	words = append(words, b.reached(c.Setting)...)
	words = append(words, b.s.Plan.Path.Flags()...)
	words = append(words, b.flags(b.s.Plan.Flow)...)
	if c.Direction == model.From {
		words = append(words, "--direction from")
	}
	words = append(words, "--factor "+plain.ShellWord(c.Levels+"="+strings.Join(values, ",")))
	return strings.Join(append(words, b.stored()...), " ")
}

// hostWord returns a HOST as the user gave it. The stored text of a join link lacks its secret:
// if the command took it from a file or from the environment, the next command can do so too.
func (b *builder) hostWord(text string) string {
	if strings.HasPrefix(text, "linerate://") {
		var at []string
		for _, word := range b.s.Command {
			if strings.HasPrefix(word, "@") {
				at = append(at, word)
			}
		}
		if len(at) == 1 {
			return plain.ShellWord(at[0])
		}
	}
	return plain.ShellWord(text)
}

// The flags for reaching a host, as the user gives them.
const (
	sudoFlag     = "--sudo"
	insecureFlag = "--insecure"
	keepFlag     = "--keep-agent"
	trustFarFlag = "--trust-far-binary"
)

// reached returns the flags for reaching the session's hosts, with sudo even if the session
// did not use it, because changing a host needs root.
func (b *builder) reached(s model.Setting) []string {
	var out []string
	if b.given(sudoFlag) || b.needsSudo(s) {
		out = append(out, sudoFlag)
	}
	for _, f := range []string{trustFarFlag, keepFlag, insecureFlag} {
		if b.given(f) {
			out = append(out, f)
		}
	}
	return out
}

// given reports whether a switch was on the session's command line.
func (b *builder) given(flag string) bool {
	on := false
	for _, word := range b.s.Command {
		name, value, assigned := strings.Cut(word, "=")
		switch v, err := strconv.ParseBool(value); {
		case name != flag:
		case !assigned:
			on = true
		case err == nil:
			on = v
		}
	}
	return on
}

// needsSudo reports whether s changes a host that is reached over ssh with a user name other
// than root.
func (b *builder) needsSudo(s model.Setting) bool {
	for _, a := range s.Assignments {
		text := b.target(a.Host)
		user, _, named := strings.Cut(strings.TrimPrefix(text, "ssh://"), "@")
		overSSH := strings.HasPrefix(text, "ssh://") || named && !strings.Contains(text, "://") && !strings.HasPrefix(text, "exec:") && !strings.HasPrefix(text, "lab:")
		if a.Host != "" && overSSH && named && user != "root" && b.facts(a.Host).OS != "windows" {
			return true
		}
	}
	return false
}

// flags returns the flags of run for the traffic of f.
func (b *builder) flags(f model.Flow) []string {
	var out []string
	add := func(given bool, flag, value string) {
		if given {
			out = append(out, flag+" "+plain.ShellWord(value))
		}
	}
	if d := b.demand(f); d.Datagrams {
		out = append(out, "--udp", "-b "+strconv.FormatFloat(float64(d.Rate), 'f', -1, 64))
	}
	add(f.Streams > 1, "-P", strconv.Itoa(f.Streams))
	add(f.Block > 0, "-l", size(f.Block))
	add(f.Window > 0, "-w", size(f.Window))
	add(f.MSS > 0, "-M", strconv.Itoa(f.MSS))
	add(f.Congestion != "", "-C", f.Congestion)
	if f.Nagle {
		out = append(out, "--nagle")
	}
	return out
}

// size formats b so that it parses back exactly.
func size(b units.Bytes) string {
	text := strings.ReplaceAll(b.String(), " ", "")
	if back, err := units.ParseBytes(text); err == nil && back == b {
		return text
	}
	return strconv.FormatInt(int64(b), 10)
}

// stored returns the flag with the store, if the session's command had one.
func (b *builder) stored() []string {
	if b.store != "" {
		return []string{"--db " + plain.ShellWord(b.store)}
	}
	for i, word := range b.s.Command {
		value, assigned := strings.CutPrefix(word, "--db=")
		if !assigned && word == "--db" && i+1 < len(b.s.Command) {
			value, assigned = b.s.Command[i+1], true
		}
		if assigned && value != "" && value != ":memory:" {
			return []string{"--db " + plain.ShellWord(value)}
		}
	}
	return nil
}

// undisturbed returns the check once more if an aspect has no grade since a host was disturbed.
func (b *builder) undisturbed() []Step {
	words, ok := b.repeated("check")
	if b.s.Kind != model.KindCheck || !ok || !slices.ContainsFunc(health.Judge(b.s), func(l health.Line) bool { return l.Again }) {
		return nil
	}
	return []Step{{"measure again while the hosts have less to do", strings.Join(words, " ")}}
}

// again returns the command that shows this session again. A session kept only in memory is
// gone with its process.
func (b *builder) again() Step {
	return Step{"see this again", strings.Join(append([]string{"linerate show " + b.s.ID}, b.stored()...), " ")}
}

// further returns the command that continues until the open verdicts of an experiment are
// likely to be decided, if its evidence permits that.
func (b *builder) further() []Step {
	p := &b.s.Plan
	if b.s.Kind != model.KindRun || p.Mode != model.Sequential || b.untrustworthy() != "" {
		return nil
	}
	more, most := b.openFor(false)
	most = min(max(most, plan.Comparisons(*p)), plan.MaxBlocks)
	if more == 0 || most == plan.Comparisons(*p) && len(analysis.OpenBlocks(*p, b.s.Runs)) == 0 {
		return nil
	}
	until := "go on until it is decided"
	if all, _ := b.openFor(true); all > more {
		until = "go on until more of it is decided"
	}
	return []Step{b.resume("run", until+" ("+b.moreBlocks(more)+")", b.extension(most)...)}
}

// extension returns the flags for more blocks, and for more data if the session's budget would
// not suffice.
func (b *builder) extension(blocks int) []string {
	p := &b.s.Plan
	out := []string{"--max-blocks " + strconv.Itoa(blocks)}
	if need := plan.DataFor(b.s.Runs, blocks+p.NullBlocks); p.Data > 0 && need > p.Data {
		out = append(out, "--data "+strings.ReplaceAll(need.Decimal(), " ", ""))
	}
	return out
}

// anew returns the command to repeat an experiment, with as many blocks as it is likely to
// need: a number of blocks given beforehand is judged once, so none can be added (statistics.md
// section 5.4).
func (b *builder) anew() []Step {
	more, most := b.openFor(false)
	words, ok := b.repeated("run", "--blocks", "--max-blocks", "--seed")
	if !ok || b.s.Plan.Mode != model.FixedBlocks || more == 0 || most > plan.MaxBlocks || !b.advice().open {
		return nil
	}
	return []Step{{"measure again", strings.Join(append(words, "--blocks "+strconv.Itoa(most)), " ")}}
}

// repeated returns the session's own command, without the given flags, which have values. It
// reports false if another command measured, and if the command held a secret, which no store
// has.
func (b *builder) repeated(command string, without ...string) (words []string, ok bool) {
	if len(b.s.Command) < 3 || b.s.Command[1] != command {
		return nil, false
	}
	words = []string{"linerate"}
	skip := false
	for _, word := range b.s.Command[1:] {
		name, _, assigned := strings.Cut(word, "=")
		switch {
		case skip:
			skip = false
		case strings.HasPrefix(word, "linerate://"), strings.Contains(word, "..."): // a secret is not stored
			return nil, false
		case slices.Contains(without, name):
			skip = !assigned
		default:
			words = append(words, plain.ShellWord(word))
		}
	}
	return words, true
}

// resume returns the command that continues a session.
func (b *builder) resume(command, what string, how ...string) Step {
	words := append([]string{"linerate " + command + " --resume " + b.s.ID}, how...)
	if strings.HasPrefix(b.s.Near, "exec:") || strings.HasPrefix(b.s.Far, "exec:") {
		words = append(words, "--allow-exec")
	}
	return Step{what, strings.Join(append(append(words, b.reached(model.Setting{})...), b.stored()...), " ")}
}
