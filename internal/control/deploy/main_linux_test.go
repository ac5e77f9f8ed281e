package deploy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/wire"
	"linerate/internal/core/model"
)

// TestMain makes this test binary the program that is deployed, and demands that all tests
// together leave no goroutine behind.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "version":
			fmt.Println("test")
			os.Exit(0)
		case "agent":
			os.Exit(beAgent(os.Args[2:]))
		}
	}
	before := runtime.NumGoroutine()
	code := m.Run()
	if left := agenttest.Leaks(before); left != "" {
		fmt.Fprintln(os.Stderr, left)
		code = 1
	}
	os.Exit(code)
}

// beAgent does what linerate agent does, and leaves in the user's home what was
// asked of its knobs, and by whom it was run.
func beAgent(args []string) int {
	fmt.Fprintln(os.Stderr, "agent here") // is not the protocol's business
	conn, done := wire.Join(os.Stdin, os.Stdout)
	knobs := agenttest.NewKnobs(model.Far, agenttest.Values())
	err := agent.Serve(context.Background(), conn, agenttest.Config(knobs))
	_ = conn.Close()
	<-done
	if len(args) == 2 && args[0] == "--remove" {
		self, _ := os.Executable()
		_ = os.Remove(self)
		_ = os.Remove(args[1])
	}
	home, _ := os.UserHomeDir()
	_ = os.WriteFile(filepath.Join(home, "calls"), fmt.Appendf(nil, "uid %d: %s", os.Getuid(), strings.Join(knobs.Calls(), " ")), 0o600)
	if err != nil {
		return 1
	}
	return 0
}

func itoa(n int) string { return strconv.Itoa(n) }

func waitTick(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
