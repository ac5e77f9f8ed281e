package inspect_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/app/apptest"
	"linerate/internal/app/inspect"
	"linerate/internal/app/local"
	"linerate/internal/app/target"
	"linerate/internal/core/fact"
	"linerate/internal/core/fingerprint"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/profile"
	"linerate/internal/fault"
	"linerate/internal/must"
)

func known(text string) fact.Of[string] { return fact.Known(text, "test") }

// nas is a host that runs Linux, with a line in a file and a setting that is kept.
func nas() inspect.Host {
	return inspect.Host{
		HostFacts: model.HostFacts{Host: model.Far, Name: "nas", OS: "linux", Kernel: known("6.12"), Knobs: map[model.KnobID]fact.Of[string]{
			"tcp.sack": known("0"), "tcp.recv_buffer_max": known("4194304"),
		}},
		Origins:   map[model.KnobID]model.FileLine{"tcp.sack": {File: "/etc/sysctl.d/9.conf", Number: 3, Text: "0"}},
		Kept:      map[model.KnobID]fingerprint.Standing{"tcp.recv_buffer_max": {Knob: "tcp.recv_buffer_max", Value: "4194304", State: fingerprint.Unproven}},
		Catalogue: knob.NewIndex(),
	}
}

// Each setting has its value or why there is none, the line that sets it, and its state if it
// is kept; a text finds it by its name, meaning or native name.
func TestSettings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]model.KnobID{"tcp.sack": "tcp.sack", "net.ipv4.tcp_sack": "tcp.sack", "net/ipv4/tcp_sack": "tcp.sack", "ceiling of receive buffer": "tcp.recv_buffer_max"} {
		rows := nas().Settings(text, false)
		must.True(t, slices.ContainsFunc(rows, func(s inspect.Setting) bool { return s.Knob == want }) && len(rows) <= 8, "%q finds %d settings", text, len(rows))
	}
	sack := nas().Settings("tcp.sack", false)[0]
	must.True(t, sack.Value.Or("") == "0" && sack.SetBy != nil && sack.SetBy.File == "/etc/sysctl.d/9.conf" && sack.SetBy.Line == 3 && sack.SetBy.Value == "0" && sack.Kept == nil, "%+v", sack)
	recv := nas().Settings("tcp.recv_buffer_max", false)[0]
	must.True(t, recv.Kept != nil && recv.Kept.State == fingerprint.Unproven && recv.Kept.Value == "4194304" && recv.SetBy == nil, "%+v", recv)
	other := nas().Settings("tcp.dsack", false)
	must.True(t, len(other) == 1 && !other[0].Value.IsKnown() && other[0].Value.Reason() == "not read", "%+v", other)
	here, all := nas().Settings("tcp.autotune_level", false), nas().Settings("tcp.autotune_level", true)
	must.True(t, len(here) == 0 && len(all) == 1, "a setting of Windows: %d here, %d of all systems", len(here), len(all))
}

// A profile compared with a host: what is the same, what may not apply there, what is not
// possible.
func TestCompare(t *testing.T) {
	t.Parallel()
	p := profile.Host{Role: profile.Far, System: "linux", Kernel: "6.1", Settings: []profile.Setting{{Knob: "tcp.sack", Value: "0"}, {Knob: "tcp.recv_buffer_max", Value: "8388608"}}}
	c := inspect.Compare(p, nas().HostFacts)
	must.True(t, !c.Same && len(c.Settings) == 2 && c.Settings[0].Same && !c.Settings[1].Same && len(c.Doubts) == 1 && strings.Contains(c.Doubts[0], "kernel 6.1") && len(c.Conflict) == 0, "%+v", c)
	p.Settings, p.Kernel = p.Settings[:1], ""
	c = inspect.Compare(p, nas().HostFacts)
	must.True(t, c.Same && len(c.Doubts) == 0, "%+v", c)
}

// A foreign program reveals nothing about its host; the error says so before any question or
// event.
func TestForeignHosts(t *testing.T) {
	t.Parallel()
	p := &apptest.Person{}
	env := apptest.Env(p)
	env.Catalogue = knob.NewIndex()
	_, err := inspect.Far(t.Context(), env, target.New(env, target.Options{}), "iperf3://127.0.0.1", true)
	must.True(t, fault.KindOf(err) == fault.Usage && strings.Contains(fault.HintOf(err), "linerate serve") && len(p.Asked())+len(p.Events()) <= 0, "%v; asked %v, told %v", err, p.Asked(), p.Events())
}

// What a name means, in any of its forms, and names that mean nothing.
func TestExplain(t *testing.T) {
	t.Parallel()
	env := apptest.Env(&apptest.Person{})
	env.Catalogue, env.Now = knob.NewIndex(), time.Now
	m := local.New(env, local.Options{State: t.TempDir()})
	all, unknown := inspect.Explain(t.Context(), m, []string{"sudo", "sysctl", "net.ipv4.tcp_sack", "tcp.sakc"})
	must.True(t, len(all) == 1 && len(all[0].Knobs) == 1 && all[0].Knobs[0].Knob == "tcp.sack" && len(all[0].Knobs[0].Systems) >= 2, "%+v", all)
	must.True(t, len(unknown) == 1 && strings.Contains(unknown[0].Error(), "tcp.sack"), "%v", unknown)
}

// Words of a command line: values of a switch, of an enumeration, and none for unknown
// settings.
func TestWords(t *testing.T) {
	t.Parallel()
	x := knob.NewIndex()
	texts := func(words []inspect.Word) (out []string) {
		for _, w := range words {
			out = append(out, w.Text)
		}
		return out
	}
	got := texts(inspect.Values(t.Context(), x, "tcp.sack"))
	must.True(t, len(got) >= 2 && got[0] == "on" && got[1] == "off", "%v", got)
	must.Len(t, inspect.Values(t.Context(), x, "no.such"), 0)
	plain, traffic := texts(inspect.Names(x, true, false)), texts(inspect.Names(x, true, true))
	must.True(t, slices.Contains(plain, "tcp.sack") && !slices.Contains(plain, "window") && slices.Contains(traffic, "window"),
		"%d and %d names", len(plain), len(traffic))
}
