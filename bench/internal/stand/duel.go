package stand

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"linerate/internal/measure/sockio"
)

// Pair describes a server in the far namespace and a client in the near one.
type Pair struct {
	Server, Client []string // argument vectors
	Port           int      // the server's port
	Datagrams      bool     // Port is a UDP port
	Endless        bool     // the server is ended once it has printed Lines lines
	Lines          int
	Time           time.Duration // planned duration of the client
	// Beside, if not nil, is run in the far namespace before the server starts: it prints a
	// line when it is ready, and ends with its input.
	Beside []string
}

// Outcome is the result of a pair.
type Outcome struct {
	Server, Client, Beside []byte // their standard output
	ServerCPU, ClientCPU   time.Duration
	// Others is how many cores were busy with other work meanwhile: other programs, and kernel
	// threads that no process is charged for.
	Others float64
}

// CPU returns the CPU time of both ends.
func (o Outcome) CPU() time.Duration { return o.ServerCPU + o.ClientCPU }

const (
	// slack is how much longer than its duration a run may take.
	slack = 20 * time.Second
	// ending is how long a server may take to finish its output and exit.
	ending = 3 * time.Second
	step   = 5 * time.Millisecond
)

// Duel runs the server, then the client, and returns when both have ended.
func (*Stand) Duel(ctx context.Context, p Pair) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Time+slack)
	defer cancel()
	var watcher *beside
	if p.Beside != nil {
		var err error
		if watcher, err = startBeside(ctx, p.Beside); err != nil {
			return Outcome{}, err
		}
	}
	out, err := p.run(ctx)
	if watcher != nil {
		var cpu time.Duration
		var failed error
		out.Beside, cpu, failed = watcher.end()
		err = errors.Join(err, failed)
		// It worked during the whole time that counts.
		out.Others = max(0, out.Others-cpu.Seconds()/max(p.Time, time.Second).Seconds())
	}
	return out, err
}

// run is Duel without the process beside it.
func (p Pair) run(ctx context.Context) (Outcome, error) {
	var serverOut, serverTalk, clientOut, clientTalk text
	s := inside(ctx, Far, p.Server)
	s.Stdout, s.Stderr = &serverOut, &serverTalk
	c := inside(ctx, Near, p.Client)
	c.Stdout, c.Stderr = &clientOut, &clientTalk
	if err := s.Start(); err != nil {
		return Outcome{}, fmt.Errorf("start %s: %w", p.Server[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Wait() }()
	failed := p.listening(ctx)
	begun := time.Now()
	before, err := sockio.SystemCPU()
	if failed = errors.Join(failed, err); failed == nil {
		failed = c.Run()
	}
	failed = errors.Join(failed, p.endServer(ctx, s, ended, &serverOut, failed != nil))
	if failed != nil {
		return Outcome{}, fmt.Errorf("run %s: %w: %s%s%s", p.Client[0], failed, tail(&clientTalk), tail(&serverTalk), tail(&clientOut))
	}
	after, err := sockio.SystemCPU()
	out := Outcome{Server: serverOut.bytes(), Client: clientOut.bytes(), ServerCPU: used(s), ClientCPU: used(c)}
	out.Others = max(0, (after-before-out.CPU()).Seconds()/time.Since(begun).Seconds())
	return out, err
}

// endServer waits for the server. It ends a server that does not exit by itself once its output
// is complete, or at once if abort is true.
func (p Pair) endServer(ctx context.Context, s *exec.Cmd, ended chan error, out *text, abort bool) error {
	if !abort && !p.Endless {
		select {
		case err := <-ended:
			return err
		case <-time.After(ending + time.Second):
			abort = true
		}
	}
	// A thousand threads report one after the other: wait while more output arrives.
	for seen, until := out.lines(), time.Now().Add(ending); !abort && seen < p.Lines && time.Now().Before(until); {
		if err := pause(ctx, step); err != nil {
			break
		}
		if n := out.lines(); n > seen {
			seen, until = n, time.Now().Add(ending)
		}
	}
	// Ending it by a signal is no failure; neither is its earlier exit.
	_ = s.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(ending):
		_ = s.Process.Kill()
		<-ended
	}
	if abort && !p.Endless {
		return errors.New("the server did not end by itself")
	}
	return nil
}

// listening waits until a socket in the far namespace listens on the port.
func (p Pair) listening(ctx context.Context) error {
	kind := "-Hltn"
	if p.Datagrams {
		kind = "-Hlun"
	}
	ctx, cancel := context.WithTimeout(ctx, ending)
	defer cancel()
	for {
		out, err := inside(ctx, Far, []string{"ss", kind, "sport", "=", ":" + strconv.Itoa(p.Port)}).Output()
		if err != nil {
			return fmt.Errorf("look for a listener on port %d: %w", p.Port, err)
		}
		if len(bytes.TrimSpace(out)) > 0 {
			return nil
		}
		if err := pause(ctx, step); err != nil {
			return fmt.Errorf("wait for a listener on port %d: %w", p.Port, err)
		}
	}
}

// used returns the CPU time of an exited command, from wait4.
func used(c *exec.Cmd) time.Duration {
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime()
}

// beside is a process that watches a run.
type beside struct {
	cmd  *exec.Cmd
	stop io.Closer
	out  *bufio.Reader
	talk *text
}

func startBeside(ctx context.Context, argv []string) (*beside, error) {
	b := &beside{cmd: inside(ctx, Far, argv), talk: &text{}}
	b.cmd.Stderr = b.talk
	stop, err := b.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	b.stop, b.out = stop, bufio.NewReader(out)
	if err := b.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	if _, err := b.out.ReadString('\n'); err != nil {
		_ = stop.Close()
		return nil, errors.Join(fmt.Errorf("wait for %s to be ready: %w: %s", argv[0], err, tail(b.talk)), b.cmd.Wait())
	}
	return b, nil
}

// end ends the process and returns its output and CPU time.
func (b *beside) end() ([]byte, time.Duration, error) {
	err := b.stop.Close()
	out, failed := io.ReadAll(b.out)
	err = errors.Join(err, failed, b.cmd.Wait())
	if err != nil {
		return nil, 0, fmt.Errorf("watch beside: %w: %s", err, tail(b.talk))
	}
	return out, used(b.cmd), nil
}

// text collects a process's output. It is safe for concurrent use.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (t *text) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(b)
}

func (t *text) lines() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Count(t.b.Bytes(), []byte("\n"))
}

func (t *text) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.b.Bytes())
}

// tail returns the end of a process's output, for an error.
func tail(t *text) string {
	b := bytes.TrimSpace(t.bytes())
	return string(b[max(0, len(b)-300):])
}
