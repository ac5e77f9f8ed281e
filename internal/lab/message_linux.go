package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/lab/wire"
)

// maxMessage bounds a message between the lab's processes. The longest is the
// argument vector of a program.
const maxMessage = 128 << 10

// message is the lab's message between its processes: JSON over SOCK_SEQPACKET sockets, with
// descriptors as SCM_RIGHTS. All are one program of one version, so the format is private to
// this package.
type message struct {
	ID int    `json:"id,omitempty"` // of a request and of its answers
	Op string `json:"op"`

	Setup  *setup   `json:"setup,omitempty"`
	Argv   []string `json:"argv,omitempty"`
	Signal int      `json:"signal,omitempty"`
	Code   int      `json:"code,omitempty"`
	Stats  *Stats   `json:"stats,omitempty"`
	Missed uint64   `json:"missed,omitempty"`
	Error  string   `json:"error,omitempty"`
	Denied bool     `json:"denied,omitempty"` // Error is a lack of permission
}

// setup is the configuration of the wire process and the hosts.
type setup struct {
	Spec    Spec       `json:"spec"`
	Wire    wire.Kind  `json:"wire"`
	Command []string   `json:"command"`
	Host    model.Host `json:"host,omitempty"`
	Groups  groups     `json:"groups,omitempty"`
}

// The operations of messages.
const (
	opSetup   = "setup"   // to wire process and hosts: begin
	opDevice  = "device"  // from a host: its network namespace, or the requested TAP file
	opTAP     = "tap"     // to a host: create a TAP device
	opReady   = "ready"   // this part of the lab is up
	opSpawn   = "spawn"   // to a host: start Argv with the three descriptors
	opStarted = "started" // from a host
	opExited  = "exited"  // from a host, Code is the result
	opSignal  = "signal"  // to a host: signal the process group of ID
	opStats   = "stats"   // to the wire process and to a host
	opFailed  = "failed"  // Error is the reason
)

// link is one end of a socket between two of the lab's processes.
type link struct {
	conn *net.UnixConn
	mu   sync.Mutex // of sending
	buf  []byte     // of the one receiving goroutine
}

// newLink takes ownership of file.
func newLink(file *os.File) (*link, error) {
	c, err := net.FileConn(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("use lab socket: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("lab socket is no unix socket"), c.Close())
	}
	return &link{conn: u, buf: make([]byte, maxMessage)}, nil
}

// inherited returns the link on a descriptor that this process was started with. Its own
// children do not inherit it.
func inherited(fd uintptr) (*link, error) {
	unix.CloseOnExec(int(fd))
	return newLink(os.NewFile(fd, "lab socket"))
}

// pair returns two connected sockets for links.
func pair(kind int) (*os.File, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("create socket pair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "lab socket"), os.NewFile(uintptr(fds[1]), "lab socket"), nil
}

// send sends m with copies of files.
func (l *link) send(m message, files ...*os.File) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode lab message: %w", err)
	}
	if len(text) > maxMessage {
		return fmt.Errorf("lab message of %d bytes: at most %d fit", len(text), maxMessage)
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, _, err := l.conn.WriteMsgUnix(text, rights, nil); err != nil {
		return fmt.Errorf("send lab message: %w", err)
	}
	return nil
}

// receive returns the next message, io.EOF if the other end is gone.
func (l *link) receive() (message, []*os.File, error) {
	rights := make([]byte, unix.CmsgSpace(4*4))
	n, oobn, _, _, err := l.conn.ReadMsgUnix(l.buf, rights)
	if err != nil {
		return message{}, nil, fmt.Errorf("receive lab message: %w", err)
	}
	if n == 0 {
		return message{}, nil, io.EOF
	}
	files, err := receivedFiles(rights[:oobn])
	if err != nil {
		return message{}, nil, err
	}
	var m message
	if err := json.Unmarshal(l.buf[:n], &m); err != nil {
		closeAll(files)
		return message{}, nil, fmt.Errorf("decode lab message: %w", err)
	}
	return m, files, nil
}

// expect returns the next message if it is op, else an error.
func (l *link) expect(op string, descriptors int) (message, []*os.File, error) {
	m, files, err := l.receive()
	switch {
	case err != nil:
		return m, nil, err
	case m.Op == opFailed:
		closeAll(files)
		return m, nil, m.failure()
	case m.Op != op || len(files) < descriptors:
		closeAll(files)
		return m, nil, fmt.Errorf("lab process said %q with %d descriptors instead of %q", m.Op, len(files), op)
	}
	return m, files, nil
}

func receivedFiles(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("read descriptors: %w", err)
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("read descriptors: %w", err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

// closeAll closes files that were only passed on: nothing was written to them here, so closing
// reports no error.
func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

func (l *link) close() error { return l.conn.Close() }

// reported is an error from another process of the lab.
type reported struct {
	text   string
	denied bool
}

func (r *reported) Error() string { return r.text }

// Is lets errors.Is recognise a lack of permission.
func (r *reported) Is(target error) bool { return r.denied && target == fs.ErrPermission }

// failure returns the error of an opFailed message.
func (m message) failure() error { return &reported{m.Error, m.Denied} }

// failed returns the message for err.
func failed(id int, err error) message {
	return message{ID: id, Op: opFailed, Error: err.Error(), Denied: errors.Is(err, fs.ErrPermission)}
}
