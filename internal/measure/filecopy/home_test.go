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
	"linerate/internal/must"
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
	must.Do(t, os.Mkdir(h.folder, 0o700))
	h.Engine = New(h.state, Options{NamedPaths: true})
	return h
}

// left returns the files that are in folder and below.
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

// checkEmpty demands that nothing of linerate's is left.
func (h home) checkEmpty(t testing.TB) {
	t.Helper()
	must.Len(t, append(left(t, h.state), left(t, h.folder)...), 0, "left behind")
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
	c := must.Get(w.Dial(t.Context(), engine.SocketOptions{}))(t)
	t.Cleanup(func() { c.Close() })
	test := must.Get(e.Prepare(t.Context(), w.Env(model.Far), f))(t)
	far := enginetest.NewEnd(t, test)
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

// begin plays a sender of n bytes up to where it is told to go.
func (p peer) begin(t testing.TB, n int64) {
	t.Helper()
	p.say(t, message{Kind: kindOffer, Bytes: n})
	p.hear(t, kindReady)
	p.say(t, message{Kind: kindReady})
	p.hear(t, kindGo)
}
