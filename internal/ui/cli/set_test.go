package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"linerate/internal/app/change"
	"linerate/internal/app/local"
	"linerate/internal/core/model"
	"linerate/internal/core/probe"
	"linerate/internal/fault"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/reporttest"
	"linerate/internal/store"
)

func TestParseSet(t *testing.T) {
	for _, host := range []string{"", "root@nas", "lab:rate=1gbit", "linerate://x.y@nas:5299", "exec:10.0.0.2 env A=b linerate agent"} {
		args := []string{"tcp.sack=off", "tcp.recv_buffer_max=64KiB"}
		if host != "" {
			args = slices.Insert(args, 1, host)
		}
		wanted, got, err := parseSet(nil, args)
		must.True(t, err == nil && got == host && len(wanted) == 2 && wanted[0] == (model.Assignment{Knob: "tcp.sack", Value: "0"}) && wanted[1].Value == "65536", "%q: %+v, %q, %v", args, wanted, got, err)
	}
	_, _, err := parseSet(nil, []string{"net.ipv4.tcp_sack=0", "tcp.sack=x", "nas"})
	must.True(t, exitCode(err) == exitUsage && strings.Contains(err.Error(), "did you mean tcp.sack?") && strings.Contains(err.Error(), "want on or off") && fault.HintOf(err) != "", "%v, hint %q", err, fault.HintOf(err))
}

func TestParseSetOfOneHost(t *testing.T) {
	wanted, host, err := parseSet(nil, []string{"near.tcp.sack=off", "far.link.mtu=max", "link.mtu=9000", "nas"})
	want := []model.Assignment{{Host: model.Near, Knob: "tcp.sack", Value: "0"}, {Host: model.Far, Knob: "link.mtu", Value: "max"}, {Knob: "link.mtu", Value: "9000"}}
	must.True(t, err == nil && host == "nas" && slices.Equal(wanted, want), "%+v, %q, %v", wanted, host, err)
	for text, says := range map[string]string{
		"c.link.mtu=9000": `c.link.mtu: unknown host "c": write near. or far. before`, "far.link.mut=9000": "link.mut", "near.tcp.sack=max": "want on or off",
	} {
		_, _, err := parseSet(nil, []string{text})
		must.True(t, exitCode(err) == exitUsage && strings.Contains(err.Error(), says), "%s: %v", text, err)
	}
}

func TestCanaryDocs(t *testing.T) {
	h := change.HostResult{Before: []probe.Result{{Target: "x", OK: true, Detail: "yes"}, {Target: "x", Full: true, Bytes: 1500}}}
	d := canaryDocs(h)
	must.True(t, len(d) == 2 && d[0].Before && !d[0].After && d[0].Detail == "yes", "%+v", d)
	h.After = []probe.Result{{Target: "x", OK: true}, {Target: "x", Full: true, Bytes: 9000, Detail: "no"}}
	d = canaryDocs(h)
	must.True(t, d[0].After && d[1].Bytes == 9000 && d[1].Detail == "no", "%+v", d)
}

// TestRecheckFitsTheWidth: no line of a recheck is wider than the terminal, and no word is lost
// or broken.
func TestRecheckFitsTheWidth(t *testing.T) {
	for _, text := range []string{
		"tcp.recv_buffer_max=4 MiB on nas.example.org: unproven since kernel 6.1.0-2-amd64 -> 6.1.0-3-amd64, MTU 9000 -> 1500 at the far end",
		"  proven on 2026-11-02 in session 20261102T101530-x7k2, against 64 KiB; nothing that is known has changed since",
		"nothing is kept",
	} {
		for _, width := range []int{40, 60, 80} {
			got := wrapped(text, width)
			for _, l := range got {
				n := utf8.RuneCountInString(l)
				must.True(t, n <= width, "%d columns in %d: %q", n, width, l)
			}
			must.Equal(t, strings.Join(strings.Fields(strings.Join(got, " ")), " "), strings.Join(strings.Fields(text), " "), "width %d: %q", width, got)
			must.True(t, strings.HasPrefix(got[0], strings.Repeat(" ", len(text)-len(strings.TrimLeft(text, " ")))), "the indent is lost: %q", got[0])
		}
	}
}

// Issue 10, item 7: the last line of a grid's report keeps exactly the setting that the report
// names.
func TestGridEndsWithALineThatKeepsIt(t *testing.T) {
	w := newWorld(t)
	all := reporttest.Cases()
	s := all[slices.IndexFunc(all, func(c reporttest.Case) bool { return c.Name == "grid" })].Session
	for i := range s.Plan.Settings {
		for j := range s.Plan.Settings[i].Assignments {
			a := &s.Plan.Settings[i].Assignments[j]
			if a.Host = model.Near; a.Knob == "link.mtu" {
				a.Knob, a.Value = "tcp.send_buffer_max", map[string]string{"1500": "1048576", "9000": "4194304"}[a.Value]
			}
		}
	}
	st := must.Get(openStoreAt(t.Context(), w.vars["LINERATE_DB"]))(t)
	must.Do(t, st.CreateSession(t.Context(), s))
	must.Do(t, st.UpdateSession(t.Context(), s))
	_ = st.Close()
	step := report.Build(s, report.Options{}).Next[0]
	must.Need(t, step.What == "keep recv_buffer_max=1MiB mtu=9000", "%+v", step)
	words := append(strings.Fields(strings.TrimPrefix(step.Command, "linerate ")), "--dry-run", "--for", "linux-sysctl", "--state", t.TempDir())
	code := w.main(t, words...)
	must.True(t, code == exitOK, "%q: exit code %d\n%s", words, code, w.err.String())
	for _, want := range []string{"recv_buffer_max=1MiB mtu=9000", "1048576", "4194304"} {
		must.Contain(t, w.out.String()+w.err.String(), want, "%q", words)
	}
}

// TestNoteLasting notes settings that survive a restart, on systems that have such settings.
func TestNoteLasting(t *testing.T) {
	wanted := []model.Assignment{{Knob: "tcp.ecn"}, {Knob: "link.mtu"}, {Knob: "window"}, {Knob: "nonsense"}, {Knob: "tcp.ecn"}}
	for _, c := range []struct {
		os     string
		within time.Duration
		wanted []model.Assignment
		want   string
	}{
		{"linux", time.Minute, wanted, ""},
		{"freebsd", time.Minute, wanted, ""},
		{"windows", time.Minute, wanted[:1], "note: desk: tcp.ecn survives a restart; if this machine goes down in the next 1 min it stays: --at-boot puts it back at the next start\n"},
		{"windows", 0, wanted, "note: desk: tcp.ecn, link.mtu survive a restart; if this machine goes down during a run they stay: --at-boot puts them back at the next start\n"},
	} {
		var out bytes.Buffer
		a := &console{Env: Env{Err: &out}}
		change.TellLasting(a.world(), "desk", c.os, c.wanted, c.within)
		must.Equal(t, out.String(), c.want, "%s", c.os)
	}
}

// TestBootTalk prints every line of a host once, even with --quiet.
func TestBootTalk(t *testing.T) {
	var out bytes.Buffer
	a := &console{Env: Env{Err: &out}, quiet: true}
	for range 2 {
		for _, host := range []string{"", "nas"} {
			must.OK(t, must.Err(local.Lines(a.world(), host).Write([]byte("at-boot: installed x\nelse\n"))))
		}
	}
	must.True(t, out.String() == "at-boot: installed x\nnas: at-boot: installed x\n" && !strings.Contains(out.String(), "else"), "%q", out.String())
}

// TestRetention: only sessions older than $LINERATE_RETENTION are removed, with a message.
// Sessions with a note or a proof stay; without the variable, or with a mistake in it, all stay.
func TestRetention(t *testing.T) {
	const day = 24 * time.Hour
	for text, c := range map[string]struct{ left, says string }{
		"":    {"better noted test0 test1 test2 worse", ""},
		"30d": {"better noted test0 test1", "removed 2 sessions older than 30d (LINERATE_RETENTION)"},
		"2w":  {"better noted test0", "removed 3 sessions"},
		"0":   {"better noted test0 test1 test2 worse", "nothing is removed"},
		"30":  {"better noted test0 test1 test2 worse", "nothing is removed"},
		"odd": {"better noted test0 test1 test2 worse", `"odd" is no time of at least a day`},
	} {
		t.Run(text, func(t *testing.T) {
			w := newWorld(t)
			w.vars["LINERATE_RETENTION"] = text
			now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
			w.Now = func() time.Time { return now }
			st := must.Get(openStoreAt(t.Context(), w.vars["LINERATE_DB"]))(t)
			defer func() { _ = st.Close() }()
			add := func(id string, kind model.Kind, age time.Duration, verdicts ...model.Verdict) {
				s := model.Session{ID: id, Kind: kind, Far: "nas", State: model.SessionDone, Created: now.Add(-age)}
				must.Do(t, st.CreateSession(t.Context(), s))
				s.Verdicts = verdicts
				must.Do(t, st.UpdateSession(t.Context(), s))
			}
			for i, age := range []time.Duration{day, 20 * day, 100 * day} {
				add(fmt.Sprintf("test%d", i), model.KindTest, age)
			}
			add("better", model.KindRun, 100*day, model.Verdict{Setting: "tall", Outcome: model.Better, Metric: model.Goodput})
			add("worse", model.KindRun, 100*day, model.Verdict{Setting: "tall", Outcome: model.Worse, Metric: model.Goodput})
			add("noted", model.KindTest, 100*day)
			must.Do(t, st.SetNote(t.Context(), "noted", "before the new cable"))
			(&console{Env: w.Env}).retain(t.Context(), st)
			said := w.err.String()
			must.True(t, strings.Contains(said, c.says) && (c.says != "" || said == ""), "says %q, want %q", said, c.says)
			all := must.Get(st.Sessions(t.Context(), store.Filter{}))(t)
			left := map[string]bool{}
			for _, i := range all {
				left[i.ID] = true
			}
			for id := range strings.FieldsSeq("better noted test0 test1 test2 worse") {
				must.Equal(t, left[id], strings.Contains(" "+c.left+" ", " "+id+" "), "%s is left", id)
			}
		})
	}
}

// TestFirstHour20Completion: the words that a shell gets after each command, requested as the
// shell does. It creates nothing, connects to nothing, and returns no errors.
func TestFirstHour20Completion(t *testing.T) {
	defer func(d time.Duration) { completionTime = d }(completionTime)
	completionTime = time.Minute // TestCompletionIsSoon measures it
	w := newWorld(t)
	home := t.TempDir()
	w.vars["HOME"], w.vars["LINERATE_CONFIG"] = home, filepath.Join(home, "linerate")
	for name, text := range map[string]string{
		".ssh/config":            "Host nas backup # of the office\n  HostName 192.0.2.1\nhost=attic\nHost *.example !no web?\n",
		".ssh/known_hosts":       "192.0.2.7,[tower]:2222 ssh-ed25519 AAAA\n|1|aGFzaA==|aGFzaA== ssh-ed25519 AAAA\n@cert-authority *.example ssh-rsa AAAA\nbroken\n",
		"linerate/known_servers": "den:5299 pin\n",
		"plans/plan.yaml":        "", "plans/notes.txt": "",
	} {
		path := filepath.Join(home, filepath.FromSlash(name))
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	w.main(t, "__complete", "show", "")
	must.Fail(t, must.Err(os.Stat(w.vars["LINERATE_DB"])), "a tab made the store of results")
	st := must.Get(openStoreAt(t.Context(), w.vars["LINERATE_DB"]))(t)
	now := time.Now()
	must.Do(t, st.CreateSession(t.Context(), model.Session{
		ID: "20261121T013209-x7k2", Kind: model.KindTest, Near: "this machine", Far: "nas", State: model.SessionInterrupted, Reason: "ctrl-c", Created: now.Add(-50 * time.Hour),
	}))
	_ = st.Close()
	plans := filepath.Join(home, "plans") + "/"
	session := "20261121T013209-x7k2\ttest, 2 d ago, nas: ctrl-c"
	for _, c := range []struct {
		args  []string // the last is the typed word
		has   []string // lines, with a description after a tab
		lacks []string
	}{
		{[]string{"test", ""}, []string{"ssh://nas", "ssh://backup", "ssh://attic", "ssh://192.0.2.7", "ssh://tower:2222", "den:5299", "lab:", "iperf3://", "iperf2://", "netpipe://", "udpstp://"}, []string{"#", "|", "example", "web", "broken", "@cert"}},
		{[]string{"test", "root@n"}, []string{"root@nas\tover ssh"}, []string{"attic"}},
		{[]string{"test", "nas", ""}, nil, []string{"nas"}},
		{[]string{"test", "--from", "ssh://b"}, []string{"ssh://backup"}, []string{"lab"}},
		{[]string{"test", "lab:r"}, []string{"lab:rate=", "lab:rtt="}, []string{"lab:loss"}},
		{[]string{"test", "lab:rate=1gbit,"}, []string{"lab:rate=1gbit,rtt=", "lab:rate=1gbit,to.loss=", "lab:rate=1gbit,far."}, []string{"lab:rate=1gbit,lan"}},
		{[]string{"test", "lab:hops=3,hop"}, []string{"lab:hops=3,hop1.\trouter 1 and the link that leaves it"}, []string{"hopK"}},
		{[]string{"test", "lab:hops=3,hop2."}, []string{"lab:hops=3,hop2.rate=", "lab:hops=3,hop2.silent", "lab:hops=3,hop2.ecmp="}, []string{"seed", "hop2.KEY", "rtt", "hop2.hops"}},
		{[]string{"test", "lab:hops=3,from.hop2."}, []string{"lab:hops=3,from.hop2.rate=", "lab:hops=3,from.hop2.mtu="}, []string{"silent", "ecmp"}},
		{[]string{"test", "lab:lan,far.tcp.sa"}, []string{"lab:lan,far.tcp.sack="}, nil},
		{[]string{"test", "lab:lan,far.tcp.sack=o"}, []string{"lab:lan,far.tcp.sack=on", "lab:lan,far.tcp.sack=off"}, nil},
		{[]string{"lab", "w"}, []string{"wan"}, []string{"lan"}},
		{[]string{"set", "tcp.sa"}, []string{"tcp.sack="}, []string{"window"}},
		{[]string{"set", "tcp.sack="}, []string{"tcp.sack=on", "tcp.sack=off"}, nil},
		{[]string{"set", "near.tcp.sac"}, []string{"near.tcp.sack="}, nil},
		{[]string{"set", "near.tcp.sack=o"}, []string{"near.tcp.sack=off"}, nil},
		{[]string{"set", "tcp.sack=on", "ssh://n"}, []string{"ssh://nas"}, nil},
		{[]string{"run", "--factor", "wind"}, []string{"window="}, nil},
		{[]string{"run", "--factor", "re"}, []string{"requests=", "reply="}, nil},
		{[]string{"run", "--factor", "pa"}, []string{"pacing="}, nil},
		{[]string{"run", "--factor", "plain="}, []string{"plain=on", "plain=off"}, nil},
		{[]string{"set", "re"}, nil, []string{"reply", "requests"}},
		{[]string{"run", "--factor", "far.tcp.sack=on,"}, []string{"far.tcp.sack=on,off"}, nil},
		{[]string{"run", "--factor", "fa"}, []string{"far=\tseveral far ends", "far."}, nil},
		{[]string{"run", "--factor", "far="}, []string{"far=ssh://nas", "far=den:5299", "far=lab:"}, nil},
		{[]string{"run", "--factor", "far=den:5299,root@n"}, []string{"far=den:5299,root@nas\tover ssh"}, []string{"attic"}},
		{[]string{"run", "--factor", "far=nas,lab:rate=1gbit,rt"}, []string{"far=nas,lab:rate=1gbit,rtt="}, []string{"den"}},
		{[]string{"run", "--factor", "far=lab:rate=1gbit,"}, []string{"far=lab:rate=1gbit,den:5299", "far=lab:rate=1gbit,rtt="}, nil},
		{[]string{"run", "--factor", "far=lab:lan,den:5299,rt"}, nil, []string{"rtt"}},
		{[]string{"run", "--set", "jumbo:link.mtu=9000,far.tcp.sac"}, []string{"jumbo:link.mtu=9000,far.tcp.sack="}, nil},
		{[]string{"run", "--set", "jumbo:tcp.sack="}, []string{"jumbo:tcp.sack=on"}, nil},
		{[]string{"set", "fa"}, nil, []string{"far="}},
		{[]string{"run", plans}, []string{plans + "plan.yaml"}, []string{"notes"}},
		{[]string{"run", "--resume", ""}, []string{session, "last"}, nil},
		{[]string{"run", "--direction", ""}, []string{"to", "from", "each", "both"}, nil},
		{[]string{"tune", "--direction", ""}, []string{"each"}, []string{"both"}},
		{[]string{"tune", "--goal", ""}, []string{"throughput", "latency", "cpu"}, nil},
		{[]string{"tune", "--only", "tcp.sack,far.tcp.timest"}, []string{"tcp.sack,far.tcp.timestamps"}, nil},
		{[]string{"show", "2026"}, []string{session}, []string{"last"}},
		{[]string{"rm", ""}, []string{session}, nil},
		{[]string{"keep", ""}, []string{session}, nil},
		{[]string{"keep", "last", ""}, []string{"ssh://nas"}, []string{"2026"}},
		{[]string{"compare", "last", "2"}, []string{session}, nil},
		{[]string{"export", "--for", "net"}, []string{"netplan"}, []string{"ansible"}},
		{[]string{"profile", "show", plans}, []string{plans + "plan.yaml"}, []string{"notes"}},
		{[]string{"list", "--kind", ""}, []string{"test", "run", "sweep", "copy", "check", "tune", "served"}, nil},
		{[]string{"list", "--finding", ""}, []string{"B07", "loss"}, []string{"ceiling"}},
		{[]string{"list", "--state", ""}, []string{"running", "done", "interrupted", "failed"}, nil},
		{[]string{"test", "--engine", ""}, []string{"tcpbulk", "udpflow", "reqresp", "loaded"}, nil},
		{[]string{"knobs", "explain", "tcp.sa"}, []string{"tcp.sack"}, nil},
		{[]string{"set", "no.such=", ""}, []string{"ssh://nas"}, []string{"no.such"}},
	} {
		code := w.main(t, append([]string{"__complete"}, c.args...)...)
		must.True(t, code == 0, "%q: exit code %d: %s", c.args, code, w.err.String())
		must.True(t, !strings.Contains(w.err.String(), "linerate: "), "%q: %s", c.args, w.err.String())
		lines := strings.Split(strings.TrimSpace(w.out.String()), "\n")
		for _, want := range c.has {
			must.True(t, slices.ContainsFunc(lines, func(s string) bool { return s == want || strings.HasPrefix(s, want+"\t") }), "%q offers no %q:\n%s", c.args, want, w.out.String())
		}
		for _, line := range lines {
			text, _, _ := strings.Cut(line, "\t")
			for _, bad := range c.lacks {
				must.True(t, !strings.Contains(text, bad), "%q offers %q", c.args, line)
			}
		}
	}
}
