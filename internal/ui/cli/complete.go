package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"linerate/internal/app/inspect"
	"linerate/internal/app/target"
	"linerate/internal/core/diagnose"
	"linerate/internal/core/health"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/profile"
	"linerate/internal/lab"
	"linerate/internal/regex"
	"linerate/internal/report/term"
	"linerate/internal/store"
	"linerate/internal/store/postgres"
	"linerate/internal/ui/manual"
)

// completionTime is how long a shell may wait after a tab.
var completionTime = 80 * time.Millisecond

// completedSessions is how many sessions are offered, newest first.
const completedSessions = 20

// offer returns words for the cursor position: those that begin with typed, and possibly others,
// which are dropped afterwards.
type offer func(ctx context.Context, typed string) []inspect.Word

// complete sets the completion of arguments and flag values for all commands below c; common is
// for flags that mean the same everywhere. Completion opens no connection, and offers only what
// it finds without one.
func (a *console) complete(c *cobra.Command, common map[string]offer) {
	for _, sub := range c.Commands() {
		a.complete(sub, common)
	}
	if args := a.argumentWords(c.CommandPath()); args != nil {
		c.ValidArgsFunction = offered(func(n int) offer { return args[min(n, len(args)-1)] })
	}
	for _, words := range []map[string]offer{ownFlagWords(c.Name()), common} {
		for flag, w := range words {
			if c.Flags().Lookup(flag) != nil {
				_ = c.RegisterFlagCompletionFunc(flag, offered(func(int) offer { return w })) // fails only if the flag has one already
			}
		}
	}
}

// argumentWords returns the offers for a command's arguments, the last one for all that follow.
func (a *console) argumentWords(command string) []offer {
	_, name, _ := strings.Cut(command, " ")
	settings, profiles := a.assignments(false, false), filesWith(".yaml", ".yml")
	switch name {
	case "test", "sweep", "copy", "check", "tune", "facts", "knobs", "undo":
		return []offer{a.hosts, none}
	case "mesh", "watch":
		return []offer{a.hosts}
	case "recheck":
		return []offer{any2(a.names, any2(a.sessions, a.hosts))}
	case "run":
		return []offer{any2(filesWith(".yaml", ".yml"), a.hosts)}
	case "set":
		return []offer{any2(settings, a.hosts)}
	case "keep":
		return []offer{any2(a.sessions, profiles), a.hosts, none}
	case "export":
		return []offer{any2(a.sessions, profiles), none}
	case "show", "report":
		return []offer{a.sessions, none}
	case "compare":
		return []offer{a.sessions, a.sessions, none}
	case "rm":
		return []offer{a.sessions}
	case "annotate":
		return []offer{a.sessions, none, none}
	case "profile save":
		return []offer{a.sessions, profiles, none}
	case "profile apply", "profile diff":
		return []offer{profiles, a.hosts, none}
	case "fleet apply":
		return []offer{profiles, none}
	case "profile show":
		return []offer{profiles, none}
	case "knobs explain":
		return []offer{a.names}
	case "lab":
		return []offer{a.labSpec}
	case "docs":
		return []offer{topics, none}
	}
	return nil
}

// flagWords returns the offers for flags that mean the same in all commands.
func (a *console) flagWords() map[string]offer {
	return map[string]offer{
		"from": a.hosts, "far": a.hosts, "resume": a.sessions, "beside": a.sessions,
		"engine": fixed(a.kinds().Names()...), "pacing": fixed("kernel", "clock"),
		"goal": fixed("throughput", "latency", "cpu"), "allow": fixed("risky"),
		"congestion": algorithms, "factor": a.assignments(true, true), "set": a.namedSet,
		"only": eachEnd(a.names), "never": eachEnd(a.names),
		"role": fixed(plain.Texts(profile.Roles()[1:])...), "direction": fixed("to", "from", "each", "both"),
		"source": fixed("disk", "memory"), "sink": fixed("disk", "memory"),
	}
}

// ownFlagWords returns the offers for flags that only one command has, or has with other values.
func ownFlagWords(command string) map[string]offer {
	switch command {
	case "list", "prune":
		return map[string]offer{"kind": fixed(sessionKinds()...), "state": fixed(sessionStates()...), "finding": findings}
	case "export", "keep":
		return map[string]offer{"for": fixed(plain.Texts(model.FileFormats())...)}
	case "report":
		return map[string]offer{"format": fixed(reportFormats()...)}
	case "mesh":
		return map[string]offer{"hosts": any2(fixed(slurmHosts), filesWith(".txt")), "fail-on": fixed("odd")}
	case "matrix":
		return map[string]offer{"metric": fixed("goodput", "rtt", "loss")}
	case "tune":
		return map[string]offer{"direction": fixed("to", "from", "each")}
	}
	return nil
}

// offered adapts w to cobra: it keeps the words that begin with what was typed, and adds no
// blank after an incomplete one.
func offered(w func(n int) offer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		var out []string
		whole := false
		for _, one := range w(len(args))(ctx, typed) {
			if !strings.HasPrefix(one.Text, typed) {
				continue
			}
			out = append(out, cobra.CompletionWithDesc(one.Text, one.About))
			whole = whole || !strings.ContainsAny(one.Text[len(one.Text)-1:], "=:./,")
		}
		if whole || len(out) == 0 {
			return out, cobra.ShellCompDirectiveNoFileComp
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// fixed offers always the same words.
func fixed(list ...string) offer {
	out := lists.Each(list, func(w string) inspect.Word { return inspect.Word{Text: w} })
	return func(context.Context, string) []inspect.Word { return out }
}

func none(context.Context, string) []inspect.Word { return nil }

// findings offers the codes of findings, and the lines of a check.
func findings(context.Context, string) (out []inspect.Word) {
	for _, r := range diagnose.Rules() {
		if r.ID != "ceiling" { // which is no limit
			out = append(out, inspect.Word{Text: r.ID, About: r.Name})
		}
	}
	lines := health.Judge(&model.Session{Check: &model.Check{}})
	for _, l := range slices.CompactFunc(lines, func(a, b health.Line) bool { return a.Thing == b.Thing }) {
		out = append(out, inspect.Word{Text: l.Thing, About: "a line of linerate check that is POOR or BAD"})
	}
	return out
}

// topics offers the topics of linerate docs.
func topics(context.Context, string) (out []inspect.Word) {
	for _, t := range manual.Topics() {
		out = append(out, inspect.Word{Text: t.Name, About: t.Title})
	}
	return out
}

// any2 offers the words of both.
func any2(first, second offer) offer {
	return func(ctx context.Context, typed string) []inspect.Word {
		return append(first(ctx, typed), second(ctx, typed)...)
	}
}

// filesWith offers folders, and files with one of the endings.
func filesWith(endings ...string) offer {
	return func(_ context.Context, typed string) (out []inspect.Word) {
		dir, _ := filepath.Split(typed)
		entries, _ := os.ReadDir(filepath.Clean("./" + dir))
		if filepath.IsAbs(dir) {
			entries, _ = os.ReadDir(dir)
		}
		for _, e := range entries {
			switch {
			case strings.HasPrefix(e.Name(), "."):
			case e.IsDir():
				out = append(out, inspect.Word{Text: dir + e.Name() + "/"})
			case slices.Contains(endings, filepath.Ext(e.Name())):
				out = append(out, inspect.Word{Text: dir + e.Name()})
			}
		}
		return out
	}
}

// hosts offers the hosts that this user has used, and the forms of other hosts. For ssh hosts it
// keeps a typed user name.
func (a *console) hosts(ctx context.Context, typed string) []inspect.Word {
	if spec, ok := strings.CutPrefix(typed, "lab:"); ok {
		return before("lab:", a.labSpec(ctx, spec))
	}
	home := a.home()
	var out []inspect.Word
	user, _, at := strings.Cut(typed, "@")
	for _, host := range target.Known(a.Getenv, home) {
		name, ssh := strings.CutPrefix(host, "ssh://")
		switch {
		case ssh && at && user != "":
			out = append(out, inspect.Word{Text: strings.TrimPrefix(user, "ssh://") + "@" + name, About: "over ssh"},
				inspect.Word{Text: "ssh://" + strings.TrimPrefix(user, "ssh://") + "@" + name, About: "over ssh"})
		case ssh:
			out = append(out, inspect.Word{Text: host, About: "over ssh"})
		default:
			out = append(out, inspect.Word{Text: host, About: "its linerate serve"})
		}
	}
	out = append(out, inspect.Word{Text: "lab:", About: "two virtual hosts and a wire"})
	for _, p := range a.world().AllPrograms() {
		if p.New != nil {
			out = append(out, inspect.Word{Text: p.Name + "://", About: "an " + p.Server})
		}
	}
	return out
}

// labHop matches the prefix of a lab router's keys.
var labHop = regex.New(`^((to|from)\.)?hop[1-9]\.`)

// labSpec offers the lab keys that are not yet typed, and the values of its hosts' settings.
func (a *console) labSpec(ctx context.Context, typed string) []inspect.Word {
	i := strings.LastIndexByte(typed, ',') + 1
	head, last := typed[:i], typed[i:]
	var out []inspect.Word
	if head == "" {
		out = append(out, fixed("lan", "wan", "lossy", "sat")(ctx, "")...)
	}
	add := func(text, about string) { out = append(out, inspect.Word{Text: text, About: about}) }
	hop := labHop.FindString(last)
	for _, key := range lab.Keys() {
		word, about, _ := strings.Cut(key, " ")
		about = strings.TrimSpace(about)
		name, _, takes := strings.Cut(word, "=")
		name, ofHop := strings.CutPrefix(name, "hopK.")
		ofWire := !strings.Contains(about, "whole lab only") && !strings.Contains(name, ".")
		switch {
		case ofHop && strings.HasPrefix(hop, "from.") && name != "mtu": // of the router
		case ofHop && hop != "" && takes:
			add(hop+name+"=", about)
		case ofHop && hop != "" && name == "silent":
			add(hop+name, about)
		case ofHop || !takes: // not a key, but a prefix of keys
		case hop != "" && ofWire && name != "rtt":
			add(hop+name+"=", about)
		case hop != "": // of the whole path
		default:
			add(name+"=", about)
			if ofWire {
				add("to."+name+"=", "to the far host: "+about)
				add("from."+name+"=", "from the far host: "+about)
			}
		}
	}
	if hop != "" {
		return before(head, out)
	}
	if strings.Contains(head, "hops=") {
		add("hop1.", "router 1 and the link that leaves it")
	}
	out = append(out, inspect.Word{Text: "duplex=half"})
	if end, _, dotted := strings.Cut(last, "."); dotted {
		if _, isHost := model.ParseHost(end); isHost {
			return before(head, append(out, a.assignments(false, true)(ctx, last)...))
		}
	}
	out = append(out, inspect.Word{Text: "near.", About: "a setting of the near host"}, inspect.Word{Text: "far.", About: "a setting of the far host"})
	return before(head, out)
}

// before puts head in front of all words.
func before(head string, list []inspect.Word) []inspect.Word {
	for i := range list {
		list[i].Text = head + list[i].Text
	}
	return list
}

// names offers the names of settings.
func (a *console) names(context.Context, string) []inspect.Word {
	return inspect.Names(a.knobs, false, false)
}

// eachEnd offers, after a comma, names of settings of both hosts and of one end.
func eachEnd(w offer) offer {
	return func(ctx context.Context, typed string) []inspect.Word {
		i := strings.LastIndexByte(typed, ',') + 1
		return before(typed[:i], ofEnd(typed[i:], w(ctx, typed[i:])))
	}
}

// ofEnd offers names after a typed end, and the words for ends.
func ofEnd(typed string, list []inspect.Word) []inspect.Word {
	end, _, dotted := strings.Cut(typed, ".")
	if _, ok := model.ParseHost(end); ok && dotted {
		return before(end+".", list)
	}
	return append(list, inspect.Word{Text: "near.", About: "a setting of the near host"}, inspect.Word{Text: "far.", About: "a setting of the far host"})
}

// assignments offers KNOB=, or after that the values of the setting. A factor, which may also be
// of the traffic, takes several values separated by commas.
func (a *console) assignments(traffic, all bool) offer {
	return func(ctx context.Context, typed string) []inspect.Word {
		name, value, assigned := strings.Cut(typed, "=")
		if !assigned {
			list := ofEnd(typed, inspect.Names(a.knobs, all, traffic))
			if traffic && !strings.Contains(typed, ".") {
				list = append(append(list, a.options()...), inspect.Word{Text: model.FarEnd, About: "several far ends"}, inspect.Word{Text: model.EngineKnob, About: "kinds of traffic"})
			}
			for i := range list {
				if !strings.HasSuffix(list[i].Text, ".") {
					list[i].Text += "="
				}
			}
			return list
		}
		if traffic && name == model.EngineKnob {
			head := name + "=" + value[:strings.LastIndexByte(value, ',')+1]
			list := lists.Each(a.kinds().Names(), func(name string) inspect.Word { return inspect.Word{Text: name} })
			return before(head, list)
		}
		if traffic && name == model.FarEnd {
			return before(name+"=", a.farEnds(ctx, value))
		}
		on, id := "", name
		if end, rest, dotted := strings.Cut(name, "."); dotted {
			if _, ok := model.ParseHost(end); ok {
				on, id = end+".", rest
			}
		}
		head := on + id + "="
		if i := strings.LastIndexByte(value, ',') + 1; traffic {
			head += value[:i]
		}
		if _, o, ok := a.kinds().Owner(id); ok && traffic && on == "" && o.Switch {
			return before(head, []inspect.Word{{Text: "on"}, {Text: "off"}})
		}
		return before(head, inspect.Values(ctx, a.knobs, model.KnobID(id)))
	}
}

// namedSet offers assignments, separated by commas, after the name of a set of settings.
func (a *console) namedSet(ctx context.Context, typed string) []inspect.Word {
	at := strings.LastIndexAny(typed, ":,") + 1
	if !strings.Contains(typed, ":") {
		return nil
	}
	return before(typed[:at], a.assignments(false, true)(ctx, typed[at:]))
}

// farEnds offers hosts, separated by commas. After a comma in a lab it offers both more keys of
// that lab and the next host.
func (a *console) farEnds(ctx context.Context, typed string) []inspect.Word {
	last := strings.LastIndexByte(typed, ',') + 1
	out := before(typed[:last], a.hosts(ctx, typed[last:]))
	i := strings.LastIndex(typed[:last], "lab:")
	if i >= 0 && !slices.ContainsFunc(strings.Split(typed[i:max(i, last-1)], ",")[1:], func(part string) bool { return !strings.Contains(part, "=") }) {
		out = append(out, before(typed[:i], a.hosts(ctx, typed[i:]))...)
	}
	return out
}

// options returns what engines let runs vary, besides the settings of all traffic.
func (a *console) options() (words []inspect.Word) {
	for _, k := range a.kinds() {
		for _, o := range k.Options {
			_, known := a.knobs.ByID(model.KnobID(o.Name))
			if !known && !o.Fixed && o.Level != nil && !slices.ContainsFunc(words, func(w inspect.Word) bool { return w.Text == o.Name }) {
				words = append(words, inspect.Word{Text: o.Name, About: o.Usage})
			}
		}
	}
	return words
}

// algorithms offers the congestion controls of this machine.
func algorithms(ctx context.Context, _ string) []inspect.Word {
	return fixed(inspect.Algorithms(ctx, "congestion")...)(ctx, "")
}

// sessions offers the newest sessions of the store, with their results. It does not create a
// store.
func (a *console) sessions(ctx context.Context, _ string) []inspect.Word {
	path := a.storePath()
	if _, err := os.Stat(path); err != nil && !postgres.IsAddress(path) {
		return nil
	}
	st, err := openStoreAt(ctx, path)
	if err != nil {
		return nil
	}
	defer st.Close()
	items, err := st.Sessions(ctx, store.Filter{Limit: completedSessions, NoLooks: true})
	if err != nil {
		return nil
	}
	var out []inspect.Word
	for _, i := range items {
		item, err := listItem(ctx, st, i)
		if err != nil {
			item.Item = i
		}
		out = append(out, inspect.Word{Text: i.ID, About: strings.TrimSpace(string(item.Kind) + ", " + term.Age(a.Now().Sub(i.Created)) + " ago, " + item.What())})
	}
	if len(out) > 0 {
		out = append(out, inspect.Word{Text: "last", About: "the newest of them"})
	}
	return out
}
