package wintcp

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"
)

func system() (Run, error) { return start, nil }

// afterKill is how long a child process of a killed command may keep its output open.
const afterKill = time.Second

// start runs a command of the system.
func start(ctx context.Context, argv []string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	cmd.WaitDelay = afterKill
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if _, ok := errors.AsType[*exec.ExitError](err); ok { // netsh prints errors to its standard output
		text := strings.TrimSpace(problem.String() + out.String())
		return "", errors.New(text)
	}
	return out.String(), err
}
