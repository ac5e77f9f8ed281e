package stand

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// inner is set if the test runs in namespaces of its own.
const inner = "LINERATE_BENCH_STAND"

// apart reruns the calling test in namespaces of its own, as bench/run does, and reports
// whether this process is already in them.
func apart(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inner) != "" {
		return true
	}
	for _, program := range []string{"ip", "ss", "unshare", "iperf3"} {
		must.SkipIf(t, !Installed(program), "%s is not installed", program)
	}
	space := []string{"--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if os.Getuid() != 0 {
		space = append(space, "--map-root-user")
	}
	err := exec.CommandContext(t.Context(), "unshare", append(space, "true")...).Run()
	must.SkipIf(t, err != nil, "this system allows no network namespaces: %v", err)
	args := append(space, "sh", "-c", `mount -t tmpfs none /run && exec "$@"`, "sh", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	c := exec.CommandContext(t.Context(), "unshare", args...)
	c.Env = append(c.Environ(), inner+"=1")
	out := must.Get(c.CombinedOutput())(t)
	must.True(t, bytes.Contains(out, []byte("--- PASS: "+t.Name())), "%s", out)
	return false
}

func TestDuel(t *testing.T) {
	if !apart(t) {
		return
	}
	s := must.Get(Make(t.Context()))(t)
	must.Do(t, s.MTU(t.Context(), 9000))
	server, client := []string{"iperf3", "-s", "-1"}, []string{"iperf3", "-c", FarAddress, "-n", "50M", "-J"}
	p := Pair{Server: server, Client: client, Port: 5201, Time: time.Second}
	out := must.Get(s.Duel(t.Context(), p))(t)
	must.True(t, out.ServerCPU > 0 && out.ClientCPU > 0 && out.CPU() == out.ServerCPU+out.ClientCPU, "CPU is %v and %v", out.ServerCPU, out.ClientCPU)
	for _, want := range []string{`"sum_received"`, `"receiver_tcp_congestion":	"` + Congestion} {
		must.True(t, bytes.Contains(out.Client, []byte(want)), "no %s in %s", want, out.Client)
	}

	t.Run("endless server, watched", func(t *testing.T) {
		p.Server, p.Endless, p.Lines = []string{"iperf3", "-s", "--forceflush"}, true, 3
		p.Beside = []string{"sh", "-c", "echo ready; cat; echo over"}
		out, err := s.Duel(t.Context(), p)
		must.True(t, err == nil && strings.TrimSpace(string(out.Beside)) == "over" && bytes.Count(out.Server, []byte("\n")) >= 3,
			"%v: beside %q, server %q", err, out.Beside, out.Server)
	})
	t.Run("client fails", func(t *testing.T) {
		must.Say(t, must.Err(s.Duel(t.Context(), Pair{Server: server, Client: []string{"sh", "-c", "echo broken >&2; exit 3"}, Port: 5201})), "broken", "got")
		// No program listens on the port any more.
		must.Equal(t, Output(context.WithoutCancel(t.Context()), "ip", "netns", "exec", Far, "ss", "-Hltn"), "", "still listening")
	})
	t.Run("nobody listens", func(t *testing.T) {
		must.Fail(t, must.Err(s.Duel(t.Context(), Pair{Server: []string{"sleep", "60"}, Client: []string{"true"}, Port: 5201})), "no error")
	})
}
