//go:build slow && linux

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// TestSlowServeOfRootIsConfined builds linerate with cgo, whose threads Go cannot make give
// up rights: started by root, serve refuses; with --unconfined it serves.
func TestSlowServeOfRootIsConfined(t *testing.T) {
	needRoot(t)
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no C compiler: ", err)
	}
	program := filepath.Join(t.TempDir(), "linerate")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := build.CombinedOutput()
	must.Need(t, err == nil, "build with cgo: %v\n%s", err, out)
	serve := func(more ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // long enough to start and to say so
		defer cancel()
		cmd := exec.CommandContext(ctx, program, append([]string{"serve", "--listen", "127.0.0.1:0", "--lines"}, more...)...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir())
		out, _ := cmd.CombinedOutput() // what it says is the result
		return string(out)
	}
	if out := serve(); !strings.Contains(out, "--unconfined") || strings.Contains(out, "listening") {
		t.Errorf("without --unconfined:\n%s", out)
	}
	must.Contain(t, serve("--unconfined"), "runs ", "with --unconfined")
}
