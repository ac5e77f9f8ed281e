package peer

import (
	"context"
	"errors"
	"net"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/iperf3"
)

const udpFlow = "udpflow"

const greetingTries = 3

var errGreetingLost = errors.New("no answer to the greeting over UDP")

func validateUDP(model.Flow) error                               { return errors.ErrUnsupported }
func paramsUDP(*iperf3.Params, model.Flow)                       {}
func blockOf(p iperf3.Params) units.Bytes                        { return units.Bytes(p.Length) }
func farUDP([]iperf3.StreamResult, model.Role) *model.UDPSummary { return nil }

func (t *clientTest) openUDP(context.Context, *lane) error { return errors.ErrUnsupported }

type greeter struct{}

func (s *server) listenUDP(context.Context, net.Listener) error { return nil }

func (t *session) openUDP(context.Context, []iperf3.Stream, <-chan heard) error {
	return errors.ErrUnsupported
}
