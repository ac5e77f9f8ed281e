package reach

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
	told := app.WithHint(app.WithKind(app.Unreachable, errors.New("busy")), "wait")
	for name, c := range map[string]struct {
		err        error
		kind       app.Kind
		says, hint string
	}{
		"nothing":       {nil, 0, "", ""},
		"refused":       {dial(server, fmt.Errorf("connect: %w", syscall.ECONNREFUSED)), app.Unreachable, "connect to 10.0.0.2:5201: ", "start it with: START"},
		"no such name":  {dial(nil, &net.DNSError{Err: "no such host", Name: "nas", IsNotFound: true}), app.Unreachable, "lookup nas", "is the name right?"},
		"other program": {errors.New("state 0 was not due"), app.Failed, "state 0", "is what answers there an KIND?"},
		"told already":  {told, app.Unreachable, "busy", "wait"},
		"unsupported":   {errors.ErrUnsupported, app.Unsupported, "unsupported", ""},
	} {
		got := unreachable(t.Context(), c.err, "KIND", "START")
		text := ""
		if got != nil {
			text = got.Error()
		}
		if got != nil && app.KindOf(got) != c.kind || !strings.Contains(text, c.says) || !strings.Contains(app.HintOf(got), c.hint) || c.hint == "" && app.HintOf(got) != "" {
			t.Errorf("%s: %q, kind %d, hint %q", name, text, app.KindOf(got), app.HintOf(got))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := errors.New("cut"); unreachable(ctx, err, "KIND", "START") != err { //nolint:errorlint // the same value, unwrapped
		t.Error("a user who stopped is told what to do")
	}
}
