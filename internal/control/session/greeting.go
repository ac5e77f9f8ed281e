package session

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"strings"
	"time"

	"connectrpc.com/connect"

	"linerate/internal/control/wire"
	"linerate/internal/core/model"
)

// Before HTTP/2 begins, the two ends greet each other, so that an anonymous client costs
// an agent no more than one message of 4 KiB. All numbers are big-endian:
//
//	controller -> agent  "lr-hello", length (2 bytes), Hello
//	agent -> controller  "lr-reply", code (1 byte), length (2 bytes), and
//	                     Welcome where the code is 0, else a sentence
//
// The code is one of connect's. The controller waits for the answer; what comes
// behind it is HTTP/2. An agent that says no hangs up. The frame and the fields
// of both messages are the same in all versions.
const (
	helloMagic  = "lr-hello"
	replyMagic  = "lr-reply"
	magicBytes  = 8
	maxGreeting = 4 << 10 // bytes of a message
	helloHead   = magicBytes + 2
	replyHead   = magicBytes + 3
)

// greeted reads the controller's hello from c, asks the service and answers. It returns the
// service's answer, and which end the agent is. On an error the controller was refused and sent
// the reason if it listens, and the caller closes c.
func (a *adapter) greeted(ctx context.Context, c net.Conn) (Welcome, model.Host, error) {
	silent := time.AfterFunc(a.timeouts.Hello, func() { _ = c.Close() })
	defer silent.Stop()
	p, err := readHello(c)
	if err != nil {
		return Welcome{}, "", fmt.Errorf("read hello: %w", err)
	}
	silent.Stop() // the service has its own timeout, and the answer this one again
	w, host, err := a.greet(ctx, p)
	answering := time.AfterFunc(a.timeouts.Hello, func() { _ = c.Close() })
	defer answering.Stop()
	if err != nil {
		refusal := outgoing(err)
		if werr := writeReply(c, byte(connect.CodeOf(refusal)), []byte(clean(err.Error(), MaxText))); werr == nil {
			awaitEnd(c)
		}
		return Welcome{}, "", err
	}
	b, err := json.Marshal(new(shapes).fitted(&Welcome{Protocol: Protocol, Version: a.version, NoSettings: w.NoSettings}, ""))
	if err == nil {
		err = writeReply(c, 0, b)
	}
	if err != nil {
		return Welcome{}, "", fmt.Errorf("answer hello: %w", err)
	}
	return w, host, nil
}

// awaitEnd gives the other end lingerAfterRefusal to read the answer and hang up. Anything that
// it sends instead ends the wait.
func awaitEnd(c net.Conn) {
	late := time.AfterFunc(lingerAfterRefusal, func() { _ = c.Close() })
	defer late.Stop()
	var b [1]byte
	_, _ = c.Read(b[:])
}

// readHello reads exactly a hello.
func readHello(c io.Reader) (*Hello, error) {
	var magic [magicBytes]byte
	if _, err := io.ReadFull(c, magic[:]); err != nil {
		return nil, err
	}
	if string(magic[:]) != helloMagic {
		return nil, fmt.Errorf("%w: not a hello", ErrInvalid)
	}
	var size [helloHead - magicBytes]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	b, err := readBody(c, size[:])
	if err != nil {
		return nil, err
	}
	p := new(Hello)
	return p, newCodec("").Unmarshal(b, p)
}

// readBody reads a message of the length in size, two bytes.
func readBody(c io.Reader, size []byte) ([]byte, error) {
	n := int(binary.BigEndian.Uint16(size))
	if n > maxGreeting {
		return nil, fmt.Errorf("%w: a greeting of %d bytes, at most %d are allowed", ErrInvalid, n, maxGreeting)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		return nil, err
	}
	return b, nil
}

func writeReply(c io.Writer, code byte, body []byte) error {
	b := append([]byte(replyMagic), code)
	b = binary.BigEndian.AppendUint16(b, uint16(len(body)))
	_, err := c.Write(append(b, body...))
	return err
}

// greet compares versions and asks the service. A panic of the service becomes an error for
// this controller only.
func (a *adapter) greet(ctx context.Context, p *Hello) (w Welcome, h model.Host, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("hello: a bug in the agent: %s", clean(fmt.Sprintf("%v\n%s", v, debug.Stack()), MaxText-200))
		}
	}()
	if p.Protocol != Protocol {
		return Welcome{}, "", mismatch("the agent", a.version, Protocol, "the controller", p.Version, p.Protocol)
	}
	if p.Host == "" {
		return Welcome{}, "", fmt.Errorf("%w: the agent is neither the near nor the far end", ErrInvalid)
	}
	w, err = a.service.Hello(ctx, *p)
	return w, p.Host, err
}

// mismatch returns the error for two ends with different protocols.
func mismatch(who, version string, speaks uint32, other, otherVersion string, otherSpeaks uint32) error {
	return fmt.Errorf("%w: %s is linerate %s and speaks session protocol %d, %s is linerate %s and speaks %d: install the same linerate on both hosts",
		ErrVersion, who, version, speaks, other, otherVersion, otherSpeaks)
}

// hello greets the agent, limited by ctx; outer shows whether the caller gave up.
func (c *Client) hello(ctx, outer context.Context, o Options) error {
	const op = "open session"
	defer context.AfterFunc(ctx, func() { _ = c.peer.Control.Close() })()
	r, err := exchange(c.peer.Control, &Hello{Protocol, clean(o.Version, MaxName), o.Host, c.peer.Secret})
	switch {
	case isOther(err): // whether it has ended since makes no difference
		return fmt.Errorf("%s on %s: %w: %w", op, c.peer.Name, ErrLost, err)
	case err != nil && ctx.Err() != nil:
		return c.failed(outer, op, ctx.Err())
	case errors.Is(err, io.EOF) && c.quietly():
		return fmt.Errorf("%s with %s: %w: it hung up without an answer, perhaps because it is too busy: try again",
			op, c.peer.Name, ErrLost)
	case err != nil:
		return c.failed(outer, op, err)
	}
	c.version, c.noSettings = r.Version, r.NoSettings
	if r.Protocol != Protocol {
		return fmt.Errorf("%s with %s: %w", op, c.peer.Name,
			mismatch("the controller", o.Version, Protocol, "the agent", c.version, r.Protocol))
	}
	return nil
}

// otherProgram is an error with the first bytes from a program that is not an agent.
type otherProgram string

// Error quotes these bytes.
func (s otherProgram) Error() string {
	return fmt.Sprintf("what answers there is not a linerate agent: it said %q", string(s))
}

func isOther(err error) bool {
	_, is := errors.AsType[otherProgram](err)
	return is
}

// quietly reports whether nothing is known about why the connection ended.
func (c *Client) quietly() bool {
	if c.peer.Why == nil {
		return true
	}
	why := c.peer.Why()
	return why == nil || errors.Is(why, wire.ErrEnded)
}

// exchange sends p and returns the answer. A refusal is a *refused.
func exchange(conn io.ReadWriter, p *Hello) (*Welcome, error) {
	b, err := newCodec("").Marshal(p)
	if err != nil {
		return nil, err
	}
	if len(b) > maxGreeting {
		return nil, fmt.Errorf("%w: a greeting of %d bytes, at most %d are allowed", ErrInvalid, len(b), maxGreeting)
	}
	hello := binary.BigEndian.AppendUint16([]byte(helloMagic), uint16(len(b)))
	_, unsaid := conn.Write(append(hello, b...)) // a peer that hangs up early may have sent the reason
	var head [replyHead]byte
	if n, err := io.ReadFull(conn, head[:magicBytes]); err != nil {
		if !strings.HasPrefix(replyMagic, string(head[:n])) {
			return nil, otherProgram(head[:n])
		}
		return nil, errors.Join(unsaid, err)
	}
	if string(head[:magicBytes]) != replyMagic {
		return nil, otherProgram(head[:magicBytes])
	}
	if _, err := io.ReadFull(conn, head[magicBytes:]); err != nil {
		return nil, err
	}
	if b, err = readBody(conn, head[magicBytes+1:]); err != nil {
		return nil, err
	}
	if code := head[magicBytes]; code != 0 {
		return nil, &refused{text: clean(string(b), MaxText), kind: refusal(connect.Code(code))}
	}
	r := new(Welcome)
	return r, newCodec("").Unmarshal(b, r)
}
