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
	noiseLimit  = 1 << 20  // bytes that login scripts may say before the marker
	outputLimit = 1 << 16  // bytes that a command may say
	restLimit   = 64       // bytes of a marker's line behind it
	keptWords   = 8 << 10  // bytes of what ssh said
	feedPart    = 64 << 10 // bytes of an input between two words about it
)

// errNoEnd says that a far host talks without end.
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

// Result is what a command did.
type Result struct {
	Output string // both of its streams
	Status int    // 0 is success
}

// Target is the host as Dial was told of it.
func (s *Shell) Target() Target { return s.target }

// Run runs one command and returns when it has ended; command is one line in the
// language of Kind. input, where given, is what it reads: all of it, or the
// interpreter ends after a failure of the command.
func (s *Shell) Run(ctx context.Context, command string, input []byte) (Result, error) {
	return s.Feed(ctx, command, input, nil)
}

// Feed is Run for a long input: told, where given, is called with how much of it has
// gone, as far as is known here: what ssh has taken may be on its way.
func (s *Shell) Feed(ctx context.Context, command string, input []byte, told func(sent int)) (Result, error) {
	if err := s.send(ctx, wrap(s.Kind, s.mark, command, len(input) > 0), nil); err != nil {
		return Result{}, err
	}
	for sent := 0; sent < len(input); {
		part := input[sent:min(sent+feedPart, len(input))]
		if err := s.send(ctx, "", part); err != nil {
			return Result{}, err
		}
		if sent += len(part); told != nil {
			told(sent)
		}
	}
	return s.answer(ctx)
}

// Ask is Run for a command that reads exactly one line, secret, before it can fail.
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

// Mark returns two words. A command given to Start prints them as one, then a
// blank, a zero and a newline, before the first byte of its own.
func (s *Shell) Mark() (string, string) { return halves(s.mark) }

// Start runs a command that speaks on the connection from its marker on, see
// Mark, and returns the way to it, which s then is no longer. input is sent first.
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

// Close ends the interpreter, and what Start started.
func (s *Shell) Close() error { return s.peer.Close() }

// behind is a connection of which some was read already.
type behind struct {
	net.Conn
	r *bufio.Reader
}

// Read reads what is buffered, then the connection.
func (b *behind) Read(p []byte) (int, error) { return b.r.Read(p) }

// within lets the end of ctx end reads and writes, until the returned function
// is called.
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

// until reads to the marker, wherever in a line that is, and returns what came
// before it and the rest of its line.
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

// lost says how the interpreter ended; out is what it said last.
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
