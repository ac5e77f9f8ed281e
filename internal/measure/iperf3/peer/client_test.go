package peer

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/fault"
	"linerate/internal/measure/iperf3"
	"linerate/internal/measure/program"
	"linerate/internal/must"
)

// near01 reports whether two totals agree within 0.1 %.
func near01(a, b int64) bool { return math.Abs(float64(a-b)) <= 0.001*float64(max(a, b)) }

// TestClient runs our client against the real server. Both ends must count the same, except
// that a sending server also counts what was in flight when our window closed.
func TestClient(t *testing.T) {
	const short = 300 * time.Millisecond
	together(t, 4, map[string]model.Flow{
		"forward":                   {Direction: model.To, Duration: short},
		"forward, 3 streams":        {Direction: model.To, Duration: short, Streams: 3},
		"forward, bytes":            {Direction: model.To, Bytes: 20e6, Streams: 3},
		"forward, little":           {Direction: model.To, Bytes: 1000},
		"forward, many small":       {Direction: model.To, Duration: short, Block: 512, Streams: 16},
		"forward, window":           {Direction: model.To, Duration: short, Window: 128 << 10},
		"forward, segments, nagle":  {Direction: model.To, Duration: short, MSS: 1000, Nagle: true},
		"forward, algorithm":        {Direction: model.To, Duration: short, Congestion: "reno"},
		"forward, warm-up":          {Direction: model.To, Duration: short, Omit: 500 * time.Millisecond},
		"reverse":                   {Direction: model.From, Duration: short},
		"reverse, 3 streams":        {Direction: model.From, Duration: short, Streams: 3},
		"reverse, bytes":            {Direction: model.From, Bytes: 20e6, Streams: 3},
		"reverse, window, segments": {Direction: model.From, Duration: short, Window: 128 << 10, MSS: 1000},
		"reverse, algorithm":        {Direction: model.From, Duration: short, Congestion: "reno"},
		"reverse, warm-up":          {Direction: model.From, Duration: short, Omit: 500 * time.Millisecond},
		"both":                      {Direction: model.Both, Duration: short},
		"both, 2 streams":           {Direction: model.Both, Duration: short, Streams: 2},
		"both, bytes":               {Direction: model.Both, Bytes: 20e6},
	}, func(t testing.TB, f model.Flow) {
		must.SkipIf(t, f.Duration > 0 && f.Congestion == "" && !must.Slow, "lasts for a time: with the tag slow")
		checkClient(t, foreignServer(t), f, Client{})
	})
}

// checkClient runs f and compares the two ends' reports.
func checkClient(t testing.TB, addr string, f model.Flow, c Client) {
	t.Helper()
	if f.Interval == 0 {
		f.Interval = 100 * time.Millisecond
	}
	// The server counts nothing that it has not read at the end, and a busy machine lets it wait. With
	// both directions it stops to read by itself.
	c.settle = func() { must.Until(t, "reads", func() bool { return f.Direction == model.Both || !waiting(addr) }) }
	// Everything that arrived, inside the window or not, according to the kernel.
	all := map[model.Direction]int64{}
	c.look = func(ways []*way) {
		for _, l := range ways {
			if l.role != model.Receiver {
				continue
			}
			// What the server counts may still be in its send buffers: it has closed them.
			stop := make(chan struct{})
			wait := l.discard(stop)
			must.Until(t, "the end of the server's data", func() bool {
				return !slices.ContainsFunc(l.kept, func(k *kept) bool { return !k.over() })
			})
			close(stop)
			wait()
			if n, err := l.received(); err == nil {
				all[l.direction] = n
			}
		}
	}
	samples := map[model.Direction]int{}
	near, far, err := c.Run(t.Context(), addr, f, func(s []model.Sample) {
		for _, s := range s {
			must.Equal(t, s.Host, model.Near, "sample of host")
			samples[s.Direction]++
		}
	})
	must.Do(t, err)
	parts := f.Direction.Parts()
	must.Need(t, len(near.Flows) == len(parts) && len(far.Flows) == len(parts) && far.Host == model.Far, "near %+v, far %+v", near, far)
	for i, d := range parts {
		must.True(t, f.Duration <= 0 || samples[d] != 0, "no sample %s", d)
		checkFlow(t, f, d, near.Flows[i], far.Flows[i], all[d])
	}
	must.True(t, f.Duration <= 0 || far.CPUWindow > 0 && far.CPUUser+far.CPUSystem > 0 && near.CPUWindow > 0, "processor time: near %+v, far %+v", near, far)
}

// waiting reports whether the kernel has data for the program that listens at an address of this
// machine (proc_net_tcp.rst of the kernel; elsewhere it has no queues to show).
func waiting(addr string) bool {
	four, _ := os.ReadFile("/proc/net/tcp")
	six, _ := os.ReadFile("/proc/net/tcp6")
	return regexp.MustCompile(fmt.Sprintf(`:%04X \w+:\w+ 0[1-9] \w+:0*[1-9A-F]`, netip.MustParseAddrPort(addr).Port())).Match(append(four, six...))
}

// checkFlow compares both ends' reports of direction d. all is what arrived at this end at any
// time.
func checkFlow(t testing.TB, f model.Flow, d model.Direction, ours, theirs model.FlowReport, all int64) {
	t.Helper()
	must.True(t, ours.Direction == d && theirs.Direction == d && ours.Role != theirs.Role, "near %+v, far %+v", ours, theirs)
	n := max(f.Streams, 1)
	must.True(t, len(ours.Streams) == n && len(theirs.Streams) == n, "streams: near %v, far %v", ours.Streams, theirs.Streams)
	got, want := int64(ours.Bytes), int64(theirs.Bytes)
	must.True(t, f.Omit != 0 || near01(cmp.Or(all, got), want), "%s: near %d bytes, %d with those past the window, far %d", d, got, all, want)
	// Each end begins to count after its own second: the rates agree as far as they are steady
	// on a busy machine.
	ratio := float64(got) / float64(want) * theirs.Window.Seconds() / ours.Window.Seconds()
	must.True(t, f.Omit <= 0 || !(ratio < 0.25) && !(ratio > 4), "%s: near %d bytes in %v after the warm-up, far %d in %v", d, got, ours.Window, want, theirs.Window)
	must.True(t, f.Bytes <= 0 || d != model.To || ours.Bytes == f.Bytes && theirs.Bytes == f.Bytes,
		"%d bytes asked, near %d, far %d", f.Bytes, ours.Bytes, theirs.Bytes)
	must.True(t, f.Bytes <= 0 || d != model.From || ours.Bytes >= f.Bytes, "%d bytes asked, near %d", f.Bytes, ours.Bytes)
	must.True(t, f.Duration <= 0 || ours.Window >= f.Duration*9/10 && theirs.Window >= f.Duration*9/10, "windows near %v, far %v", ours.Window, theirs.Window)
	sender := ours
	if d == model.From {
		sender = theirs
	}
	must.True(t, f.Congestion == "" || sender.TCP != nil && sender.TCP.Congestion.Or("") == f.Congestion, "congestion control of %+v", sender)
	must.True(t, sender.TCP != nil && sender.TCP.Retransmits.IsKnown(), "retransmissions of %+v", sender)
}

func TestClientServerOutput(t *testing.T) {
	addr := foreignServer(t)
	var got string
	c := Client{ServerOutput: func(text string, _ json.RawMessage) { got = text }}
	checkClient(t, addr, model.Flow{Direction: model.To, Duration: 200 * time.Millisecond}, c)
	must.True(t, strings.Contains(got, "Bitrate") && strings.Contains(got, "receiver"), "the server's output is %q", got)
}

// TestClientBackToBack: a test may begin right after another, while the real server still
// closes one listener to open the next.
func TestClientBackToBack(t *testing.T) {
	t.Parallel()
	addr := foreignServer(t)
	for range 5 {
		f := model.Flow{Direction: model.To, Bytes: 1 << 20}
		_, _, err := (Client{}).Run(t.Context(), addr, f, func([]model.Sample) {})
		must.Need(t, err == nil, "%v", err)
	}
}

func TestClientBusy(t *testing.T) {
	t.Parallel()
	addr := foreignServer(t)
	running := make(chan struct{})
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		begun := false
		f := model.Flow{Direction: model.To, Duration: 10 * time.Minute, Interval: 50 * time.Millisecond}
		_, _, _ = Client{Rate: 1e6}.Run(ctx, addr, f, func([]model.Sample) {
			if !begun {
				begun = true
				close(running)
			}
		})
	}()
	<-running
	c := Client{limits: limits{between: time.Nanosecond}}
	_, _, err := c.Run(t.Context(), addr, model.Flow{Direction: model.To, Duration: time.Second}, func([]model.Sample) {})
	must.Is(t, err, ErrBusy, "second client")
	cancel()
	<-done
}

// TestClientRefused: the client reports the server's refusal, by its code if the server sends
// one; 3.12 closes without a message if a rate is above its limit.
func TestClientRefused(t *testing.T) {
	addr := foreignServer(t, "--server-bitrate-limit", "1M")
	f := model.Flow{Direction: model.To, Duration: time.Second}
	if _, _, err := (Client{Rate: 10e6}).Run(t.Context(), addr, f, func([]model.Sample) {}); err == nil {
		t.Error("ran above the rate limit")
	}
	addr = foreignServer(t)
	f.Window = 512 << 20
	_, _, err := Client{}.Run(t.Context(), addr, f, func([]model.Sample) {})
	said := new(iperf3.ServerError)
	must.True(t, errors.As(err, &said) && said.Code == iperf3.CodeBufferTooSmall, "a window that the server's system does not give: %v", err)
}

// TestRefusalSaysWhatToChange: a server that refuses a test is an iperf3 server, and the hint is
// about the test.
func TestRefusalSaysWhatToChange(t *testing.T) {
	addr := serveHere(t, ServerConfig{Duration: 2 * time.Second, Streams: 2, UDPRate: 1e6})
	for want, f := range map[string]model.Flow{
		"shorter --time":     {Engine: bulk.Name, Direction: model.To, Duration: 5 * time.Second},
		"smaller --parallel": {Engine: bulk.Name, Direction: model.To, Duration: time.Second, Streams: 3},
		"lower --bitrate":    {Engine: udp.Name, Params: traffic.Write(udp.Params{Rate: 2e6}), Direction: model.To, Duration: time.Second},
	} {
		_, _, err := remote{program: Program(), addr: addr}.Run(t.Context(), f, program.Near{Met: func() {}}, func([]model.Sample) {})
		must.True(t, fault.KindOf(err) == fault.Unreachable && strings.Contains(fault.HintOf(err), want), "%v, hint %q", err, fault.HintOf(err))
	}
}

func TestClientFlowFaults(t *testing.T) {
	for name, f := range map[string]model.Flow{
		"no direction":           {Duration: time.Second},
		"too many streams":       {Direction: model.To, Duration: time.Second, Streams: 129},
		"block too large":        {Direction: model.To, Duration: time.Second, Block: 2 << 20},
		"too long":               {Direction: model.To, Duration: 25 * time.Hour},
		"window too large":       {Direction: model.To, Duration: time.Second, Window: 1 << 30},
		"neither time nor bytes": {Direction: model.To},
	} {
		_, _, err := Client{}.Run(t.Context(), "127.0.0.1:1", f, nil)
		must.True(t, err != nil && strings.HasPrefix(err.Error(), "flow: "), "%s: %v", name, err)
	}
}

// TestSampled: while a real client measures, its server reports the rate of each direction, and
// the client's address.
func TestSampled(t *testing.T) {
	var mu sync.Mutex
	rates := map[model.Metric]int{}
	remotes := map[netip.AddrPort]bool{}
	e := newEvents()
	addr := serveHere(t, ServerConfig{Event: e.add, Sampled: func(remote netip.AddrPort, all []model.Sample) {
		mu.Lock()
		defer mu.Unlock()
		remotes[remote] = true
		for _, s := range all {
			if s.Of == "" && s.Value > 0 {
				rates[s.Metric]++
			}
		}
	}})
	s := foreignClient(t, addr, "-t 3 --bidir -b 20M")
	must.Need(t, s.Error == "", "%v", s.Error)
	end := e.ended(t)
	mu.Lock()
	defer mu.Unlock()
	must.True(t, rates[model.Goodput] >= 2 && rates[model.Sent] >= 2, "in 3 s the server told %v", rates)
	must.True(t, len(remotes) == 1 && remotes[netip.MustParseAddrPort(end.Remote)], "of %v, and the client is %s", remotes, end.Remote)
}

// makeKey generates one key for all tests.
var makeKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func testKey(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	return must.Get(makeKey())(t)
}

// writePEM writes der for the real program and returns the file's name.
func writePEM(t testing.TB, kind string, der []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key.pem")
	must.Do(t, os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return name
}

// TestClientLogin logs in at the real server, which accepts only PKCS #1 v1.5 up to 3.16, and
// OAEP since.
func TestClientLogin(t *testing.T) {
	right, wrong := iperf3.PKCS1v15, iperf3.OAEP
	if atLeast(t, 17) {
		right, wrong = wrong, right
	}
	key := testKey(t)
	private := writePEM(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
	users := filepath.Join(t.TempDir(), "users.csv")
	must.Do(t, os.WriteFile(users, []byte("# name,hash\nmario,"+iperf3.PasswordHash("mario", "rossi")+"\n"), 0o600))
	addr := foreignServer(t, "--rsa-private-key-path", private, "--authorized-users-path", users)
	f := model.Flow{Direction: model.To, Bytes: 1 << 20}
	for _, c := range []struct {
		name  string
		login *Login
		ok    bool
	}{
		{"right", &Login{"mario", "rossi", &key.PublicKey, right}, true},
		{"wrong password", &Login{"mario", "russo", &key.PublicKey, right}, false},
		{"wrong padding", &Login{"mario", "rossi", &key.PublicKey, wrong}, false},
		{"right again", &Login{"mario", "rossi", &key.PublicKey, right}, true},
	} {
		_, _, err := Client{Login: c.login}.Run(t.Context(), addr, f, func([]model.Sample) {})
		must.True(t, (!c.ok || err == nil) && (c.ok || errors.Is(err, iperf3.ErrRefused)), "%s: %v", c.name, err)
	}
}

// TestServerLogin logs the real client in, and our own in either padding.
func TestServerLogin(t *testing.T) {
	t.Parallel()
	key := testKey(t)
	public := writePEM(t, "PUBLIC KEY", must.Get(x509.MarshalPKIXPublicKey(&key.PublicKey))(t))
	access := &Access{Key: key, Users: map[string]string{"mario": iperf3.PasswordHash("mario", "rossi")}}
	both := []iperf3.Padding{iperf3.OAEP, iperf3.PKCS1v15}
	t.Run("foreign client", func(t *testing.T) {
		must.SkipIf(t, atLeast(t, 17) && !atLeast(t, 18), "the client of 3.17 encrypts nothing with OpenSSL 3: its own server refuses it too")
		old := *access
		old.Paddings = both
		addr := serveHere(t, ServerConfig{Access: &old})
		args := "-n 1M --username mario --rsa-public-key-path " + public
		must.Equal(t, foreignClient(t, addr, args, "IPERF3_PASSWORD=rossi").Error, "")
		must.True(t, foreignClient(t, addr, args, "IPERF3_PASSWORD=russo").Error != "", "a wrong password was accepted")
	})
	f := model.Flow{Direction: model.To, Bytes: 1 << 20}
	for _, c := range []struct {
		name   string
		login  *Login
		access Access
		ok     bool
	}{
		{"OAEP", &Login{"mario", "rossi", &key.PublicKey, iperf3.OAEP}, Access{}, true},
		{"PKCS #1", &Login{"mario", "rossi", &key.PublicKey, iperf3.PKCS1v15}, Access{}, false},
		{"PKCS #1 where it is allowed", &Login{"mario", "rossi", &key.PublicKey, iperf3.PKCS1v15}, Access{Paddings: both}, true},
		{"OAEP where both are", &Login{"mario", "rossi", &key.PublicKey, iperf3.OAEP}, Access{Paddings: both}, true},
		{"wrong user", &Login{"luigi", "rossi", &key.PublicKey, iperf3.OAEP}, Access{}, false},
		{"no token", nil, Access{}, false},
		{"clocks apart", &Login{"mario", "rossi", &key.PublicKey, iperf3.OAEP}, Access{Skew: -time.Hour}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.access.Key, c.access.Users = access.Key, access.Users
			addr := serveHere(t, ServerConfig{Access: &c.access})
			_, _, err := Client{Login: c.login}.Run(t.Context(), addr, f, func([]model.Sample) {})
			must.True(t, (!c.ok || err == nil) && (c.ok || errors.Is(err, iperf3.ErrRefused)), "%v", err)
		})
	}
}

// TestOldPaddingIsNamed: a real client before 3.17 is refused with its own program's message,
// and the server's log has the reason.
func TestOldPaddingIsNamed(t *testing.T) {
	t.Parallel()
	must.SkipIf(t, atLeast(t, 17), "this client pads with OAEP")
	key := testKey(t)
	public := writePEM(t, "PUBLIC KEY", must.Get(x509.MarshalPKIXPublicKey(&key.PublicKey))(t))
	e := newEvents()
	addr := serveHere(t, ServerConfig{Event: e.add, Access: &Access{Key: key, Users: map[string]string{"mario": iperf3.PasswordHash("mario", "rossi")}}})
	s := foreignClient(t, addr, "-n 1M --username mario --rsa-public-key-path "+public, "IPERF3_PASSWORD=rossi")
	must.Contain(t, s.Error, "authorization", "the client says")
	err := e.ended(t).Err
	must.True(t, errors.Is(err, iperf3.ErrRefused) && strings.Contains(err.Error(), "PKCS #1 v1.5"), "the server says %v", err)
}

// TestRefusedLoginsLookAlike: every refused login gets the same error after the same time, so
// that neither reveals whether the padding was right.
func TestRefusedLoginsLookAlike(t *testing.T) {
	key := testKey(t)
	token := func(user, password string, at time.Time, padding iperf3.Padding) string {
		return must.Get(iperf3.Credentials{User: user, Password: password, Time: at}.Token(&key.PublicKey, padding))(t)
	}
	garbage := make([]byte, key.Size())
	garbage[1] = 2
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for _, paddings := range [][]iperf3.Padding{nil, {iperf3.OAEP, iperf3.PKCS1v15}} {
			a := &Access{Key: key, Users: map[string]string{"mario": iperf3.PasswordHash("mario", "rossi")}, Paddings: paddings}
			turn := make(chan struct{}, 1)
			began := time.Now()
			user, err := a.admit(t.Context(), turn, token("mario", "rossi", now, iperf3.OAEP))
			must.True(t, err == nil && user == "mario" && time.Since(began) == 0, "the right login: %q, %v, after %v", user, err, time.Since(began))
			for name, bad := range map[string]string{
				"no token":        "",
				"no base64":       "???",
				"too short":       "AAAA",
				"too long":        strings.Repeat("A", 4096),
				"garbage":         base64.StdEncoding.EncodeToString(garbage),
				"wrong user":      token("luigi", "rossi", now, iperf3.OAEP),
				"wrong password":  token("mario", "russo", now, iperf3.OAEP),
				"old wrong user":  token("luigi", "rossi", now, iperf3.PKCS1v15),
				"clock":           token("mario", "rossi", now.Add(-time.Hour), iperf3.OAEP),
				"old wrong clock": token("mario", "rossi", now.Add(-time.Hour), iperf3.PKCS1v15),
			} {
				began := time.Now()
				user, err := a.admit(t.Context(), turn, bad)
				took := time.Since(began)
				must.True(t, errors.Is(err, iperf3.ErrRefused) && user == "" && took == answerStep, "%s: %q, %v, after %v", name, user, err, took)
				now = now.Add(answerStep) // on the bubble's clock
			}
		}
	})
}
