// Package peers knows the command lines of the C programs that linerate is compared with, and
// parses their output.
//
// Every program gets the settings that serve it best: the block size of the comparison,
// TCP_NODELAY if it has the option, and the congestion control. Programs without an option for
// that use the default of the network namespace.
package peers

import (
	"fmt"
	"strconv"
	"time"
)

// Command describes how to start a pair of processes.
type Command struct {
	Program        string   // must be installed
	Server, Client []string // argument vectors
	Port           int      // the server's TCP port
	Datagrams      bool     // Port is a UDP port
	Endless        bool     // the server must be ended
	Lines          int      // of an endless server's output before it may be ended
}

// The names of the programs.
const (
	Iperf3   = "iperf3"
	Iperf2   = "iperf"
	Nuttcp   = "nuttcp"
	Qperf    = "qperf"
	Sockperf = "sockperf"
	NPtcp    = "NPtcp"
)

// The most streams of each program: MAX_STREAMS of iperf3's iperf_api.h and MAXSTREAM of
// nuttcp.c; iperf2 has a thread for each and no limit of its own.
const (
	Iperf3Streams = 128
	NuttcpStreams = 128
)

// TCP is a bulk test.
type TCP struct {
	To         string // address of the server
	Streams    int
	Block      int // bytes per write and read
	Time       time.Duration
	Congestion string
	Zero       bool // send from a file without copying; iperf3 alone
}

// UDP is a datagram test.
type UDP struct {
	To     string
	Size   int     // bytes of payload
	Rate   float64 // bit/s of payload; 0 is as fast as possible
	Kernel bool    // the kernel paces, for programs with that option
	Cut    bool    // UDP_SEGMENT and UDP_GRO, for programs with that option
	Time   time.Duration
}

// Default ports of the servers.
const (
	iperf3Port, iperf2Port          = 5201, 5001
	nuttcpPort, qperfPort           = 5000, 19765
	qperfData, sockperfPort, npPort = 19766, 11111, 5002
)

func whole(d time.Duration) string { return strconv.Itoa(int(d.Round(time.Second).Seconds())) }

// Iperf3TCP returns iperf3 over TCP.
func Iperf3TCP(o TCP) Command {
	c := Command{
		Program: Iperf3, Port: iperf3Port, Server: []string{Iperf3, "--server", "--one-off"},
		Client: []string{
			Iperf3, "--client", o.To, "--json", "--parallel", strconv.Itoa(o.Streams), "--time", whole(o.Time),
			"--congestion", o.Congestion, "--no-delay", "--length", strconv.Itoa(o.Block),
		},
	}
	if o.Zero {
		c.Client = append(c.Client, "--zerocopy")
	}
	return c
}

// Iperf2TCP returns iperf 2 over TCP. Its one-off server counts connections instead of tests,
// so it is ended once it has reported every stream.
func Iperf2TCP(o TCP) Command {
	length := strconv.Itoa(o.Block)
	return Command{
		Program: Iperf2, Port: iperf2Port, Endless: true, Lines: o.Streams,
		Server: []string{Iperf2, "-s", "-y", "C", "-l", length},
		Client: []string{
			Iperf2, "-c", o.To, "-y", "C", "-P", strconv.Itoa(o.Streams), "-t", whole(o.Time),
			"-Z", o.Congestion, "-N", "-l", length,
		},
	}
}

// nuttcpServer serves once and does not fork: otherwise its CPU time would be charged to an
// unknown child.
func nuttcpServer() []string { return []string{Nuttcp, "-S", "--nofork", "-1"} }

// NuttcpTCP returns nuttcp over TCP.
func NuttcpTCP(o TCP) Command {
	c := Command{Program: Nuttcp, Port: nuttcpPort, Server: nuttcpServer(), Client: []string{
		Nuttcp, "-t", "-D", "-fparse", "-T" + whole(o.Time), "-l" + strconv.Itoa(o.Block),
	}}
	if o.Streams > 1 {
		c.Client = append(c.Client, "-N"+strconv.Itoa(o.Streams))
	}
	c.Client = append(c.Client, o.To)
	return c
}

// QperfTCP returns qperf over TCP, which has one stream and no NODELAY.
func QperfTCP(o TCP) Command {
	return qperf(o.To, o.Block, o.Time, "tcp_bw")
}

func qperf(to string, size int, d time.Duration, test string) Command {
	return Command{
		Program: Qperf, Port: qperfPort, Endless: true, Server: []string{Qperf, "-lp", strconv.Itoa(qperfPort)},
		Client: []string{
			Qperf, to, "-lp", strconv.Itoa(qperfPort), "-ip", strconv.Itoa(qperfData), "--unify_units", "--precision", "7",
			"-t", whole(d), "-m", strconv.Itoa(size), test,
		},
	}
}

// Iperf3UDP returns iperf3 over UDP. With Kernel it leaves the pacing to the queue of the
// interface.
func Iperf3UDP(o UDP) Command {
	c := Command{
		Program: Iperf3, Port: iperf3Port, Server: []string{Iperf3, "--server", "--one-off"},
		Client: []string{
			Iperf3, "--client", o.To, "--udp", "--json", "--time", whole(o.Time), "--length", strconv.Itoa(o.Size),
		},
	}
	rate := strconv.FormatFloat(o.Rate, 'f', 0, 64)
	switch {
	case o.Kernel:
		c.Client = append(c.Client, "--bitrate", "0", "--fq-rate", rate)
	default:
		c.Client = append(c.Client, "--bitrate", rate)
	}
	if o.Cut {
		c.Client = append(c.Client, "--gsro")
	}
	return c
}

// unpaced is a rate above what any host sends as single datagrams: iperf 2 has no option for an
// unlimited rate.
const unpaced = "100g"

// Iperf2UDP returns iperf 2 over UDP.
func Iperf2UDP(o UDP) Command {
	rate, length := unpaced, strconv.Itoa(o.Size)
	if o.Rate > 0 {
		rate = strconv.FormatFloat(o.Rate, 'f', 0, 64)
	}
	return Command{
		Program: Iperf2, Port: iperf2Port, Datagrams: true, Endless: true, Lines: 1,
		Server: []string{Iperf2, "-s", "-u", "-y", "C", "-l", length},
		Client: []string{Iperf2, "-c", o.To, "-u", "-y", "C", "-t", whole(o.Time), "-l", length, "-b", rate},
	}
}

// NuttcpUDP returns nuttcp over UDP.
func NuttcpUDP(o UDP) Command {
	rate := "u"
	if o.Rate > 0 {
		rate = strconv.FormatFloat(o.Rate/1e3, 'f', 0, 64) // kbit/s
	}
	return Command{Program: Nuttcp, Port: nuttcpPort, Server: nuttcpServer(), Client: []string{
		Nuttcp, "-t", "-u", "-fparse", "-R" + rate, "-l" + strconv.Itoa(o.Size), "-T" + whole(o.Time), o.To,
	}}
}

// SockperfLeast is sockperf's smallest message in bytes: its header (MsgHeader::EFFECTIVE_SIZE,
// message.h).
const SockperfLeast = 14

// SockperfTCP returns a ping-pong of sockperf over TCP. With spin both ends poll a non-blocking
// socket.
func SockperfTCP(to string, size int, d time.Duration, spin bool) Command {
	port := strconv.Itoa(sockperfPort)
	c := Command{
		Program: Sockperf, Port: sockperfPort, Endless: true,
		Server: []string{Sockperf, "server", "--tcp", "-p", port},
		Client: []string{
			Sockperf, "ping-pong", "--tcp", "-i", to, "-p", port, "-m", strconv.Itoa(max(size, SockperfLeast)), "-t", whole(d),
		},
	}
	if spin {
		c.Server, c.Client = append(c.Server, "--nonblocked"), append(c.Client, "--nonblocked")
	}
	return c
}

// QperfLatency returns a ping-pong of qperf over TCP.
func QperfLatency(to string, size int, d time.Duration) Command {
	return qperf(to, size, d, "tcp_lat")
}

// NPtcpSizes returns NetPIPE over TCP, without perturbation, from size least to most; it writes
// its points to the file out.
func NPtcpSizes(to string, least, most int, out string) Command {
	sizes := []string{"-p", "0", "-l", strconv.Itoa(least), "-u", strconv.Itoa(most)}
	return Command{
		Program: NPtcp, Port: npPort,
		Server: append([]string{NPtcp, "-o", "/dev/null"}, sizes...),
		Client: append([]string{NPtcp, "-h", to, "-o", out}, sizes...),
	}
}

// String returns the client's command line.
func (c Command) String() string { return fmt.Sprint(c.Client) }
