package wintcp_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/host/knob/wintcp"
	"linerate/internal/must"
)

// TestCommandThatHangs: an undo, which nothing else ends, waits for a PowerShell or
// netsh that hangs for half a minute, and can try again.
func TestCommandThatHangs(t *testing.T) {
	for _, name := range []string{"ScalingHeuristics", "CongestionProvider", "NlMtuBytes"} {
		synctest.Test(t, func(t *testing.T) {
			m, hangs := newMachine(), true
			s, err := wintcp.OpenWith(func(ctx context.Context, argv []string) (string, error) {
				if hangs {
					<-ctx.Done()
					return "", ctx.Err()
				}
				return m.run(ctx, argv)
			}, "Ethernet 2", name)
			must.Do(t, err)
			ctx := context.WithoutCancel(t.Context())
			begin := time.Now()
			_, err = s.Read(ctx)
			if took := time.Since(begin); err == nil || !strings.Contains(err.Error(), "powershell.exe did not end within 30s") || took > time.Minute {
				t.Errorf("%s: Read = %v after %s", name, err, took)
			}
			must.Say(t, s.Write(ctx, "Disabled"), "did not end within", "%s: Write", name)
			hangs = false
			must.OK(t, must.Err(s.Read(ctx)), "%s: Read once it answers", name)
		})
	}
}
