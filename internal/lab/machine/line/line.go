// Package line is the protocol between the harness of package machine and the guest in a
// machine: frames on a byte stream that may lose its beginning, or be cut by a reset at any
// byte.
//
// A frame is four bytes of magic, one byte of kind, four of the request's id, four of the
// payload's length (big endian), four of its CRC-32, and the payload. A reader that finds
// anything else looks for the next magic.
package line

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"
)

// Kind is the type of a frame.
type Kind byte

const (
	// Hello is sent by the guest until it gets Ready: JSON of Greeting.
	Hello Kind = iota + 1
	// Ready answers Hello, with its Boot.
	Ready
	// Exec starts a program: JSON of Command.
	Exec
	// Put writes a file: JSON of File, then Data, then End.
	Put
	// Get requests a file: its path.
	Get
	// Kill ends the program of that id and its children.
	Kill
	// Data is a piece of a file, in either direction.
	Data
	// Stdout is a piece of a program's output.
	Stdout
	// Stderr is a piece of its error output.
	Stderr
	// End ends a Put file, and any request: JSON of Exit.
	End
)

// MaxPayload is the most payload of a frame, in bytes.
const MaxPayload = 32 << 10

var magic = [4]byte{0xF5, 'L', 'R', 0xFA}

const headerSize = 4 + 1 + 4 + 4 + 4

// Greeting identifies a guest.
type Greeting struct {
	Boot   uint64 // differs after each start of the guest
	System string // GOOS
}

// Command is a program to run.
type Command struct {
	Args  []string
	Env   []string // added to the guest's own
	Stdin []byte
}

// File is a file to write.
type File struct {
	Path string
	Mode os.FileMode
}

// Exit is the result of a request. Err is why it could not start or finish.
type Exit struct {
	Code int
	Err  string
}

// Frame is one piece of the conversation.
type Frame struct {
	Kind    Kind
	ID      uint32
	Payload []byte
}

// Writer writes whole frames, from any goroutine.
type Writer struct {
	mu  sync.Mutex
	to  io.Writer
	buf []byte
}

// NewWriter writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write sends payload in as many frames as needed, at least one.
func (w *Writer) Write(kind Kind, id uint32, payload []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		part := payload[:min(len(payload), MaxPayload)]
		w.buf = append(w.buf[:0], magic[:]...)
		w.buf = append(w.buf, byte(kind))
		w.buf = binary.BigEndian.AppendUint32(w.buf, id)
		w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(len(part)))
		w.buf = binary.BigEndian.AppendUint32(w.buf, crc32.ChecksumIEEE(part))
		w.buf = append(w.buf, part...)
		if _, err := w.to.Write(w.buf); err != nil {
			return fmt.Errorf("line: %w", err)
		}
		if payload = payload[len(part):]; len(payload) == 0 {
			return nil
		}
	}
}

// Reader reads frames and skips invalid data.
type Reader struct{ from *bufio.Reader }

// NewReader reads from r.
func NewReader(r io.Reader) *Reader {
	return &Reader{from: bufio.NewReaderSize(r, 2*MaxPayload)}
}

// Read returns the next valid frame. Its error is the stream's.
func (r *Reader) Read() (Frame, error) {
	for {
		head, err := r.from.Peek(headerSize)
		if err != nil {
			return Frame{}, ended(err)
		}
		size := binary.BigEndian.Uint32(head[9:])
		if [4]byte(head[:4]) != magic || size > MaxPayload {
			_, _ = r.from.Discard(1)
			continue
		}
		whole, err := r.from.Peek(headerSize + int(size))
		if err != nil {
			return Frame{}, ended(err)
		}
		payload := whole[headerSize:]
		if crc32.ChecksumIEEE(payload) != binary.BigEndian.Uint32(whole[13:]) {
			_, _ = r.from.Discard(1)
			continue
		}
		f := Frame{Kind: Kind(whole[4]), ID: binary.BigEndian.Uint32(whole[5:]), Payload: append([]byte(nil), payload...)}
		_, _ = r.from.Discard(len(whole))
		return f, nil
	}
}

func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return fmt.Errorf("line: %w", err)
}
