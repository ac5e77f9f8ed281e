//go:build unix

package tuner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/core/knob"
)

// Tuner is the server's side of its tuner. It is safe for concurrent use.
type Tuner struct {
	cmd    *exec.Cmd
	mu     sync.Mutex // one request at a time
	conn   *net.UnixConn
	broken error         // why no more requests are possible
	gone   chan struct{} // closed when the process ended
}

// Start starts command as the tuner, with the current rights of this process, and returns when
// it is ready. Its standard input is the socket that Serve reads. The caller calls Close.
func Start(ctx context.Context, command []string, stderr io.Writer) (*Tuner, error) {
	mine, its, err := pair()
	if err != nil {
		return nil, fmt.Errorf("start tuner: %w", err)
	}
	t := &Tuner{gone: make(chan struct{})}
	t.cmd = exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...)
	t.cmd.Stdin, t.cmd.Stderr = its, stderr
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C in the server's terminal ends the server, which then ends the tuner
	err = t.cmd.Start()
	_ = its.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start tuner: %w", err), mine.Close())
	}
	go func() {
		_ = t.cmd.Wait()
		close(t.gone)
	}()
	if t.conn, err = unixConn(mine); err != nil {
		return nil, fmt.Errorf("start tuner: %w", err)
	}
	if _, err := t.answer(readyTime); err != nil {
		return nil, errors.Join(fmt.Errorf("start tuner: %w", err), t.Close())
	}
	return t, nil
}

// readyTime is how long a tuner may take to undo what an earlier one left.
const readyTime = time.Minute

// answer waits for the tuner's answer, one byte.
func (t *Tuner) answer(within time.Duration) (byte, error) {
	var b [1]byte
	err := t.conn.SetReadDeadline(time.Now().Add(within))
	if err == nil {
		_, err = io.ReadFull(t.conn, b[:])
	}
	if err != nil {
		return 0, fmt.Errorf("it does not answer: %w", err)
	}
	return b[0], nil
}

const (
	yes = '+'
	no  = '-'
)

// Open returns a connection to an agent of the tuner.
func (t *Tuner) Open(_ context.Context, r Request) (net.Conn, error) {
	b, err := json.Marshal(r)
	if err != nil || len(b) > maxRequest {
		return nil, errors.Join(errors.New("the request is too long"), err)
	}
	mine, its, err := pair()
	if err != nil {
		return nil, err
	}
	defer func() { _ = its.Close() }()
	if err := t.ask(b, its); err != nil {
		return nil, errors.Join(err, mine.Close())
	}
	return unixConn(mine)
}

// ask sends a request with its connection. After one timeout it sends no more requests: the next
// answer may belong to an earlier one.
func (t *Tuner) ask(request []byte, its *os.File) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken != nil {
		return t.broken
	}
	err := t.conn.SetWriteDeadline(time.Now().Add(answerTime))
	if err == nil {
		_, _, err = t.conn.WriteMsgUnix(request, syscall.UnixRights(int(its.Fd())), nil)
	}
	var answer byte
	if err == nil {
		answer, err = t.answer(answerTime)
	}
	if err != nil {
		t.broken = err
		return err
	}
	if answer != yes {
		return fmt.Errorf("%w: the tuner has %d sessions, its limit: try again later", session.ErrBusy, maxSessions)
	}
	return nil
}

// Close ends the tuner, which undoes all applied changes, and waits for that. It is idempotent.
func (t *Tuner) Close() error {
	_ = t.conn.Close()
	select {
	case <-t.gone:
		return nil
	case <-time.After(knob.MaxUndoTime):
		return errors.New("the tuner is still undoing")
	}
}

// Serve is the tuner: it reads requests from in, its socket, and calls serve for each, until in
// or ctx ends and every serve has returned. serve owns conn.
func Serve(ctx context.Context, in *os.File, serve func(ctx context.Context, r Request, conn net.Conn)) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	conn, err := unixConn(in)
	if err != nil {
		return fmt.Errorf("tuner: %w", err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := conn.Write([]byte{yes}); err != nil {
		return fmt.Errorf("tuner: %w", err)
	}
	slots := make(chan struct{}, maxSessions)
	for {
		r, c, err := receive(conn)
		switch {
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("tuner: %w", err)
		}
		answer := byte(yes)
		select {
		case slots <- struct{}{}:
			all.Go(func() {
				defer func() { <-slots }()
				serve(ctx, r, c)
			})
		default:
			answer = no
			_ = c.Close()
		}
		if _, err := conn.Write([]byte{answer}); err != nil {
			return nil // the server is gone
		}
	}
}

// receive reads a request with its connection.
func receive(conn *net.UnixConn) (r Request, c net.Conn, err error) {
	b, control := make([]byte, maxRequest), make([]byte, syscall.CmsgSpace(4))
	n, cn, _, _, err := conn.ReadMsgUnix(b, control)
	if err != nil {
		return r, nil, err
	}
	if n == 0 && cn == 0 {
		return r, nil, io.EOF
	}
	messages, err := syscall.ParseSocketControlMessage(control[:cn])
	if err != nil || len(messages) != 1 {
		return r, nil, errors.Join(errors.New("a request without a connection"), err)
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return r, nil, errors.Join(errors.New("a request without a connection"), err)
	}
	syscall.CloseOnExec(fds[0])
	if c, err = unixConn(os.NewFile(uintptr(fds[0]), "session")); err != nil {
		return r, nil, err
	}
	if err := json.Unmarshal(b[:n], &r); err != nil {
		return r, nil, errors.Join(fmt.Errorf("not a request: %w", err), c.Close())
	}
	return r, c, nil
}

// pair returns two connected sockets that child processes inherit only if passed on.
func pair() (a, b *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("make sockets: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "tuner"), os.NewFile(uintptr(fds[1]), "tuner"), nil
}

// unixConn takes over f.
func unixConn(f *os.File) (*net.UnixConn, error) {
	defer func() { _ = f.Close() }()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("not a socket between processes"), c.Close())
	}
	return u, nil
}
