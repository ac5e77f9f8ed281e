package machine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// monitor is a connection to qemu's machine protocol (QMP).
type monitor struct {
	conn    net.Conn
	mu      sync.Mutex // one command at a time
	replies chan reply
	onReset func()
}

type reply struct {
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Desc string `json:"desc"`
	} `json:"error"`
	Event string `json:"event"`
}

// dial connects to a unix socket that qemu is about to create.
func dial(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "unix", path)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// newMonitor opens a session with qemu. It calls onReset at each reset of the machine.
func newMonitor(ctx context.Context, path string, onReset func()) (*monitor, error) {
	conn, err := dial(ctx, path)
	if err != nil {
		return nil, err
	}
	q := &monitor{conn: conn, replies: make(chan reply, 1), onReset: onReset}
	go q.read()
	return q, q.do(ctx, "qmp_capabilities", nil)
}

func (q *monitor) read() {
	defer close(q.replies)
	in := json.NewDecoder(bufio.NewReader(q.conn))
	for {
		var r reply
		if in.Decode(&r) != nil {
			return
		}
		switch {
		case r.Event == "RESET":
			q.onReset()
		case r.Return != nil || r.Error != nil:
			q.replies <- r
		}
	}
}

// do runs one command and waits for its answer.
func (q *monitor) do(ctx context.Context, command string, arguments map[string]any) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	say := map[string]any{"execute": command}
	if arguments != nil {
		say["arguments"] = arguments
	}
	text, err := json.Marshal(say)
	if err != nil {
		return err
	}
	if _, err := q.conn.Write(text); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	select {
	case r, ok := <-q.replies:
		switch {
		case !ok:
			return fmt.Errorf("%s: %w", command, io.ErrUnexpectedEOF)
		case r.Error != nil:
			return fmt.Errorf("%s: %w", command, errors.New(r.Error.Desc))
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", command, context.Cause(ctx))
	}
}
