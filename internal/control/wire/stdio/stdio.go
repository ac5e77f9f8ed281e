// Package stdio carries a session over the standard input and output of a child
// process: an agent in another network namespace, or behind the user's own ssh.
package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"linerate/internal/control/wire"
	"linerate/internal/panics"
	"linerate/internal/tail"
)

// Options of a child. The zero value is ready for use.
type Options struct {
	Name     string        // of the host in messages; "" is the command's name
	DataHost string        // address for data connections, "" if unknown
	Env      []string      // added to this process's environment
	Grace    time.Duration // for the child to end by itself after Close; 0 is 10 s
	// Abort, once closed, makes Close kill the child without waiting.
	Abort  <-chan struct{}
	Stderr io.Writer // receives the child's other messages; nil discards them
	// Terminal is where the child may prompt: its group becomes the foreground one there (not on
	// Windows, which has none). The caller ignores SIGTTOU meanwhile, and takes the terminal
	// back. nil for no terminal.
	Terminal *os.File
}

const (
	defaultGrace = 10 * time.Second
	drainTime    = 2 * time.Second // for pipes that a grandchild holds open
	lastWords    = 2 * time.Second // for a child that has just hung up to end
	keptStderr   = 1 << 10         // bytes; fits into one error
)

// child is a running process with a session on its standard streams.
type child struct {
	name   string
	cmd    *exec.Cmd
	grace  time.Duration
	abort  <-chan struct{}
	stdout *os.File
	stderr tail.Tail
	exited chan struct{} // closed when err is set
	err    error
	close  sync.Once
}

// Start runs argv and returns the peer behind its standard input and output.
//
// The child has its own process group, so that Ctrl-C at the terminal reaches only the
// controller, which then undoes in order. For the same reason the end of ctx does not kill it.
// Close does: it ends the child's input, waits, and kills the group if the child does not end in
// time.
func Start(ctx context.Context, argv []string, o Options) (wire.Peer, error) {
	if len(argv) == 0 {
		return wire.Peer{}, errors.New("start agent: no command")
	}
	if err := ctx.Err(); err != nil {
		return wire.Peer{}, fmt.Errorf("start %s: %w", argv[0], err)
	}
	c := &child{name: argv[0], stderr: tail.Tail{Keep: keptStderr}, grace: o.Grace, abort: o.Abort, exited: make(chan struct{})}
	if c.grace <= 0 {
		c.grace = defaultGrace
	}
	c.cmd = exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...)
	c.cmd.SysProcAttr = ownGroup(o.Terminal)
	c.cmd.Stderr = &c.stderr
	if o.Stderr != nil {
		c.cmd.Stderr = io.MultiWriter(&c.stderr, o.Stderr)
	}
	c.cmd.WaitDelay = drainTime
	c.cmd.Env = append(c.cmd.Environ(), o.Env...)
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return wire.Peer{}, fmt.Errorf("start %s: %w", argv[0], err)
	}
	// Use a separate pipe: Wait would close exec's before it is read to its end.
	stdout, theirs, err := os.Pipe()
	if err != nil {
		return wire.Peer{}, fmt.Errorf("start %s: %w", argv[0], err)
	}
	c.stdout, c.cmd.Stdout = stdout, theirs
	err = c.cmd.Start()
	_ = theirs.Close()
	if err != nil {
		_ = stdout.Close()
		return wire.Peer{}, fmt.Errorf("start agent: %w", err)
	}
	conn, drained := wire.Join(stdout, stdin)
	go func() {
		defer close(c.exited)
		c.err = panics.Call(c.cmd.Wait)
	}()
	name := o.Name
	if name == "" {
		name = argv[0]
	}
	return wire.Peer{
		Control: conn, Name: name, DataHost: o.DataHost, Why: c.why,
		Close: func() error {
			c.close.Do(func() {
				_ = conn.Close()
				c.end(drained)
			})
			return nil
		},
	}, nil
}

// end waits for the child, kills it if necessary, and closes its pipes.
func (c *child) end(drained <-chan struct{}) {
	grace := c.grace
	select {
	case <-c.abort:
		grace = 0
	default:
	}
	if !closedWithin(c.exited, grace) {
		killGroup(c.cmd.Process)
		<-c.exited
	}
	if !closedWithin(drained, drainTime) {
		_ = c.stdout.Close()
		<-drained
		return
	}
	_ = c.stdout.Close()
}

func closedWithin(ch <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ch:
		return true
	case <-t.C:
		return false
	}
}

// why returns how the child ended, with its last message; nil while it runs and has printed
// nothing.
func (c *child) why() error {
	ended := closedWithin(c.exited, lastWords)
	words := c.said()
	switch {
	case !ended && words == "":
		return nil
	case !ended:
		return fmt.Errorf("%s said: %s", c.name, words)
	case c.err == nil && words == "":
		return fmt.Errorf("%s %w", c.name, wire.ErrEnded)
	case c.err == nil:
		return fmt.Errorf("%s ended: %s", c.name, words)
	case words == "":
		return fmt.Errorf("%s ended: %w", c.name, c.err)
	default:
		return fmt.Errorf("%s ended: %w: %s", c.name, c.err, words)
	}
}

// said returns the process's last messages in one line, from the start of a line.
func (c *child) said() string {
	text := c.stderr.String()
	if c.stderr.Cut() {
		if _, rest, ok := strings.Cut(text, "\n"); ok {
			text = rest
		}
	}
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
