package main

import (
	"context"
	endian "encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"linerate/internal/control/session"
)

// roleVar makes this test binary somebody else: "future-agent" on its standard
// input and output, "banner ADDR", "silent ADDR" and "hang up ADDR" for servers
// that are not linerate's, "scan ADDR" for a visitor who is not, "relay=ADDR" for
// a way to what listens there, "hostile=MANNER" for an agent that means harm
// (hostileagent_test.go); "crowd" and "friend" for the clients of a server under
// attack, who have their orders in crowdVar; "gunner LINK" and "aimer ADDR" for a
// client and a server that want the other end to send to somebody else.
const roleVar = "LINERATE_TEST_ROLE"

// play plays a role and returns the exit code.
func play(role string) int {
	if addr, ok := strings.CutPrefix(role, "relay="); ok {
		role = "relay " + addr // the command of an exec: target has no quotes
	}
	if manner, ok := strings.CutPrefix(role, "hostile="); ok {
		role = "hostile " + manner
	}
	name, addr := role, ""
	if i := strings.LastIndexByte(role, ' '); i > 0 && role != "future-agent" {
		name, addr = role[:i], role[i+1:]
	}
	ctx := context.Background()
	var err error
	switch name {
	case "future-agent":
		err = futureAgent()
	case "banner", "silent", "hang up":
		err = otherServer(ctx, name, addr)
	case "scan":
		err = scan(ctx, addr)
	case "hostile":
		err = hostileAgent(ctx, hostileManner(addr))
	case "relay":
		err = relay(ctx, addr)
	case "crowd":
		err = crowd(ctx)
	case "friend":
		err = friend(ctx)
	case "gunner":
		err = gunner(ctx, addr)
	case "aimer":
		err = aim(ctx, addr)
	default:
		err = fmt.Errorf("no role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// otherVersion is a linerate of another protocol.
const otherVersion = "v99.0.0"

// futureAgent is an agent that speaks a later protocol and takes everybody. It
// ends with its input.
func futureAgent() error {
	if _, err := greeting(os.Stdin, len("lr-hello")); err != nil {
		return err
	}
	b, err := json.Marshal(session.Welcome{Protocol: session.Protocol + 1, Version: otherVersion})
	if err != nil {
		return err
	}
	reply := endian.BigEndian.AppendUint16([]byte("lr-reply\x00"), uint16(len(b)))
	if _, err := os.Stdout.Write(append(reply, b...)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// greeting reads one end's first message, behind a head of some bytes.
func greeting(r io.Reader, head int) ([]byte, error) {
	b := make([]byte, head+2)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	body := make([]byte, endian.BigEndian.Uint16(b[head:]))
	_, err := io.ReadFull(r, body)
	return body, err
}

// otherServer listens at addr and treats visitors in its way.
func otherServer(ctx context.Context, manner, addr string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			switch manner {
			case "banner":
				_, _ = fmt.Fprint(c, "SSH-2.0-OpenSSH_9.6\r\n")
				fallthrough
			case "silent":
				_, _ = io.Copy(io.Discard, c)
			}
		}()
	}
}

// scan does what port scanners and lost clients do.
func scan(ctx context.Context, addr string) error {
	record := "\x16\x03\x01\xff\xff" // a TLS record that never comes
	for range 20 {
		for _, text := range []string{"", "GET / HTTP/1.0\r\n\r\n", "\x00\x01\x02", "L", record, record + strings.Repeat("A", 1<<16)} {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err != nil {
				return err
			}
			_, _ = io.WriteString(c, text) // it may hang up while we speak
			if err := c.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// relay joins its standard input and output to a TCP connection, until both
// directions have ended or the connection fails.
func relay(ctx context.Context, addr string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	go func() {
		_, _ = io.Copy(c, os.Stdin)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(os.Stdout, c)
	return err
}
