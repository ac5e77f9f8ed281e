//go:build slow && linux

package datagram

import (
	"fmt"
	"testing"
	"time"
)

func TestRates(t *testing.T) {
	near, far := veth(t)
	for _, size := range []int{64, 1472} {
		for _, plain := range []bool{true, false} {
			for _, gap := range []float64{0, 1472 * 8 * 10, 1472 * 8} {
				if gap > 0 && !plain {
					continue
				}
				t.Run(fmt.Sprintf("%d/plain=%v/gap=%v", size, plain, gap), func(t *testing.T) {
					a, b := connected(t, "udp4", "10.78.0.2", near.do, far.do)
					f := newFlow(t, a, b, Options{Plain: plain}, SenderOptions{Size: size, Gap: gap}, limits{time: 2 * time.Second})
					took := f.run()
					v := f.tally.Variation()
					t.Logf("%.0f kpps sent, %.0f kpps received, missing %d dropped %v refused %d missed %d jitter %v pdv p50 %v p99 %v trains %v/%v err %v %v buf %v",
						float64(f.send.Sent.Load())/took.Seconds()/1e3, float64(f.tally.Received)/took.Seconds()/1e3,
						f.send.Next()-f.tally.Total, f.b.Dropped(), f.send.Refused.Load(), f.send.Missed.Load(), f.tally.Jitter(), v.Quantile(.5), v.Quantile(.99),
						f.send.Segmented(), f.receive.Coalesced(), f.sendErr, f.recvErr, f.b.RecvBuffer())
				})
			}
		}
	}
}
