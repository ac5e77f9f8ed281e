package ssh

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"linerate/internal/control/wire"
	"linerate/internal/tail"
)

const (
	noiseLimit  = 1 << 20  // bytes of login scripts before the marker
	outputLimit = 1 << 16  // bytes of a command's output
	restLimit   = 64       // bytes of a marker's line after it
	keptWords   = 8 << 10  // bytes of ssh's messages that are kept
	feedPart    = 64 << 10 // bytes of an input between two progress reports
)

// errNoEnd reports endless output from a far host.
var errNoEnd = errors.New("too much output")

// Shell is an interpreter on a far host. It is not safe for concurrent use.
type Shell struct {
	// Kind is known after Dial.
	Kind Kind

	target Target
	mark   string
	peer   wire.Peer
	in     *bufio.Reader
	stderr *tail.Tail
}

func newReader(conn net.Conn) *bufio.Reader { return bufio.NewReader(conn) }

// Result is the outcome of a command.
type Result struct {
	Output string // both output streams
	Status int    // 0 is success
}

// Target returns the host passed to Dial.
func (s *Shell) Target() Target { return s.target }

// Run runs one command and returns when it has ended; command is one line in the language of
// Kind. If input is not nil, the command must read all of it, or fail: then the interpreter
// ends.
func (s *Shell) Run(ctx context.Context, command string, input []byte) (Result, error) {
	return s.Feed(ctx, command, input, nil)
}

// Feed is Run for a long input. If progress is not nil, it is called with the number of bytes that
// ssh has accepted so far, which may still be on their way.
func (s *Shell) Feed(ctx context.Context, command string, input []byte, progress func(sent int)) (Result, error) {
	if err := s.send(ctx, wrap(s.Kind, s.mark, command, len(input) > 0), nil); err != nil {
		return Result{}, err
	}
	for sent := 0; sent < len(input); {
		part := input[sent:min(sent+feedPart, len(input))]
		if err := s.send(ctx, "", part); err != nil {
			return Result{}, err
		}
		if sent += len(part); progress != nil {
			progress(sent)
		}
	}
	return s.answer(ctx)
}

// Ask is Run for a command that first reads exactly one line, secret.
func (s *Shell) Ask(ctx context.Context, command string, secret []byte) (Result, error) {
	if err := s.send(ctx, wrap(s.Kind, s.mark, command, false), append(bytes.Clone(secret), '\n')); err != nil {
		return Result{}, err
	}
	return s.answer(ctx)
}

func (s *Shell) answer(ctx context.Context) (Result, error) {
	out, rest, err := s.until(ctx, outputLimit)
	if err != nil {
		return Result{}, s.lost(ctx, out, err)
	}
	status, err := strconv.Atoi(strings.TrimSpace(rest))
	if err != nil {
		return Result{}, s.lost(ctx, out, err)
	}
	return Result{Output: string(out), Status: status}, nil
}

// Mark returns the two halves of the marker. A command for Start prints them joined, then a
// blank, a zero and a newline, before any other output.
func (s *Shell) Mark() (string, string) { return halves(s.mark) }

// Start runs a command that owns the connection from its marker on, see Mark, and returns that
// connection; s is then used up. input is sent first.
func (s *Shell) Start(ctx context.Context, command string, input []byte) (wire.Peer, error) {
	if err := s.send(ctx, command+"\n", input); err != nil {
		return wire.Peer{}, err
	}
	r, err := s.answer(ctx)
	if err == nil && r.Status != 0 {
		err = s.lost(ctx, []byte(r.Output), errors.New("wrong answer"))
	}
	if err != nil {
		return wire.Peer{}, err
	}
	p := s.peer
	p.Control = &behind{Conn: p.Control, r: s.in}
	return p, nil
}

// Close ends the interpreter, and the command of Start.
func (s *Shell) Close() error { return s.peer.Close() }

// behind is a connection with some bytes already buffered.
type behind struct {
	net.Conn
	r *bufio.Reader
}

// Read reads the buffered bytes, then the connection.
func (b *behind) Read(p []byte) (int, error) { return b.r.Read(p) }

// within makes the end of ctx interrupt reads and writes, until the returned function is called.
func (s *Shell) within(ctx context.Context) func() bool {
	return context.AfterFunc(ctx, func() { _ = s.peer.Control.SetDeadline(time.Unix(1, 0)) })
}

func (s *Shell) send(ctx context.Context, line string, input []byte) error {
	defer s.within(ctx)()
	var err error
	if line != "" {
		_, err = io.WriteString(s.peer.Control, line)
	}
	if err == nil && len(input) > 0 {
		_, err = s.peer.Control.Write(input)
	}
	if err != nil {
		return s.lost(ctx, nil, err)
	}
	return nil
}

// until reads up to the marker, which may be anywhere in a line, and returns the output before
// it and the rest of its line.
func (s *Shell) until(ctx context.Context, limit int) (before []byte, rest string, err error) {
	defer s.within(ctx)()
	mark := []byte(s.mark)
	for !bytes.HasSuffix(before, mark) {
		if len(before) > limit {
			return before, "", errNoEnd
		}
		b, err := s.in.ReadByte()
		if err != nil {
			return before, "", err
		}
		before = append(before, b)
	}
	before = before[:len(before)-len(mark)]
	var tail []byte
	for len(tail) < restLimit {
		b, err := s.in.ReadByte()
		if err != nil {
			return before, "", err
		}
		if b == '\n' {
			return before, strings.TrimRight(string(tail), "\r"), nil
		}
		tail = append(tail, b)
	}
	return before, "", errNoEnd
}

// lost says how the interpreter ended; out is its last output.
func (s *Shell) lost(ctx context.Context, out []byte, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("talk to the shell on %s: %w", s.target.Host, ctx.Err())
	}
	if why := s.peer.Why(); why != nil {
		err = why
	}
	if words := oneLine(string(out)); words != "" {
		return fmt.Errorf("talk to the shell on %s: %w: %s", s.target.Host, err, words)
	}
	return fmt.Errorf("talk to the shell on %s: %w", s.target.Host, err)
}
