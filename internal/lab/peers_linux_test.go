package lab

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"linerate/internal/lab/wire"
)

// peer runs the test binary's role in a host: peer NAME ARGS.
func peer(args []string) error {
	ctx := context.Background()
	number := func(i int) int {
		if i >= len(args) {
			return 0
		}
		n, err := strconv.Atoi(args[i])
		if err != nil {
			panic(err)
		}
		return n
	}
	switch args[0] {
	case "tcp-sink":
		return tcpSink(ctx, time.Duration(number(1))*time.Millisecond, time.Duration(number(2))*time.Millisecond, number(3))
	case "tcp-source":
		return tcpSource(ctx, args[1])
	case "udp-echo":
		return udpEcho(ctx)
	case "udp-ping":
		return udpPing(ctx, args[1], number(2), number(3), time.Duration(number(4))*time.Microsecond)
	case "udp-answers":
		return udpAnswers(ctx, args[1], number(2), number(3))
	case "udp-count":
		return udpCount(ctx)
	case "udp-burst":
		return udpBurst(ctx, args[1], number(2), number(3), time.Duration(number(4))*time.Microsecond)
	case "probe-hops":
		return probe(args[1], number(2), number(3), number(4), number(5), time.Duration(number(6))*time.Microsecond)
	case "udp-fan":
		return udpFan(ctx, args[1], number(2), number(3))
	case "resolve":
		found, err := net.DefaultResolver.LookupHost(ctx, args[1])
		if err != nil {
			return err
		}
		fmt.Println(found)
		return nil
	case "echo":
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	case "probe":
		l, err := Start(ctx, Spec{MTU: defaultMTU}, testConfig(wire.Auto))
		if err != nil {
			return err
		}
		return l.Close()
	case "controller":
		return controller()
	case "hang":
		fmt.Println("up")
		<-time.After(time.Hour) // not select {}: the runtime would call that a deadlock
		return nil
	}
	return fmt.Errorf("unknown peer %q", args[0])
}

// port is where peers listen.
const port = ":7007"

// tcpSink prints the goodput in bit/s of n windows of one connection, after an omitted first
// part.
func tcpSink(ctx context.Context, omit, window time.Duration, n int) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", port)
	if err != nil {
		return err
	}
	fmt.Println("up")
	c, err := l.Accept()
	if err != nil {
		return err
	}
	buf := make([]byte, 256<<10)
	start := time.Now()
	var rates []float64
	var bytes int
	var from time.Time
	for len(rates) < n {
		k, err := c.Read(buf)
		if err != nil {
			return err
		}
		now := time.Now()
		switch {
		case from.IsZero():
			if now.Sub(start) >= omit {
				from = now
			}
			continue
		default:
			bytes += k
		}
		if d := now.Sub(from); d >= window {
			rates = append(rates, float64(bytes)*8/d.Seconds())
			bytes, from = 0, now
		}
	}
	return json.NewEncoder(os.Stdout).Encode(rates)
}

// tcpSource sends until the sink closes.
func tcpSource(ctx context.Context, to string) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", to+port)
	if err != nil {
		return err
	}
	buf := make([]byte, 128<<10)
	for {
		if _, err := c.Write(buf); err != nil {
			return nil
		}
	}
}

func udpEcho(ctx context.Context) error {
	c, err := new(net.ListenConfig).ListenPacket(ctx, "udp", port)
	if err != nil {
		return err
	}
	fmt.Println("up")
	buf := make([]byte, 65536)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return err
		}
		if _, err := c.WriteTo(buf[:n], from); err != nil {
			return err
		}
	}
}

// udpPing sends n datagrams of size payload bytes, each after the answer to the previous one
// and a gap, and prints their round trips in seconds, ascending.
func udpPing(ctx context.Context, to string, n, size int, gap time.Duration) error {
	c, err := new(net.Dialer).DialContext(ctx, "udp", to+port)
	if err != nil {
		return err
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	var trips []float64
	buf := make([]byte, size)
	for range n {
		start := time.Now()
		if _, err := c.Write(buf); err != nil {
			return err
		}
		if _, err := c.Read(buf); err != nil {
			return err
		}
		trips = append(trips, time.Since(start).Seconds())
		<-time.After(gap)
	}
	slices.Sort(trips)
	return json.NewEncoder(os.Stdout).Encode(trips)
}

// udpAnswers sends n datagrams of size payload bytes and prints how many were answered. It then
// waits for the answer to a shorter one, which ends the count.
func udpAnswers(ctx context.Context, to string, n, size int) error {
	c, err := new(net.Dialer).DialContext(ctx, "udp", to+port)
	if err != nil {
		return err
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	buf := make([]byte, size)
	for range n {
		if _, err := c.Write(buf); err != nil {
			return err
		}
	}
	if _, err := c.Write(buf[:1]); err != nil {
		return err
	}
	for answered := 0; ; answered++ {
		k, err := c.Read(buf)
		if err != nil {
			return err
		}
		if k == 1 {
			return json.NewEncoder(os.Stdout).Encode(answered)
		}
	}
}

// udpFan sends n datagrams of size payload bytes, each from its own port.
func udpFan(ctx context.Context, to string, n, size int) error {
	for range n {
		c, err := new(net.Dialer).DialContext(ctx, "udp", to+port)
		if err == nil {
			_, err = c.Write(make([]byte, size))
		}
		if err != nil {
			return err
		}
		defer c.Close() // deferred: otherwise its port would be reused
	}
	return nil
}

// counted is udpCount's output for a train of numbered datagrams.
type counted struct {
	Received  int     // duplicates included
	Distinct  int     //
	Late      int     // arrived after one with a greater number
	Distance  int     // greatest number of later datagrams that arrived before a late one
	LongestMs float64 // longest one-way time: both hosts share the machine's clock
	Rate      float64 // bit/s of payload between first and last
}

// endMark is the number of the datagrams that end a train.
const endMark = 1 << 62

func udpCount(ctx context.Context) error {
	c, err := new(net.ListenConfig).ListenPacket(ctx, "udp", port)
	if err != nil {
		return err
	}
	if err := c.(*net.UDPConn).SetReadBuffer(4 << 20); err != nil {
		return err
	}
	fmt.Println("up")
	var out counted
	seen := map[uint64]bool{}
	var order []uint64
	buf := make([]byte, 65536)
	var first, last time.Time
	bytes := 0
	for {
		n, _, err := c.ReadFrom(buf)
		if err != nil {
			return err
		}
		number := binary.BigEndian.Uint64(buf)
		if number >= endMark {
			break
		}
		last = time.Now()
		if first.IsZero() {
			first = last
		} else {
			bytes += n
		}
		sent := time.Unix(0, int64(binary.BigEndian.Uint64(buf[8:])))
		out.LongestMs = max(out.LongestMs, last.Sub(sent).Seconds()*1e3)
		out.Received++
		if seen[number] {
			continue
		}
		seen[number] = true
		order = append(order, number)
	}
	out.Distinct = len(order)
	out.Rate = float64(bytes) * 8 / last.Sub(first).Seconds()
	for i, number := range order {
		passed := 0
		for j := i - 1; j >= 0 && j > i-64; j-- {
			if order[j] > number {
				passed++
			}
		}
		if passed > 0 {
			out.Late++
			out.Distance = max(out.Distance, passed)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// udpBurst sends n numbered datagrams of size payload bytes, on average gap apart, then end
// marks.
func udpBurst(ctx context.Context, to string, n, size int, gap time.Duration) error {
	c, err := new(net.Dialer).DialContext(ctx, "udp", to+port)
	if err != nil {
		return err
	}
	buf := make([]byte, size)
	start := time.Now()
	for i := range n {
		if ahead := time.Duration(i)*gap - time.Since(start); ahead > 0 {
			<-time.After(ahead)
		}
		binary.BigEndian.PutUint64(buf, uint64(i))
		binary.BigEndian.PutUint64(buf[8:], uint64(time.Now().UnixNano()))
		if _, err := c.Write(buf); err != nil {
			return err
		}
	}
	for range patience / (20 * time.Millisecond) {
		<-time.After(20 * time.Millisecond)
		binary.BigEndian.PutUint64(buf, endMark)
		if _, err := c.Write(buf[:16]); err != nil {
			return nil // the other end has received one before
		}
	}
	return nil
}
