package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
)

// killGrace is how long a program has between SIGTERM and SIGKILL.
const killGrace = 2 * time.Second

// client sends requests to one of the lab's processes and delivers each answer to its caller.
type client struct {
	link    *link
	mu      sync.Mutex
	last    int
	waiting map[int]chan message // nil once the link has ended
	ended   chan struct{}
}

func newClient(l *link) *client {
	c := &client{link: l, waiting: map[int]chan message{}, ended: make(chan struct{})}
	go c.run()
	return c
}

// run delivers answers until the link ends.
func (c *client) run() {
	defer close(c.ended)
	for {
		m, files, err := c.link.receive()
		closeAll(files) // answers carry no files
		if err != nil {
			break
		}
		c.mu.Lock()
		answers := c.waiting[m.ID]
		c.mu.Unlock()
		if answers != nil {
			answers <- m // it has room for every answer to a request
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, answers := range c.waiting {
		close(answers)
	}
	c.waiting = nil
}

// errEnded reports that a process of the lab is gone.
var errEnded = errors.New("the lab has ended")

// request sends m and returns the channel of its answers, closed when the lab ends, the
// request's number, and a function that forgets it.
func (c *client) request(m message, files ...*os.File) (<-chan message, int, func(), error) {
	answers := make(chan message, 2)
	c.mu.Lock()
	if c.waiting == nil {
		c.mu.Unlock()
		return nil, 0, nil, errEnded
	}
	c.last++
	m.ID = c.last
	c.waiting[m.ID] = answers
	c.mu.Unlock()
	forget := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, m.ID)
	}
	if err := c.link.send(m, files...); err != nil {
		forget()
		return nil, 0, nil, err
	}
	return answers, m.ID, forget, nil
}

// next returns the next answer.
func next(ctx context.Context, answers <-chan message) (message, error) {
	select {
	case <-ctx.Done():
		return message{}, ctx.Err()
	case m, ok := <-answers:
		switch {
		case !ok:
			return m, errEnded
		case m.Op == opFailed:
			return m, m.failure()
		}
		return m, nil
	}
}

// ask sends m and returns its one answer.
func (c *client) ask(ctx context.Context, m message) (message, error) {
	answers, _, forget, err := c.request(m)
	if err != nil {
		return message{}, err
	}
	defer forget()
	return next(ctx, answers)
}

func (c *client) close() error {
	err := c.link.close()
	<-c.ended
	return err
}

func (r *running) dial(ctx context.Context, host model.Host, argv []string) (net.Conn, error) {
	c, err := r.host(host)
	if err != nil {
		return nil, err
	}
	if len(argv) == 0 {
		return nil, errors.New("no command is given")
	}
	here, there, err := pair(unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	conn, err := net.FileConn(here)
	closeAll([]*os.File{here})
	if err != nil {
		closeAll([]*os.File{there})
		return nil, fmt.Errorf("use agent socket: %w", err)
	}
	out, err := r.output(r.stderr, &r.copies)
	if err != nil {
		closeAll([]*os.File{there})
		return nil, errors.Join(err, conn.Close())
	}
	answers, _, forget, err := c.request(message{Op: opSpawn, Argv: argv}, there, there, out)
	closeAll([]*os.File{there, out})
	if err == nil {
		defer forget()
		_, err = next(ctx, answers)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// command runs argv as Lab.Command says.
func (r *running) command(ctx context.Context, host model.Host, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	c, err := r.host(host)
	if err != nil {
		return err
	}
	if len(argv) == 0 {
		return errors.New("no program is given")
	}
	var copies sync.WaitGroup
	in, err := input(stdin)
	if err != nil {
		return err
	}
	out, err := r.output(stdout, &copies)
	if err != nil {
		closeAll([]*os.File{in})
		return err
	}
	errs, err := r.output(stderr, &copies)
	if err != nil {
		closeAll([]*os.File{in, out})
		return err
	}
	answers, id, forget, err := c.request(message{Op: opSpawn, Argv: argv}, in, out, errs)
	closeAll([]*os.File{in, out, errs})
	if err == nil {
		defer forget()
		_, err = next(context.WithoutCancel(ctx), answers)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", argv[0], err)
	}
	m, err := r.exited(ctx, c, id, answers)
	copies.Wait()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", argv[0], ctx.Err())
	case err != nil:
		return fmt.Errorf("%s: %w", argv[0], err)
	case m.Code != 0:
		return &ExitError{Program: argv[0], Code: m.Code}
	}
	return nil
}

// exited waits for the end of program id. It kills the program when ctx ends.
func (r *running) exited(ctx context.Context, c *client, id int, answers <-chan message) (message, error) {
	m, err := next(ctx, answers)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
			break
		}
		if err := c.link.send(message{ID: id, Op: opSignal, Signal: int(sig)}); err != nil {
			return m, err
		}
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), killGrace)
		m, err = next(grace, answers)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			err = ctx.Err()
		}
	}
	return m, err
}

// input returns a file with the content of r. The program cannot wait for the copying
// goroutine, which ends with r or when the program stops reading.
func input(r io.Reader) (*os.File, error) {
	if r == nil {
		return os.Open(os.DevNull)
	}
	if f, ok := r.(*os.File); ok {
		return duplicate(f)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create pipe: %w", err)
	}
	go func() {
		_, _ = io.Copy(write, r) // the program may stop reading early
		_ = write.Close()
	}()
	return read, unix.SetNonblock(int(read.Fd()), false)
}

// output returns a file whose content a goroutine in wg copies to w.
func (r *running) output(w io.Writer, wg *sync.WaitGroup) (*os.File, error) {
	if w == nil {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	if f, ok := w.(*os.File); ok {
		return duplicate(f)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create pipe: %w", err)
	}
	wg.Go(func() {
		_, _ = io.Copy(w, read) // ends with the program, or when w fails
		_ = read.Close()
	})
	return write, unix.SetNonblock(int(write.Fd()), false)
}

// duplicate returns a second descriptor of f, so that both can be closed.
func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate %s: %w", f.Name(), err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
