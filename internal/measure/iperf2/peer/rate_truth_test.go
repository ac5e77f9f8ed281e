//go:build truth

package peer

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/accept/accepttest"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// TestRate: a client and a server of this package keep the rate over TCP.
func TestRate(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From, model.Both} {
		t.Run(string(d), func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				near := omitAndRate(try, d)
				try.Claim("warnings", float64(len(near.Warnings)), 0, 0, "")
				for _, r := range near.Flows {
					try.Claim("window "+string(r.Direction), r.Window.Seconds(), 1.8, 3, "s")
					// Delays from other work are not made up for, so less is tolerated.
					try.Claim("rate "+string(r.Direction), float64(r.Bytes)*8/r.Window.Seconds(), pacedRate*0.7, pacedRate*1.3, "bit/s")
				}
			})
		})
	}
}

// TestUDPLimitOfWhatIsSent: a client that requests more gets the limit, over all flows of its
// address.
func TestUDPLimitOfWhatIsSent(t *testing.T) {
	realProgram(t)
	for _, args := range [][]string{{"-u", "-R", "-b", "50m"}, {"-u", "-R", "-b", "3m", "-P", "3"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				s := startServer(try, ServerConfig{UDPRate: udpLimit})
				text := foreignClient(try, s.addr, append(args, "-t", "1")...)
				got := total(transfers(try, text), func(transfer) bool { return true })
				// The program's second is a little longer than one.
				try.Claim("came in a second", float64(got), 1, float64(udpLimit/8*1.4), "bytes")
			})
		})
	}
}

// TestServedAtOnce: while 300 clients hold connections and send nothing, or half a header, a
// real client has its test at once.
func TestServedAtOnce(t *testing.T) {
	for name, say := range map[string][]byte{"silent": nil, "half a header": {0x40, 0x01}} {
		t.Run(name, func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				s := startServer(try, ServerConfig{Sessions: 128, PerClient: 16})
				defer accepttest.Besiege(try.Context(), s.addr, 300, say)()
				began := time.Now()
				s.alive(try)
				try.Claim("its test took", time.Since(began).Seconds(), 0, 2, "s")
			})
		})
	}
}

// TestBounceTime: the server holds each message for 3 ms, and not much longer.
func TestBounceTime(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		s := startServer(try, ServerConfig{})
		text := foreignClient(try, s.addr, "--bounceback", "-t", "1", "-l", "200", "--bounceback-hold", "3")
		m := bounceTimes.FindStringSubmatch(text)
		must.Need(try, m != nil, "the client does not show ten bounces:\n%s", text)
		try.Claim("shortest of ten", must.Get(strconv.ParseFloat(m[2], 64))(try), 3, 6, "ms")
	})
}
