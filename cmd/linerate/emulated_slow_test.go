//go:build slow && linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"linerate/internal/host/referee"
	"linerate/internal/must"
)

// TestEmulatedAgents: the agent of every other CPU, of both orders of bytes, tells the
// facts of its host, measures, and sets a value and puts it back, under qemu-user.
func TestEmulatedAgents(t *testing.T) {
	needRoot(t)
	for arch, emulator := range map[string]string{"arm": "arm", "arm64": "aarch64", "mipsle": "mipsel", "riscv64": "riscv64", "ppc64le": "ppc64le", "s390x": "s390x"} {
		t.Run(arch, func(t *testing.T) {
			emulator := referee.Program(t, "usr/bin/qemu-"+emulator+"-static")
			program := filepath.Join(t.TempDir(), "linerate")
			build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "./testdata/emulated")
			build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOARM=6", "GOMIPS=softfloat")
			out, err := build.CombinedOutput()
			must.Need(t, err == nil, "%v: %s", err, out)

			n := newNetns(t)
			far := fmt.Sprintf("exec:%s ip netns exec %s env EMULATOR=%s %s %s agent --state %s", farAddr, n.far, emulator, emulator, program, n.state("far"))
			before := n.bothKnobs(t)
			linerate := func(args ...string) result { return run(t, n.inside(t, "near", args...)).succeeds(t) }
			linerate("facts", far).prints(t, arch, `tcp.recv_buffer_max`)
			linerate("test", far, "-t", "0.5s", "--omit", "0s", "--idle", "0s")
			for _, r := range n.session(t).Runs {
				for _, end := range r.Ends {
					for _, f := range end.Flows {
						must.True(t, f.Bytes > 1<<20, "%s %s: %d bytes", end.Host, f.Direction, f.Bytes)
					}
				}
			}
			linerate("set", "tcp.recv_buffer_max=1MiB", far, "--for", "1s").prints(t, " -> 1 MiB", "undone")
			n.restored(t, before)
		})
	}
}
