package peer

import (
	"io"
	"net"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/tcpbulk"
	"linerate/internal/must"
)

// TestWindowLastsUntilDelivery: what a sender has handed to its system is not what arrived, so
// its time ends when the peer has it all.
func TestWindowLastsUntilDelivery(t *testing.T) {
	for name, whole := range map[string]bool{"delivered": true, "given up": false} {
		l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
		go func() {
			if c, err := l.Accept(); err == nil {
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}
		}()
		h := half{direction: model.From, role: model.Sender, conns: []*net.TCPConn{dialRaw(t, l.Addr().String())}, flow: model.Flow{Bytes: 100_000, Block: fullBlock}}
		began, sent := time.Now(), time.Duration(0)
		h.delivered = func() bool {
			sent = time.Since(began)
			<-time.After(sent) // the peer takes as long again
			return whole
		}
		report := h.run(t.Context(), tcpbulk.New(), newSink(model.Far, nil))
		must.Need(t, len(report.Flows) == 1 && report.Flows[0].Bytes == 100_000, "%s: %+v", name, report)
		must.Equal(t, report.Flows[0].Window >= sent, whole, "%s: %v, sent in %v", name, report.Flows[0].Window, sent)
		must.Do(t, l.Close())
	}
}
