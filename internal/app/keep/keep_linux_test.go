package keep

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/core/fingerprint"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/profile"
	"linerate/internal/fault"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/must"
)

// written is the file of kernel settings, below a root.
const written = "etc/sysctl.d/zz-linerate.conf"

// machine is a host with its files below a directory: the agent, the renderer and the keeper
// are the real ones, and the settings that are read are this machine's.
type machine struct {
	t           *testing.T
	root, state string
	env         app.Env
	host        *app.Host
	*person
}

// person is a scripted user that records its events.
type person struct {
	answer func(q app.Question) (app.Answer, error) // nil: there is no user
	on     func(e app.Event)
	asked  []app.Question
	events []app.Event
}

// Ask implements app.Asker.
func (p *person) Ask(_ context.Context, q app.Question) (app.Answer, error) {
	p.asked = append(p.asked, q)
	if p.answer == nil {
		return app.Answer{}, app.ErrNoTerminal
	}
	return p.answer(q)
}

// Observe implements app.Observer.
func (p *person) Observe(e app.Event) {
	p.events = append(p.events, e)
	if p.on != nil {
		p.on(e)
	}
}

// told returns the events of one type.
func told[E app.Event](p *person) []E {
	var all []E
	for _, e := range p.events {
		if one, ok := e.(E); ok {
			all = append(all, one)
		}
	}
	return all
}

func yes(app.Question) (app.Answer, error) { return app.Answer{Yes: true}, nil }

// newMachine opens a session with a machine of side. after is called after each
// step of writing files.
func newMachine(t *testing.T, side model.Host, p *person, after func(m *machine, step string)) *machine {
	t.Helper()
	m := &machine{t: t, root: t.TempDir(), state: t.TempDir(), person: p}
	m.env = app.Env{Version: "v0.0-test", Self: os.Args[:1], Getenv: os.Getenv, Now: time.Now, Root: m.root, Asker: p, Observer: p}
	if after != nil {
		m.env.AfterStep = func(step string) { after(m, step) }
	}
	m.open(side)
	t.Cleanup(func() { m.env.HangUp(m.host.Client) })
	return m
}

func (m *machine) open(side model.Host) {
	m.t.Helper()
	h := must.Get(local.Open(m.t.Context(), m.env, local.Options{State: m.state}))(m.t)
	h.Side, h.Name = side, "host "+string(side)
	m.host = h
}

// path returns the path of a file of the machine.
func (m *machine) path(name string) string { return filepath.Join(m.root, name) }

// text returns the content of the written file, "" if there is none.
func (m *machine) text() string {
	b, err := os.ReadFile(m.path(written))
	must.True(m.t, err == nil || errors.Is(err, os.ErrNotExist), "%v", err)
	return string(b)
}

func (m *machine) put(name, text string) {
	m.t.Helper()
	must.Do(m.t, os.MkdirAll(filepath.Dir(m.path(name)), 0o755))
	must.Do(m.t, os.WriteFile(m.path(name), []byte(text), 0o640))
}

// block puts a file in the place of the directory of kernel settings.
func (m *machine) block() {
	must.OK(m.t, os.RemoveAll(m.path("etc/sysctl.d")))
	m.put("etc/sysctl.d", "in the way")
}

// sackProfile sets one setting on each end.
func sackProfile(value string) profile.Profile {
	return profile.Profile{Title: "no sack", Hosts: []profile.Host{{Role: profile.Both, System: "linux", Settings: []profile.Setting{{Knob: "tcp.sack", Value: value}}}}}
}

func request(t *testing.T, m *machine, p profile.Profile) Request {
	t.Helper()
	return Request{Source: must.Get(OfProfile(m.env, "sack.yaml", p, Wish{}))(t)}
}

// do keeps one setting on a machine.
func (m *machine) do(r Request) (Result, error) {
	return Do(m.t.Context(), m.env, []*app.Host{m.host}, r)
}

// TestKept goes the whole way: shown, asked, written, kept already, listed, restored byte for
// byte.
func TestKept(t *testing.T) {
	p := &person{answer: yes}
	m := newMachine(t, model.Near, p, nil)
	m.put(written, "# somebody's\nnet.ipv4.tcp_ecn = 1\n")
	r := request(t, m, sackProfile("0"))
	p.on = func(e app.Event) {
		_, ok := e.(app.ToWrite)
		must.True(t, !ok || !strings.Contains(m.text(), "tcp_sack"), "written before it was shown")
	}
	got, err := m.do(r)
	p.on = nil
	must.Need(t, err == nil && got.Outcome == Written && len(got.Hosts) == 1 && got.Hosts[0].Done && got.Hosts[0].Got.Record != "", "%+v, %v", got, err)
	text := m.text()
	must.True(t, strings.Contains(text, "net.ipv4.tcp_sack = 0\n") && strings.Contains(text, "no sack"), "%s", text)
	shown := told[app.ToWrite](p)
	must.True(t, len(shown) == 1 && strings.Contains(shown[0].Files.Files[0].Diff, "+net.ipv4.tcp_sack = 0") && len(shown[0].Files.Notes) != 0, "shown %+v", shown)
	must.True(t, len(p.asked) == 1 && p.asked[0].Kind == app.WriteFiles && p.asked[0].Host == "host near" && p.asked[0].Count == 1, "asked %+v", p.asked)
	got.Hosts[0].Got.Omitted = nil // this machine may have no file for lo
	running := got.Hosts[0].Running()
	must.True(t, len(running) == 1 && running[0].Kept == "0" && running[0].Now != nil, "%+v", running)
	again, err := m.do(r)
	must.True(t, err == nil && again.Outcome == Holds && len(p.asked) == 1, "again: %+v, %v", again, err)
	records, err := m.host.Client.Kept(t.Context())
	must.True(t, err == nil && len(records) == 1 && records[0].Source == "profile sack.yaml: no sack", "%+v, %v", records, err)
	b, err := Undo(t.Context(), m.host.Client)
	must.True(t, err == nil && b.Left == 0 && len(b.Paths) == 1 && b.Last[b.Paths[0]].State == model.FileRestored, "%+v, %v", b, err)
	must.Equal(t, m.text(), "# somebody's\nnet.ipv4.tcp_ecn = 1\n")
	b, err = Undo(t.Context(), m.host.Client)
	must.True(t, err == nil && len(b.Paths) == 0, "once more: %+v, %v", b, err)
}

// TestNothingIsWritten covers the cases in which nothing is written.
func TestNothingIsWritten(t *testing.T) {
	for name, c := range map[string]struct {
		answer  func(app.Question) (app.Answer, error)
		change  func(r *Request)
		masks   string // a file that is a link to /dev/null
		outcome Outcome
		kind    fault.Kind
		says    string
	}{
		"declined":  {answer: func(app.Question) (app.Answer, error) { return app.Answer{}, nil }, outcome: Declined},
		"dry run":   {answer: yes, change: func(r *Request) { r.DryRun = true }, outcome: Dry},
		"nobody":    {kind: fault.Usage, says: "no terminal to ask on"},
		"no answer": {answer: func(app.Question) (app.Answer, error) { return app.Answer{}, context.Canceled }, kind: fault.Interrupted, says: "canceled"},
		"no format": {answer: yes, change: func(r *Request) { r.Format = model.FormatWindowsReg }, kind: fault.Usage, says: "no format of files"},
		"no role":   {answer: yes, change: func(r *Request) { r.Role = "middle" }, kind: fault.Usage, says: "want near, far"},
		"bad value": {answer: yes, change: func(r *Request) {
			r.Source.Profile.Hosts[0].Settings[0] = profile.Setting{Knob: "tcp.recv_buffer_initial", Value: "134217728"}
		}, kind: fault.Usage, says: "host near: "},
		"other OS": {answer: yes, change: func(r *Request) {
			r.Source.Profile.Hosts[0].Settings[0] = profile.Setting{Knob: "socket.buffer_max", Value: "2097152"}
		}, kind: fault.Unsupported, says: "host near: "},
		"no link": {answer: yes, change: func(r *Request) {
			r.Source.Profile.Hosts[0].Settings[0] = profile.Setting{Knob: "link.mtu", Value: "9000"}
		}, kind: fault.Unsupported, says: "link.mtu"},
		"a mask":     {answer: yes, masks: written, kind: fault.Unsupported, says: "none of these settings can be kept there"},
		"of nothing": {answer: yes, change: func(r *Request) { r.Source = ConfirmedThere() }, kind: fault.Usage, says: "nothing was confirmed on host near"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, model.Near, &person{answer: c.answer}, nil)
			if c.masks != "" {
				must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(m.path(c.masks)), 0o755), os.Symlink("/dev/null", m.path(c.masks))))
			}
			r := request(t, m, sackProfile("0"))
			if c.change != nil {
				c.change(&r)
			}
			got, err := m.do(r)
			must.True(t, got.Outcome == c.outcome && (err != nil) == (c.says != "") && (err == nil || fault.KindOf(err) == c.kind && strings.Contains(err.Error(), c.says)), "%+v, %v", got, err)
			must.True(t, name != "no link" || strings.Contains(fault.HintOf(err), "name the interface with --interface; known are "), "hint %q", fault.HintOf(err))
			if c.masks != "" {
				must.Equal(t, fault.HintOf(err), "/"+written+": a link to /dev/null masks every file called zz-linerate.conf, in all folders; if the mask is not needed, remove it by hand: rm /"+written)
				must.Do(t, os.RemoveAll(m.path("etc")))
			}
			entries, _ := os.ReadDir(m.root)
			must.True(t, len(entries) == 0, "wrote %v", entries)
		})
	}
}

// TestWithoutAsking: --yes writes without a question.
func TestWithoutAsking(t *testing.T) {
	m := newMachine(t, model.Near, &person{}, nil)
	r := request(t, m, sackProfile("0"))
	r.Sure = true
	got := must.Get(m.do(r))(t)
	must.True(t, got.Outcome == Written && len(m.asked) == 0, "%+v", got)
	said := told[app.Unproven](m.person)
	must.True(t, len(said) == 1 && said[0].Verdicts+said[0].Guards == "", "told %+v", said)
}

// TestChangedSinceItWasShown: exactly what the user agreed to is written, or nothing.
func TestChangedSinceItWasShown(t *testing.T) {
	p := &person{}
	m := newMachine(t, model.Near, p, nil)
	p.answer = func(app.Question) (app.Answer, error) {
		m.put(written, "# of this moment\n")
		return app.Answer{Yes: true}, nil
	}
	got, err := m.do(request(t, m, sackProfile("0")))
	must.True(t, err != nil && got.Outcome == Failed && strings.Contains(fault.HintOf(err), "linerate keep --list, and --dry-run") && m.text() == "# of this moment\n", "%+v, %v, hint %q", got, err, fault.HintOf(err))
}

// TestUndoLeavesWhatWasEdited restores the rest, and reports what it left.
func TestUndoLeavesWhatWasEdited(t *testing.T) {
	m := newMachine(t, model.Near, &person{answer: yes}, nil)
	p := sackProfile("0")
	p.Hosts[0].Settings = append(p.Hosts[0].Settings, profile.Setting{Knob: "tcp.congestion_control", Value: "reno"})
	got, err := m.do(request(t, m, p))
	must.Need(t, err == nil && got.Outcome == Written, "%+v, %v", got, err)
	m.put(written, m.text()+"# mine\n")
	b, err := Undo(t.Context(), m.host.Client)
	must.True(t, fault.KindOf(err) == fault.NotUndone && b.Left == 1 && b.Last["/"+written].State == model.FileChanged && strings.HasSuffix(m.text(), "# mine\n"), "%+v, %v", b, err)
	must.True(t, fault.HintOf(err) != "" && strings.Contains(err.Error(), " files not taken back"), "%v, hint %q", err, fault.HintOf(err))
}

// pairOf returns two machines, the far one first, which one user changes.
func pairOf(t *testing.T, p *person, after func(m *machine, step string)) (far, near *machine, hosts []*app.Host) {
	t.Helper()
	far, near = newMachine(t, model.Far, p, nil), newMachine(t, model.Near, p, after)
	return far, near, []*app.Host{far.host, near.host}
}

// TestBothOrNone: if the second host cannot write, the first one's files are restored.
func TestBothOrNone(t *testing.T) {
	p := &person{}
	far, near, hosts := pairOf(t, p, nil)
	far.put(written, "before\n")
	p.answer = func(q app.Question) (app.Answer, error) {
		must.True(t, q.Host == "host far and host near" && q.Count == 2, "asked %+v", q)
		near.block()
		return app.Answer{Yes: true}, nil
	}
	r := request(t, far, sackProfile("0"))
	r.Both, r.Named = true, "root@nas"
	got, err := Do(t.Context(), far.env, hosts, r)
	must.True(t, err != nil && got.Outcome == Failed && !got.Hosts[0].Done && !got.Hosts[1].Done && far.text() == "before\n", "%+v, %v, %q", got, err, far.text())
	back := told[app.TakenBack](p)
	must.True(t, len(back) == 1 && back[0].Host == "host far", "told %+v", back)
	must.Do(t, os.Remove(near.path("etc/sysctl.d")))
	p.answer = yes
	got, err = Do(t.Context(), far.env, hosts, r)
	must.True(t, err == nil && got.Outcome == Written && strings.Contains(far.text(), "tcp_sack") && strings.Contains(near.text(), "tcp_sack"), "with room: %+v, %v", got, err)
	must.True(t, r.Word(model.Far) == " root@nas" && r.Word(model.Near) == "", "%q and %q", r.Word(model.Far), r.Word(model.Near))
}

// TestNotTakenBack: a change by another program on the first host, in the moment before the
// second one fails, stays and is reported.
func TestNotTakenBack(t *testing.T) {
	p := &person{answer: yes}
	var far *machine
	far, near, hosts := pairOf(t, p, func(m *machine, step string) {
		if strings.HasPrefix(step, "temporary ") {
			far.put(written, "# mine\n")
			m.block()
		}
	})
	r := request(t, far, sackProfile("0"))
	r.Both = true
	got, err := Do(t.Context(), far.env, hosts, r)
	must.True(t, err != nil && got.Outcome == Failed && got.Hosts[0].Done && strings.Contains(err.Error(), "host far: not taken back: ") && far.text() == "# mine\n", "%+v, %v, %q", got, err, far.text())
	if near.text() != "" || len(told[app.TakenBack](p)) > 0 {
		t.Errorf("told %+v", told[app.TakenBack](p))
	}
}

// confirm records in the journal of a machine that a value of net.ipv4.tcp_sack was
// confirmed.
func (m *machine) confirm(value string) {
	m.t.Helper()
	m.confirmAt("tcp.sack", hostknob.Place{Mechanism: knob.Sysctl, Native: "net.ipv4.tcp_sack"}, value)
}

func (m *machine) confirmAt(id model.KnobID, at hostknob.Place, value string) {
	m.t.Helper()
	j := must.Get(journal.OpenAs(m.state, "v0.0-test"))(m.t)
	err := errors.Join(
		j.Append(journal.Record{Kind: journal.KindIntent, Transaction: "t", Number: 1, Time: time.Now(), Intent: &journal.Intent{
			Host: model.Near, Knob: id, Place: at, Old: "1", New: value, Origin: journal.Here(),
		}}),
		j.Append(journal.Record{Kind: journal.KindConfirmed, Transaction: "t", Time: time.Now()}), j.Close(),
	)
	must.Do(m.t, err)
}

// TestWhatWasConfirmed keeps what the user set and confirmed, and reports what is no longer
// in force; a host of two without any drops out.
func TestWhatWasConfirmed(t *testing.T) {
	p := &person{answer: yes}
	far, near, hosts := pairOf(t, p, nil)
	now := far.host.Value("tcp.sack")
	gone := map[string]string{"0": "1", "1": "0"}[now]
	far.confirm(now)
	near.confirm(gone)
	got, err := Do(t.Context(), far.env, hosts, Request{Source: ConfirmedThere(), Both: true})
	must.True(t, err == nil && got.Outcome == Written && len(got.Hosts) == 1 && got.Hosts[0].Side == model.Far && strings.Contains(far.text(), "net.ipv4.tcp_sack = "+now) && near.text() == "", "%+v, %v, %q", got, err, near.text())
	lost := told[app.NotKept](p)
	must.True(t, len(lost) == 1 && lost[0].Host == "host near" && lost[0].Setting.Knob == "tcp.sack", "told %+v", lost)
	none := told[app.NothingToKeep](p)
	must.True(t, len(none) == 1 && none[0].Host == "host near", "told %+v", none)
	_, err = near.do(Request{Source: ConfirmedThere()})
	must.True(t, fault.KindOf(err) == fault.Usage && fault.HintOf(err) != "", "alone: %v", err)
}

// TestWindowsKeepsByItself: a host whose system makes settings permanent gets no files: all
// is kept already, or the message says how to set it.
func TestWindowsKeepsByItself(t *testing.T) {
	p := &person{answer: yes}
	far, near, hosts := pairOf(t, p, nil)
	far.host.Facts.OS = "windows"
	r := request(t, far, sackProfile(map[string]string{"0": "1", "1": "0"}[far.host.Value("tcp.sack")]))
	r.Both, r.Named = true, "root@nas"
	if _, err := Do(t.Context(), far.env, hosts, r); fault.KindOf(err) != fault.Unsupported || !strings.Contains(fault.HintOf(err), "linerate set tcp.sack=") || !strings.Contains(fault.HintOf(err), " root@nas") {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
	r.Source.Profile = sackProfile(far.host.Value("tcp.sack"))
	got, err := Do(t.Context(), far.env, hosts, r)
	must.True(t, err == nil && got.Outcome == Written && len(got.Hosts) == 1 && near.text() != "" && far.text() == "" && len(told[app.KeptAlready](p)) == 1, "%+v, %v", got, err)
	got, err = Do(t.Context(), far.env, hosts[:1], r)
	must.True(t, err == nil && got.Outcome == Holds && len(got.Hosts) == 0, "alone: %+v, %v", got, err)
}

// TestLinkOfAnother: the request is for the named interface. A confirmed setting that proved
// better before, in a tune, keeps that proof.
func TestLinkOfAnother(t *testing.T) {
	m := newMachine(t, model.Near, &person{answer: yes}, nil)
	m.confirm(m.host.Value("tcp.sack"))
	r := Request{Source: ConfirmedThere(), Link: "lo", DryRun: true}
	got, err := m.do(r)
	must.True(t, err == nil && got.Outcome == Dry && got.Hosts[0].Ask.Link == "lo" && slices.Contains(got.Hosts[0].Ask.Comments, "confirmed by hand with linerate set; not measured"), "%+v, %v", got, err)
	s := tall(model.To, verdict(model.Better, ""))
	s.Plan.Settings[1].Assignments = []model.Assignment{{Host: model.Near, Knob: "tcp.sack", Value: m.host.Value("tcp.sack")}}
	r.Source = ConfirmedThere(s)
	got, err = m.do(r)
	must.OK(t, err)
	must.Equal(t, got.Hosts[0].Ask.Comments[0], `confirmed with linerate set; proved better in session s1, setting "tall"`)
	must.Contain(t, got.Hosts[0].Ask.Proof, "s1")
}

// TestConfirmedNow: a setting of a link that was confirmed is known to hold now, though no far
// host says which link's facts to read.
func TestConfirmedNow(t *testing.T) {
	m := newMachine(t, model.Near, &person{answer: yes}, nil)
	length := strings.TrimSpace(string(must.Get(os.ReadFile("/sys/class/net/lo/tx_queue_len"))(t)))
	m.confirmAt("txqueuelen", hostknob.Place{Mechanism: knob.Link, Native: "txqlen", Target: "lo"}, length)
	got, err := m.do(Request{Source: ConfirmedThere(), DryRun: true})
	must.Need(t, err == nil || fault.KindOf(err) == fault.Unsupported, "%v", err)
	got.Hosts[0].Got.Omitted = nil // this machine may have no file for lo
	running := got.Hosts[0].Running()
	must.True(t, len(running) == 1 && running[0].Same && running[0].Now != nil && got.Hosts[0].Ask.Link == "lo", "%+v of %+v", running, got.Hosts[0].Ask)
}

// TestKeptWithProof: a kept setting carries its proof, for the end that the host was; one
// without a proof says so, also under a newer value.
func TestKeptWithProof(t *testing.T) {
	m := newMachine(t, model.Near, &person{answer: yes}, nil)
	p := sackProfile("0")
	p.Evidence = &profile.Evidence{
		Session: "20261121T130000-abcd", Setting: "off", Date: time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC), Print: fingerprint.Print{"near.kernel": "6.19"},
		Verdicts: []profile.Verdict{{Direction: model.To, Metric: model.Goodput, Outcome: model.Better, Blocks: 6, Estimate: 0.2, Low: 0.1, High: 0.3, Confidence: 0.95}},
	}
	got := must.Get(m.do(request(t, m, p)))(t)
	must.Need(t, got.Outcome == Written, "%+v", got)
	standing := func() fingerprint.Kept {
		t.Helper()
		records, err := m.host.Client.Kept(t.Context())
		all := Standing(records, model.Near)
		must.Need(t, err == nil && len(all) == 1, "%+v, %v", all, err)
		return all[0]
	}
	if k := standing(); !k.Proven || k.Value != "0" || k.Proof.Session != "20261121T130000-abcd" || k.Look(fingerprint.Print{"near.kernel": "7.0"}).String() != "unproven since kernel 6.19 -> 7.0 at the near end" {
		t.Errorf("%+v", k)
	}
	got, err := m.do(request(t, m, sackProfile("1")))
	must.Need(t, err == nil && got.Outcome == Written, "%+v, %v", got, err)
	k := standing()
	must.True(t, !k.Proven && k.Value == "1" && k.Look(nil).String() == "unproven: not measured", "the newer value: %+v", k)
}
