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
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

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
