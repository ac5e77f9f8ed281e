// Package foreign lists the foreign programs that linerate can measure with.
package foreign

import (
	iperf2 "linerate/internal/measure/iperf2/peer"
	iperf3 "linerate/internal/measure/iperf3/peer"
	"linerate/internal/measure/netpipe"
	"linerate/internal/measure/program"
	"linerate/internal/measure/responsiveness"
	udpstp "linerate/internal/measure/udpstp/peer"
)

// All returns every program.
func All() program.List {
	return program.List{
		iperf3.Program(),
		iperf2.Program(),
		netpipe.Program(),
		udpstp.Program(),
		responsiveness.Program(),
	}
}
