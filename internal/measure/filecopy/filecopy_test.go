package filecopy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
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
			relay(t, w, 32<<10, func([]byte) { must.OK(t, c.change(path)) })
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

// childTask is the environment variable with the task of a child of the test binary, as JSON.
const childTask = "LINERATE_FILECOPY_CHILD"

// task is a copy that a child process receives and never finishes.
type task struct {
	State string
	Copy  files.Params
}

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(childTask); ok {
		var k task
		if err := json.Unmarshal([]byte(text), &k); err != nil {
			panic(err)
		}
		// A testing.T belongs to a test: TestChild runs in the child only.
		os.Args = []string{os.Args[0], "-test.run=^TestChild$"}
	}
	os.Exit(m.Run())
}

// TestChild is the child: it receives the beginning of a copy, reports that, and waits to be
// killed.
func TestChild(t *testing.T) {
	text, ok := os.LookupEnv(childTask)
	must.SkipIf(t, !ok, "is what a child process that another test starts runs")
	var k task
	must.Do(t, json.Unmarshal([]byte(text), &k))
	p := script(t, New(k.State, Options{NamedPaths: true}), flow(k.Copy))
	p.begin(t, int64(odd))
	must.Get(p.Write(make([]byte, 2<<20)))(t)
	for p.moved() < 2<<20 {
		select {
		case <-p.Done:
			t.Fatal(p.Err)
		default:
		}
	}
	fmt.Println("in the middle")
	<-p.Done
}

// inTheMiddle starts a child and waits until it is in the middle of its copy.
func inTheMiddle(t *testing.T, k task) *exec.Cmd {
	t.Helper()
	text := must.Get(json.Marshal(k))(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childTask+"="+string(text))
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "in the middle" {
			return cmd
		}
		t.Logf("child: %s", lines.Text())
	}
	t.Fatalf("the child ended: %v", cmd.Wait())
	return nil
}

// kill ends a child as abruptly as a power cut.
func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait()
}

// home is a folder for files, and an engine with its state folder.
type home struct {
	*Engine
	state, folder string
}

func newHome(t testing.TB) home {
	t.Helper()
	folder := t.TempDir()
	h := home{state: filepath.Join(folder, "state"), folder: filepath.Join(folder, "files")}
	must.Do(t, os.Mkdir(h.folder, 0o700))
	h.Engine = New(h.state, Options{NamedPaths: true})
	return h
}

// left returns the files in folder and below.
func left(t testing.TB, folder string) []string {
	t.Helper()
	var out []string
	must.Do(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return nil
	}))
	return out
}

// checkEmpty fails the test if a file of linerate is left.
func (h home) checkEmpty(t testing.TB) {
	t.Helper()
	must.Len(t, append(left(t, h.state), left(t, h.folder)...), 0, "left behind")
}

// peer is the far end of a connection whose near end the test plays.
type peer struct {
	*net.TCPConn
	*enginetest.End
}

// script starts the far end of f, which receives, and returns its peer.
func script(t testing.TB, e *Engine, f model.Flow) peer {
	t.Helper()
	w := enginetest.NewWire(t)
	c := must.Get(w.Dial(t.Context(), engine.SocketOptions{}))(t)
	t.Cleanup(func() { c.Close() })
	far := enginetest.NewEnd(t, must.Get(e.Prepare(t.Context(), w.Env(model.Far), f))(t))
	must.Do(t, c.SetDeadline(time.Now().Add(enginetest.Soon)))
	far.Start(t.Context())
	return peer{c, far}
}

func (p peer) say(t testing.TB, m message) {
	t.Helper()
	must.Do(t, writeMessage(p.TCPConn, m))
}

func (p peer) hear(t testing.TB, kind string) message {
	t.Helper()
	m, err := readMessage(p.TCPConn, kind)
	must.Dof(t, err, "wait for %q", kind)
	return m
}

// begin plays a sender of n bytes until the far end says go.
func (p peer) begin(t testing.TB, n int64) {
	t.Helper()
	p.say(t, message{Kind: kindOffer, Bytes: n})
	p.hear(t, kindReady)
	p.say(t, message{Kind: kindReady})
	p.hear(t, kindGo)
}

func TestPath(t *testing.T) {
	for name, direct := range map[string]bool{"cached": false, "direct": true} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			v := must.Get(ReadVolume(h.folder))(t)
			var complete int
			sizes := []units.Bytes{1, 70_001, odd}
			got, err := Path(t.Context(), h.folder, PathOptions{StateDir: h.state, Sizes: sizes, Repeats: 2, Block: 64 << 10, Direct: direct}, func(p PathProgress) {
				if p.Trial != nil {
					complete++
				}
			})
			must.Do(t, err)
			must.True(t, len(got.Trials) == 12 && complete == 12 && got.Volume.Type == v.Type && len(got.Warnings) != 0, "%d trials, %+v", complete, got)
			count := map[PathTrial]int{}
			for _, trial := range got.Trials {
				must.True(t, trial.Took > 0 && trial.Rate > 0 && trial.Flush <= trial.Took, "%+v", trial)
				must.True(t, trial.Operation != WriteFile || strings.Contains(trial.How, "flushed"), "%+v", trial)
				count[PathTrial{Operation: trial.Operation, Size: trial.Size}]++
			}
			for k, n := range count {
				must.True(t, n == 2, "%+v %d times", k, n)
			}
			h.checkEmpty(t)
		})
	}
}

func TestPathFaults(t *testing.T) {
	h := newHome(t)
	file := filepath.Join(h.folder, "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	for name, c := range map[string]struct {
		dir string
		o   PathOptions
	}{
		"no folder": {filepath.Join(h.folder, "nowhere"), PathOptions{}},
		"a file":    {file, PathOptions{}},
		"size":      {h.folder, PathOptions{Sizes: []units.Bytes{0}}},
		"repeats":   {h.folder, PathOptions{Repeats: -1}},
		"block":     {h.folder, PathOptions{Block: 100, Direct: true}},
		"too large": {h.folder, PathOptions{Sizes: []units.Bytes{maxBytes}}},
	} {
		c.o.StateDir = h.state
		must.Say(t, must.Err(Path(t.Context(), c.dir, c.o, nil)), c.dir, "%s", name)
	}
}

// TestPathStopped stops in the middle of a file, and keeps the results so far.
func TestPathStopped(t *testing.T) {
	h := newHome(t)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	got, err := Path(ctx, h.folder, PathOptions{StateDir: h.state, Sizes: []units.Bytes{odd}, Repeats: 1000}, func(p PathProgress) {
		if p.Trial != nil && p.Repeat == 2 {
			cancel(why)
		}
	})
	must.True(t, errors.Is(err, why) && len(got.Trials) >= 3 && len(got.Trials) <= 4, "%d trials, %v", len(got.Trials), err)
	h.checkEmpty(t)
}

// TestPathCorrupted: the data read back is compared.
func TestPathCorrupted(t *testing.T) {
	h := newHome(t)
	_, err := Path(t.Context(), h.folder, PathOptions{StateDir: h.state, Sizes: []units.Bytes{odd}, Repeats: 1}, func(p PathProgress) {
		if p.Trial == nil || p.Operation != WriteFile {
			return
		}
		names, _ := filepath.Glob(filepath.Join(h.folder, filePrefix+"*"))
		f := must.Get(os.OpenFile(names[0], os.O_WRONLY, 0))(t)
		defer f.Close()
		must.Get(f.WriteAt([]byte{'x', 'y'}, 1<<20))(t)
	})
	must.Say(t, err, "differs", "error")
	h.checkEmpty(t)
}

func TestMessages(t *testing.T) {
	var b bytes.Buffer
	long := strings.Repeat("<\"&\\", 2000)
	for _, m := range []message{
		{Kind: kindOffer, Bytes: 7}, {Kind: kindDigest, Digest: make([]byte, 32)}, {Kind: kindFail, Text: "a\nb\x1b[2J"}, {Kind: kindFail, Text: long},
	} {
		must.Do(t, writeMessage(&b, m))
	}
	m := must.Get(readMessage(&b, kindReady, kindOffer))(t)
	must.True(t, m.Bytes == 7, "%+v", m)
	if m, err := readMessage(&b, kindDigest); err != nil || len(m.Digest) != 32 {
		t.Errorf("%+v, %v", m, err)
	}
	var said *errPeer
	_, err := readMessage(&b, kindDone)
	must.True(t, errors.As(err, &said) && said.text == "a b?[2J", "%v", err)
	_, err = readMessage(&b, kindDone)
	must.True(t, errors.As(err, &said) && len(said.text) <= maxText, "%v", err)
	must.Fail(t, must.Err(readMessage(&b, kindDone)), "a message out of nothing")
	must.Say(t, must.Err(readMessage(strings.NewReader("\xff\xff\xff\xff"), kindDone)), "longer")
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"kind":"offer","bytes":268435456}`))
	f.Add([]byte(`{"kind":"fail","text":"no space"}`))
	f.Add([]byte(`{"kind":"digest","digest":"AAAA"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMessage(b, kindOffer, kindDigest, kindDone)
		must.True(t, err != nil || m.Kind != kindOffer || m.Bytes >= 1, "an offer of %d bytes is accepted", m.Bytes)
		var said *errPeer
		must.True(t, !errors.As(err, &said) || len(said.text) <= maxText, "too much text: %v", err)
	})
}

func FuzzMounts(f *testing.F) {
	f.Add("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n50 29 0:45 / /mnt/with\\040space rw shared:7 - nfs4 nas:/export rw,vers=4.2\n")
	f.Add("1 2 3 4 \\0 6 - 7 \\999")
	f.Fuzz(func(t *testing.T, text string) {
		m, ok := mountOf(parseMounts(text), "/mnt/x")
		must.True(t, !ok || m.point != "", "a mount on nothing: %+v", m)
	})
}

func TestMounts(t *testing.T) {
	all := parseMounts("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" +
		"50 29 0:45 / /mnt/with\\040space rw shared:7 - nfs4 nas:/export rw,vers=4.2\n" +
		"51 29 0:46 / /mnt/over rw - tmpfs tmpfs rw\n52 29 0:47 / /mnt/over rw - xfs /dev/sdb rw\nnonsense\n")
	for path, want := range map[string]string{
		"/": "ext4", "/etc": "ext4", "/mnt/with space/a": "nfs4", "/mnt/with spaces": "ext4", "/mnt/over": "xfs",
	} {
		m, ok := mountOf(all, path)
		must.True(t, ok && m.kind == want, "%s: %+v", path, m)
	}
}
