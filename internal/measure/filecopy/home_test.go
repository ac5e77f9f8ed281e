package filecopy

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/enginetest"
)

// home is a folder for files, and an engine with its state.
type home struct {
	*Engine
	state, folder string
}

func newHome(t testing.TB) home {
	t.Helper()
	folder := t.TempDir()
	h := home{state: filepath.Join(folder, "state"), folder: filepath.Join(folder, "files")}
	if err := os.Mkdir(h.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	h.Engine = New(h.state, Options{NamedPaths: true})
	return h
}

// left returns the files that are in folder and below.
func left(t testing.TB, folder string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checkEmpty demands that nothing of linerate's is left.
func (h home) checkEmpty(t testing.TB) {
	t.Helper()
	if files := append(left(t, h.state), left(t, h.folder)...); len(files) > 0 {
		t.Errorf("left behind: %q", files)
	}
}

// peer is the far end of a connection whose near end a test plays itself.
type peer struct {
	*net.TCPConn
	*enginetest.End
}

// script starts the far end of f, which receives, and returns its peer.
func script(t testing.TB, e *Engine, f model.Flow) peer {
	t.Helper()
	w := enginetest.NewWire(t)
	c, err := w.Dial(t.Context(), engine.SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	test, err := e.Prepare(t.Context(), w.Env(model.Far), f)
	if err != nil {
		t.Fatal(err)
	}
	far := enginetest.NewEnd(t, test)
	if err := c.SetDeadline(time.Now().Add(enginetest.Soon)); err != nil {
		t.Fatal(err)
	}
	far.Start(t.Context())
	return peer{c, far}
}

func (p peer) say(t testing.TB, m message) {
	t.Helper()
	if err := writeMessage(p.TCPConn, m); err != nil {
		t.Fatal(err)
	}
}

func (p peer) hear(t testing.TB, kind string) message {
	t.Helper()
	m, err := readMessage(p.TCPConn, kind)
	if err != nil {
		t.Fatalf("wait for %q: %v", kind, err)
	}
	return m
}

// begin plays a sender of n bytes up to where it is told to go.
func (p peer) begin(t testing.TB, n int64) {
	t.Helper()
	p.say(t, message{Kind: kindOffer, Bytes: n})
	p.hear(t, kindReady)
	p.say(t, message{Kind: kindReady})
	p.hear(t, kindGo)
}
