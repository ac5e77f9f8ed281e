package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"linerate/internal/lab/machine/line"
)

// guest is the harness's end of a line.
type guest struct {
	ctx  context.Context // of the machine
	path string
	mu   sync.Mutex
	conn net.Conn
	out  *line.Writer
	up   chan struct{} // closed while the guest answers
	next uint32
	asks map[uint32]*ask
}

// ask is one pending request.
type ask struct {
	stdout, stderr bytes.Buffer
	data           bytes.Buffer
	done           chan line.Exit
}

func newGuest(ctx context.Context, path string) *guest {
	g := &guest{ctx: ctx, path: path, up: make(chan struct{}), asks: map[uint32]*ask{}}
	go g.listen()
	return g
}

// listen reads the line, and reconnects after each reset, so that no old data is left in it.
func (g *guest) listen() {
	for g.ctx.Err() == nil {
		conn, err := dial(g.ctx, g.path)
		if err != nil {
			return
		}
		g.mu.Lock()
		g.conn, g.out = conn, line.NewWriter(conn)
		g.mu.Unlock()
		in := line.NewReader(conn)
		for {
			f, err := in.Read()
			if err != nil {
				break
			}
			g.hear(f)
		}
		g.fail()
	}
}

// hear handles a frame of the guest.
func (g *guest) hear(f line.Frame) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.Kind == line.Hello {
		out := g.out
		go func() { _ = out.Write(line.Ready, 0, nil) }()
		select {
		case <-g.up:
		default:
			close(g.up)
		}
		return
	}
	a := g.asks[f.ID]
	if a == nil {
		return
	}
	switch f.Kind {
	case line.Stdout:
		a.stdout.Write(f.Payload)
	case line.Stderr:
		a.stderr.Write(f.Payload)
	case line.Data:
		a.data.Write(f.Payload)
	case line.End:
		var exit line.Exit
		if err := json.Unmarshal(f.Payload, &exit); err != nil {
			exit.Err = err.Error()
		}
		delete(g.asks, f.ID)
		a.done <- exit
	case line.Hello, line.Ready, line.Exec, line.Put, line.Get, line.Kill: // never sent by a guest
	}
}

// reset forgets the guest before a reset: pending requests fail, and the line starts again.
func (g *guest) reset() {
	g.mu.Lock()
	conn := g.conn
	g.mu.Unlock()
	g.fail()
	if conn != nil {
		conn.Close()
	}
}

// fail ends all pending requests: their guest is gone.
func (g *guest) fail() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, a := range g.asks {
		delete(g.asks, id)
		a.done <- line.Exit{Code: -1, Err: errReset.Error()}
	}
	select {
	case <-g.up:
		g.up = make(chan struct{})
	default:
	}
}

func (g *guest) close() {
	g.mu.Lock()
	conn := g.conn
	g.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

func (g *guest) wait(ctx context.Context) error {
	g.mu.Lock()
	up := g.up
	g.mu.Unlock()
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-g.ctx.Done():
		return errors.New("the machine has ended")
	}
}

// begin registers a request and sends its first frame.
func (g *guest) begin(ctx context.Context, kind line.Kind, payload []byte) (uint32, *ask, error) {
	if err := g.wait(ctx); err != nil {
		return 0, nil, err
	}
	g.mu.Lock()
	g.next++
	id, a, out := g.next, &ask{done: make(chan line.Exit, 1)}, g.out
	g.asks[id] = a
	g.mu.Unlock()
	return id, a, out.Write(kind, id, payload)
}

// finish waits for the end of a request; it kills a program whose ctx ends.
func (g *guest) finish(ctx context.Context, id uint32, a *ask) (line.Exit, error) {
	select {
	case exit := <-a.done:
		switch exit.Err {
		case "":
			return exit, nil
		case errReset.Error():
			return exit, errReset
		}
		return exit, errors.New(exit.Err)
	case <-ctx.Done():
	case <-g.ctx.Done():
		return line.Exit{Code: -1}, errReset // see Machine.died
	}
	g.mu.Lock()
	out := g.out
	g.mu.Unlock()
	_ = out.Write(line.Kill, id, nil)
	select {
	case <-a.done:
	case <-time.After(5 * time.Second):
	}
	g.mu.Lock()
	delete(g.asks, id)
	g.mu.Unlock()
	return line.Exit{Code: -1}, context.Cause(ctx)
}

// Result is a program's output and exit code. Code is -1 if the program was killed.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Run runs a program in the machine as root and waits for it; ctx kills it. The error is about
// the machine only: for the program's result see Code.
func (m *Machine) Run(ctx context.Context, args ...string) (Result, error) {
	return m.Start(ctx, args...).Wait()
}

// Shell is Run for a line of sh.
func (m *Machine) Shell(ctx context.Context, text string) (Result, error) {
	return m.Run(ctx, "sh", "-c", text)
}

// Program is a program that was started in a machine.
type Program struct {
	m    *Machine
	ctx  context.Context
	args []string
	id   uint32
	ask  *ask
	err  error
}

// Start starts a program in the machine without waiting for it.
func (m *Machine) Start(ctx context.Context, args ...string) *Program {
	p := &Program{m: m, ctx: ctx, args: args}
	text, err := json.Marshal(line.Command{Args: args})
	if err != nil {
		p.err = err
		return p
	}
	p.id, p.ask, p.err = m.guest.begin(ctx, line.Exec, text)
	return p
}

// Wait waits until the program has ended.
func (p *Program) Wait() (Result, error) {
	if p.err != nil {
		return Result{Code: -1}, fmt.Errorf("machine %s: %q: %w", p.m.cfg.Name, p.args, p.err)
	}
	exit, err := p.m.guest.finish(p.ctx, p.id, p.ask)
	p.m.guest.mu.Lock() // an abandoned program may still print
	defer p.m.guest.mu.Unlock()
	r := Result{Stdout: p.ask.stdout.String(), Stderr: p.ask.stderr.String(), Code: exit.Code}
	if err != nil {
		return r, fmt.Errorf("machine %s: %q: %w", p.m.cfg.Name, p.args, p.m.died(err))
	}
	return r, nil
}

// Printed returns the program's output so far, both streams.
func (p *Program) Printed() string {
	if p.err != nil {
		return ""
	}
	p.m.guest.mu.Lock()
	defer p.m.guest.mu.Unlock()
	return p.ask.stdout.String() + p.ask.stderr.String()
}

// Put writes a file in the machine, and creates the folders above it. The file is on the
// machine's disk when Put returns.
func (m *Machine) Put(ctx context.Context, path string, text []byte, mode os.FileMode) error {
	to, err := json.Marshal(line.File{Path: path, Mode: mode})
	if err != nil {
		return err
	}
	id, a, err := m.guest.begin(ctx, line.Put, to)
	if err == nil && len(text) > 0 {
		err = m.guest.out.Write(line.Data, id, text)
	}
	if err == nil {
		err = m.guest.out.Write(line.End, id, nil)
	}
	if err == nil {
		_, err = m.guest.finish(ctx, id, a)
	}
	if err != nil {
		return fmt.Errorf("machine %s: put %s: %w", m.cfg.Name, path, err)
	}
	return nil
}

// Get reads a file of the machine.
func (m *Machine) Get(ctx context.Context, path string) ([]byte, error) {
	id, a, err := m.guest.begin(ctx, line.Get, []byte(path))
	if err == nil {
		_, err = m.guest.finish(ctx, id, a)
	}
	if err != nil {
		return nil, fmt.Errorf("machine %s: get %s: %w", m.cfg.Name, path, err)
	}
	return a.data.Bytes(), nil
}
