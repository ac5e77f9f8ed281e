package filecopy

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// odd is a size that is no multiple of any block.
const odd units.Bytes = 3<<20 + 777

func flow(c files.Params) model.Flow {
	return model.Flow{Direction: model.To, Bytes: odd, Interval: engine.MinInterval, Params: traffic.Write(c)}
}

func TestModes(t *testing.T) {
	for name, c := range map[string]files.Params{
		"memory":             {},
		"memory, plain":      {Plain: true},
		"memory, direct":     {Direct: true},
		"from disk":          {Source: "disk"},
		"to disk":            {Sink: "disk"},
		"disk":               {Source: "disk", Sink: "disk"},
		"disk, plain":        {Source: "disk", Sink: "disk", Plain: true},
		"disk, sync":         {Source: "disk", Sink: "disk", Sync: true},
		"disk, direct":       {Source: "disk", Sink: "disk", Direct: true, Sync: true},
		"folders":            {Source: "FOLDER", Sink: "FOLDER"},
		"new file":           {Sink: "FOLDER/new file"},
		"network":            {Mode: files.Network},
		"read memory":        {Mode: files.Read},
		"read disk":          {Mode: files.Read, Source: "disk"},
		"read disk, direct":  {Mode: files.Read, Source: "disk", Direct: true},
		"write memory":       {Mode: files.Write},
		"write disk":         {Mode: files.Write, Sink: "disk", Sync: true},
		"write disk, direct": {Mode: files.Write, Sink: "disk", Direct: true},
		"memory alone":       {Mode: files.Memory},
	} {
		for _, d := range []model.Direction{model.To, model.From} {
			t.Run(name+" "+string(d), func(t *testing.T) {
				h := newHome(t)
				c := c
				c.Source, c.Sink = h.path(c.Source), h.path(c.Sink)
				f := flow(c)
				f.Direction = d
				a, b := enginetest.Prepare(t, h.Engine, enginetest.NewWire(t), f)
				_ = enginetest.Conduct(t, a, b, d)
				checkRun(t, a, b, f)
				h.checkEmpty(t)
			})
		}
	}
}

// path replaces FOLDER by the home's folder.
func (h home) path(s string) string { return strings.Replace(s, "FOLDER", h.folder, 1) }

// checkRun fails the test unless the measuring end's report is complete.
func checkRun(t *testing.T, a, b *enginetest.End, f model.Flow) {
	t.Helper()
	must.Need(t, a.Err == nil && b.Err == nil, "near %v, far %v", a.Err, b.Err)
	sender, receiver := a, b
	if f.Direction == model.From {
		sender, receiver = b, a
	}
	measuring, other := receiver, sender
	mode := settings(f).Mode
	if mode == files.Read || mode == files.Memory {
		measuring, other = sender, receiver
	}
	must.Need(t, len(measuring.Report.Flows) == 1, "flows %+v", measuring.Report.Flows)
	got := measuring.Report.Flows[0]
	must.True(t, got.Role == model.Receiver && got.Direction == f.Direction && got.Bytes == f.Bytes && got.Window > 0, "report %+v", got)
	must.Equal(t, mode == files.Copy || mode == files.Network, len(other.Report.Flows) == 1, "the other end reports %+v", other.Report.Flows)
	must.True(t, len(measuring.Samples()) >= 2 && measuring.Samples()[0].Metric == model.Goodput, "samples %+v", measuring.Samples())
	var moved float64
	for _, s := range measuring.Samples() {
		if s.Metric == model.Goodput {
			moved += s.Value * s.Length.Seconds() / 8
		}
	}
	// Samples hold everything except a very short interval at the end.
	must.True(t, moved <= 1.001*float64(f.Bytes), "samples hold %.0f of %d bytes", moved, f.Bytes)
	must.True(t, measuring.Report.Waiting != "" && measuring.Report.CPUWindow == got.Window, "report %+v", measuring.Report)
	for _, w := range append(a.Report.Warnings, b.Report.Warnings...) {
		must.True(t, expected(w), "warning %q", w)
	}
}

// expected reports whether w warns of a limit of the system.
func expected(w string) bool {
	return strings.Contains(w, noMemoryDisk) || strings.Contains(w, "page cache")
}

func TestHow(t *testing.T) {
	h := newHome(t)
	a, b := enginetest.Prepare(t, h.Engine, enginetest.NewWire(t), flow(files.Params{Source: h.folder, Sink: h.folder, Sync: true}))
	_ = enginetest.Conduct(t, a, b, model.To)
	checkRun(t, a, b, flow(files.Params{}))
	v := must.Get(ReadVolume(h.folder))(t)
	for _, c := range []struct{ how, want string }{
		{a.Report.Waiting, h.folder}, {b.Report.Waiting, h.folder}, {b.Report.Waiting, v.Type},
		{a.Report.Waiting, "sendfile"}, {b.Report.Waiting, "flushed within the time"},
	} {
		if v.Memory && strings.Contains(c.want, "flushed") {
			continue
		}
		must.Contain(t, c.how, c.want)
	}
	s := a.Report.Flows[0].TCP
	must.True(t, s != nil && s.MSS.IsKnown() == s.Retransmits.IsKnown(), "summary %+v", s)
}

func TestDefaultSize(t *testing.T) {
	must.SkipIf(t, testing.Short(), "moves 256 MiB")
	h := newHome(t)
	f := flow(files.Params{Mode: files.Memory})
	f.Bytes = 0
	a, b := enginetest.Prepare(t, h.Engine, enginetest.NewWire(t), f)
	_ = enginetest.Conduct(t, a, b, model.To)
	if a.Err != nil || b.Err != nil {
		t.Fatal(a.Err, b.Err)
	}
	n := a.Report.Flows[0].Bytes
	must.True(t, n >= leastDefault && n <= DefaultBytes, "%d bytes by default", n)
}

// TestExistingSource copies a user's file, which stays unchanged.
func TestExistingSource(t *testing.T) {
	for name, asked := range map[string]units.Bytes{"whole": 0, "first bytes": 100_001, "too many": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			path := filepath.Join(h.folder, "mine")
			content := make([]byte, 2<<20+5)
			_, _ = newData(7).Read(content)
			must.Do(t, os.WriteFile(path, content, 0o600))
			f := flow(files.Params{Source: path})
			f.Bytes = asked
			a, b := enginetest.Prepare(t, h.Engine, enginetest.NewWire(t), f)
			_ = enginetest.Conduct(t, a, b, model.To)
			if asked > units.Bytes(len(content)) {
				must.True(t, a.Err != nil && strings.Contains(a.Err.Error(), "where 1073741824 were asked") && b.Err != nil, "near %v, far %v", a.Err, b.Err)
			} else {
				if f.Bytes == 0 {
					f.Bytes = units.Bytes(len(content))
				}
				checkRun(t, a, b, f)
			}
			must.True(t, bytes.Equal(must.Get(os.ReadFile(path))(t), content), "the user's file was touched:")
			must.Len(t, left(t, h.folder), 1, "files")
		})
	}
}

// TestChangedSource: a source that changes while it is copied is detected by the digest taken
// after the copy, or by its early end if it became shorter. It is larger than the socket
// buffers. os.WriteFile would do both at once, and chance would decide which one is detected.
func TestChangedSource(t *testing.T) {
	const size = 16 << 20
	for name, c := range map[string]struct {
		change func(path string) error
		says   string
	}{
		"written over": {func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(bytes.Repeat([]byte{1}, size), 0)
			return errors.Join(err, f.Close())
		}, "differs"},
		"cut short": {func(path string) error { return os.Truncate(path, size/2) }, "ended after"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			path := filepath.Join(h.folder, "mine")
			must.Do(t, os.WriteFile(path, make([]byte, size), 0o600))
			w := enginetest.NewWire(t)
			relay(t, w, 32<<10, func([]byte) {
				must.OK(t, c.change(path))
			})
			f := flow(files.Params{Source: path})
			f.Bytes = 0
			a, b := enginetest.Prepare(t, h.Engine, w, f)
			_ = enginetest.Conduct(t, a, b, model.To)
			must.True(t, b.Err != nil && strings.Contains(b.Err.Error(), c.says), "near %v, far %v", a.Err, b.Err)
		})
	}
}

func TestRefusesOverwrite(t *testing.T) {
	h := newHome(t)
	path := filepath.Join(h.folder, "precious")
	must.Do(t, os.WriteFile(path, []byte("mine"), 0o600))
	link := filepath.Join(h.folder, "link")
	if err := os.Symlink("nowhere", link); err != nil {
		link = path // no permission to create links
	}
	for _, c := range []files.Params{{Sink: path}, {Sink: link}, {Mode: files.Write, Sink: path}} {
		a, b := enginetest.Prepare(t, h.Engine, enginetest.NewWire(t), flow(c))
		_ = enginetest.Conduct(t, a, b, model.To)
		must.True(t, errors.Is(b.Err, fs.ErrExist) && strings.Contains(b.Err.Error(), "not overwritten"), "%+v: far %v", c, b.Err)
		var said *errPeer
		must.True(t, errors.As(a.Err, &said) && strings.Contains(said.text, "not overwritten"), "%+v: near %v", c, a.Err)
	}
	now := must.Get(os.ReadFile(path))(t)
	must.True(t, string(now) == "mine", "overwritten: %q", now)
}

func TestPermissions(t *testing.T) {
	h := newHome(t)
	strange := New(h.state, Options{MaxBytes: 4 << 20})
	for name, c := range map[string]struct {
		copy  files.Params
		bytes units.Bytes
		bad   string // text of the far end's error; "" if none
	}{
		"own places":    {files.Params{}, odd, ""},
		"path":          {files.Params{Sink: h.folder}, odd, "no paths"},
		"path of other": {files.Params{Source: h.folder}, odd, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := flow(c.copy)
			f.Bytes = c.bytes
			a, b := enginetest.PrepareEnds(t, h.Engine, strange, enginetest.NewWire(t), f)
			_ = enginetest.Conduct(t, a, b, model.To)
			must.True(t, (b.Err == nil) == (c.bad == "") &&
				(b.Err == nil || errors.Is(b.Err, fs.ErrPermission) && strings.Contains(b.Err.Error(), c.bad)), "far %v", b.Err)
		})
	}
	f := flow(files.Params{})
	f.Bytes = 4<<20 + 1
	must.Is(t, must.Err(strange.Prepare(t.Context(), enginetest.NewWire(t).Env(model.Far), f)), fs.ErrPermission, "too much")
	f.Bytes = 0
	p := script(t, strange, f)
	p.say(t, message{Kind: kindOffer, Bytes: 5 << 20})
	must.Do(t, p.CloseWrite())
	<-p.Done
	must.Is(t, p.Err, fs.ErrPermission, "too much by the sender's choice")
}

func TestValidate(t *testing.T) {
	for name, f := range map[string]model.Flow{
		"engine":    {Engine: "tcpbulk", Direction: model.To},
		"direction": {Direction: model.Both},
		"streams":   {Direction: model.To, Streams: 2},
		"duration":  {Direction: model.To, Duration: time.Second},
		"omit":      {Direction: model.To, Omit: time.Second},
		"bytes":     {Direction: model.To, Bytes: -1},
		"interval":  {Direction: model.To, Interval: 1},
		"block":     {Direction: model.To, Block: 1 << 30},
		"direct":    {Direction: model.To, Block: 1000, Params: traffic.Write(files.Params{Direct: true})},
		"mode":      {Direction: model.To, Params: traffic.Write(files.Params{Mode: "teleport"})},
		"path":      {Direction: model.To, Params: traffic.Write(files.Params{Sink: strings.Repeat("x", maxPath+1)})},
	} {
		must.Fail(t, New("", Options{}).Validate(f), "%s: no fault", name)
	}
	must.OK(t, New("", Options{}).Validate(model.Flow{Engine: Name, Direction: model.From, Bytes: 1, Params: traffic.Write(files.Params{Mode: files.Read})}))
}

func BenchmarkCopy(b *testing.B) {
	for name, c := range map[string]files.Params{
		"network":        {Mode: files.Network},
		"memory":         {Mode: files.Memory},
		"memory-memory":  {},
		"memory-plain":   {Plain: true},
		"disk-memory":    {Source: "disk"},
		"disk-disk":      {Source: "disk", Sink: "disk"},
		"disk-disk-sync": {Source: "disk", Sink: "disk", Sync: true},
		"direct":         {Source: "disk", Sink: "disk", Direct: true},
		"read":           {Mode: files.Read, Source: "disk"},
		"read-direct":    {Mode: files.Read, Source: "disk", Direct: true},
		"write":          {Mode: files.Write, Sink: "disk", Sync: true},
	} {
		b.Run(name, func(b *testing.B) {
			h := newHome(b)
			for b.Loop() {
				near, far := enginetest.Prepare(b, h.Engine, enginetest.NewWire(b), model.Flow{Direction: model.To, Bytes: 256 << 20, Params: traffic.Write(c)})
				enginetest.Succeed(b, near, far, model.To)
				r := far.Report
				if c.Mode == files.Read || c.Mode == files.Memory {
					r = near.Report
				}
				b.ReportMetric(float64(r.Flows[0].Bytes)*8/r.Flows[0].Window.Seconds()/1e9, "Gbit/s")
				b.Log(near.Report.Waiting, "|", far.Report.Waiting, near.Report.Warnings, far.Report.Warnings)
			}
		})
	}
}
