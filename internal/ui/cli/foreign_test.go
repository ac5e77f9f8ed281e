package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/app"
)

// What is wrong with a foreign server decides on the code and on what to do.
func TestUnreachable(t *testing.T) {
	dial := func(addr net.Addr, err error) error {
		return fmt.Errorf("test: %w", &net.OpError{Op: "dial", Net: "tcp", Addr: addr, Err: err})
	}
	server := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 5201}
	told := withHint(app.WithKind(app.Unreachable, errors.New("busy")), "wait")
	for name, c := range map[string]struct {
		err        error
		code       int
		says, hint string
	}{
		"nothing":       {nil, exitOK, "", ""},
		"refused":       {dial(server, fmt.Errorf("connect: %w", syscall.ECONNREFUSED)), exitUnreachable, "connect to 10.0.0.2:5201: ", "start it with: START"},
		"no such name":  {dial(nil, &net.DNSError{Err: "no such host", Name: "nas", IsNotFound: true}), exitUnreachable, "lookup nas", "is the name right?"},
		"other program": {errors.New("state 0 was not due"), exitFailed, "state 0", "is what answers there an KIND?"},
		"told already":  {told, exitUnreachable, "busy", "wait"},
		"unsupported":   {errors.ErrUnsupported, exitUnsupported, "unsupported", ""},
	} {
		got := unreachable(t.Context(), c.err, "KIND", "START")
		text := ""
		if got != nil {
			text = got.Error()
		}
		if exitCode(got) != c.code || !strings.Contains(text, c.says) || !strings.Contains(hintOf(got), c.hint) || c.hint == "" && hintOf(got) != "" {
			t.Errorf("%s: %q, exit code %d, hint %q", name, text, exitCode(got), hintOf(got))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := errors.New("cut"); unreachable(ctx, err, "KIND", "START") != err { //nolint:errorlint // the same value, unwrapped
		t.Error("a user who stopped is told what to do")
	}
}
