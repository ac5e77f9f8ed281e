package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/measure/iperf3"
	"linerate/internal/must"
)

// TestClientRecognisesIperf2 holds that the error names a server of iperf 2 as that.
func TestClientRecognisesIperf2(t *testing.T) {
	path, err := exec.LookPath("iperf")
	if err != nil {
		t.Skip("iperf 2 is not installed")
	}
	t.Parallel()
	for _, f := range []model.Flow{
		{Direction: model.To, Duration: 10 * time.Minute},
		{Direction: model.Both, Duration: 10 * time.Minute, Streams: 2},
		{Engine: udp.Name, Direction: model.From, Duration: 10 * time.Minute, Params: traffic.Write(udp.Params{Rate: 1e6})},
	} {
		addr := serverOf2(t, path)
		_, _, err := Client{}.Run(t.Context(), addr, f, func([]model.Sample) {})
		must.Is(t, err, ErrIperf2, "%s", f.Direction)
	}
}

// serverOf2 starts iperf 2 as a server and returns its address.
func serverOf2(t testing.TB, path string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	_, port, _ := strings.Cut(hereOnce(t), ":")
	cmd := exec.CommandContext(ctx, path, "-s", "-B", "127.0.0.1", "-p", port)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	addr := net.JoinHostPort("127.0.0.1", port)
	for limit := time.Now().Add(rawPatience); ; {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			_ = c.Close()
			return addr
		}
		must.Need(t, !time.Now().After(limit), "the real iperf 2 does not listen: %v", err)
	}
}

// hereOnce returns an address that nobody listens on now.
func hereOnce(t testing.TB) string {
	t.Helper()
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// TestClientBothWithOldServer plays a server of 3.1, as 3.1.7 was seen to act: it
// ignores that the test is bidirectional, begins when the client's own streams
// are there, and answers each further one with a byte before it closes it.
func TestClientBothWithOldServer(t *testing.T) {
	t.Parallel()
	l := listenHere(t)
	go func() {
		ctl, err := l.Accept()
		if err != nil {
			return
		}
		defer ctl.Close()
		_, _ = iperf3.ReadCookie(ctl)
		_, _ = ctl.Write([]byte{iperf3.ParamExchange.Byte()})
		_, _ = iperf3.ReadFrame(ctl, iperf3.MaxParams)
		_, _ = ctl.Write([]byte{iperf3.CreateStreams.Byte()})
		data, err := l.Accept()
		if err != nil {
			return
		}
		defer data.Close()
		go func() { _, _ = io.Copy(io.Discard, data) }()
		_, _ = ctl.Write([]byte{iperf3.TestStart.Byte(), iperf3.TestRunning.Byte()})
		if further, err := l.Accept(); err == nil {
			_, _ = further.Write([]byte{iperf3.AccessDenied.Byte()})
			_ = further.Close() // with the cookie unread, which resets it
		}
		_, _ = io.Copy(io.Discard, ctl)
	}()
	f := model.Flow{Direction: model.Both, Duration: 20 * time.Minute, Interval: 100 * time.Millisecond}
	_, _, err := Client{}.Run(t.Context(), l.Addr().String(), f, func([]model.Sample) {})
	must.True(t, errors.Is(err, errors.ErrUnsupported) && strings.Contains(err.Error(), "before 3.7"), "%v", err)
}
