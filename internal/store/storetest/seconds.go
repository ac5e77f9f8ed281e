package storetest

import (
	"math/rand/v2"
	"time"

	"linerate/internal/core/model"
)

// Seconds generates the samples of so many seconds, in the order and with the arithmetic of a
// test: two hosts whose counters are read together, a sender and a receiver.
func Seconds(rng *rand.Rand, seconds int) (out []model.Sample) {
	starts := [4]time.Duration{17032, 5200, 2100, 400}
	for range seconds {
		var lengths [4]time.Duration
		for i := range lengths {
			lengths[i] = time.Second + time.Duration(rng.NormFloat64()*3e5)
		}
		add := func(at int, d model.Direction, m model.Metric, of string, v float64) {
			host := model.Near
			if at%2 == 1 {
				host = model.Far
			}
			out = append(out, model.Sample{Host: host, Direction: d, Metric: m, Of: of, Start: starts[at], Length: lengths[at], Value: v})
		}
		for at := range 2 {
			secs := lengths[at].Seconds()
			for _, part := range []string{"", "cpu0", "cpu1"} {
				for _, m := range []model.Metric{"cpu_busy", "cpu_softirq", "cpu_steal", "cpu_user"} {
					add(at, "", m, part, float64(rng.IntN(90)+10)/100/secs)
				}
			}
			for _, m := range []model.Metric{"softnet_processed", "tcp_in_segments", "tcp_out_segments", "nic_rx_packets", "nic_tx_packets", "ecn_unmarked"} {
				add(at, "", m, "", float64(80000+rng.IntN(3000)))
			}
			for _, m := range []model.Metric{"nic_rx_bytes", "nic_tx_bytes"} {
				add(at, "", m, "eth0", float64(117_000_000+rng.IntN(1_000_000)))
			}
			if rng.IntN(5) == 0 {
				add(at, "", "tcp_tail_probes", "", 1)
			}
			for _, m := range []model.Metric{"udp_in_datagrams", "udp_out_datagrams"} {
				add(at, "", m, "", float64(40+rng.IntN(12)))
			}
		}
		secs := lengths[2].Seconds()
		add(2, model.To, model.Sent, "", float64(116_000_000+rng.IntN(3_000_000))*8/secs)
		add(2, "", model.CPU, "", time.Duration(50_000+rng.IntN(50_000)).Seconds()*1000/secs)
		for _, m := range []model.Metric{model.RTT, model.BusyTime, model.RwndLimited, model.SndbufLimited} {
			add(2, model.To, m, "", float64(10_000+rng.IntN(9000))/1e6)
		}
		add(2, model.To, model.RTTMin, "", float64(10_000+rng.IntN(40))/1e6)
		add(2, model.To, model.Retransmits, "", float64(rng.IntN(3)))
		add(2, model.To, model.Cwnd, "", float64(1448*(2000+rng.IntN(900))))
		add(2, model.To, model.PeerWindow, "", float64(10_000_000))
		for _, m := range []model.Metric{model.LatencyP50, model.LatencyP99} {
			add(2, model.To, m, "", float64(10_000_000+rng.IntN(300_000))/1e9)
		}
		secs = lengths[3].Seconds()
		add(3, model.To, model.Goodput, "", float64(116_000_000+rng.IntN(3_000_000))*8/secs)
		for i := range starts {
			starts[i] += lengths[i]
		}
	}
	return out
}
