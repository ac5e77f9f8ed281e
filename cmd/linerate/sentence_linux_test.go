package main

import (
	"fmt"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/lab/labtest"
)

// TestClosingSentence: the last sentence of linerate test names what was planted, and
// nothing else.
func TestClosingSentence(t *testing.T) {
	t.Parallel()
	needLab(t)
	near, far := string(model.Near), string(model.Far)
	for name, c := range map[string]struct{ spec, says, next string }{
		"receive window": {"rate=100mbit,rtt=20ms," + far + ".tcp.recv_buffer_max=65536", "held back by the receive window of ", "tcp.recv_buffer_max"},
		"send buffer":    {"rate=100mbit,rtt=20ms," + near + ".tcp.send_buffer_max=65536", "held back by the send buffer of ", "tcp.send_buffer_max"},
		"window scaling": {"rate=100mbit,rtt=40ms," + far + ".tcp.window_scaling=0", "held back by the receive window of ", "announced no window scale could help: tcp.window_scaling"},
		"loss":           {"rate=50mbit,rtt=20ms,loss=0.5%," + near + ".tcp.congestion_control=reno", "held back by packet loss", ""},
		"slow stage":     {"rate=100mbit,rtt=10ms,stage=20mbit", "the limit lies outside both hosts: a slower stage on the path", ""},
		"nothing":        {"rate=50mbit,rtt=5ms", "nothing to tune", ""},
	} {
		t.Run(name, func(t *testing.T) {
			labtest.Try(t, func() string {
				out := succeed(t, "test", "lab:"+c.spec, "--to", "-t", "4s", "--omit", "1s", "--idle", "0s").out
				lines := strings.Split(strings.TrimSpace(out), "\n")
				said := ""
				for i, l := range lines { // the sentence may go on in the next lines
					if text := strings.TrimSpace(l); strings.HasPrefix(text, "to ") && i > 0 {
						said = strings.Join(lines[i:], "\n")
					}
				}
				flat := strings.Join(strings.Fields(said), " ")
				if !strings.Contains(flat, c.says) || !strings.Contains(flat, c.next) {
					return fmt.Sprintf("%q and %q are not in the last sentence:\n%s", c.says, c.next, out)
				}
				if c.says != "nothing to tune" && strings.Contains(flat, "nothing to tune") {
					return "a full path is told as well:\n" + out
				}
				return ""
			})
		})
	}
}
