package serve

import (
	"context"
	"net"
	"strings"

	"linerate/internal/app"
	"linerate/internal/measure/netpipe"
)

// netpipeSettings reads the options of NPtcp that both ends must share.
func netpipeSettings(options string) (netpipe.Settings, error) {
	s := netpipe.Default()
	for word := range strings.FieldsSeq(options) {
		switch word {
		case "-r":
			s.Reset = true
		case "-s":
			s.Streaming = true
		case "-2":
			s.Bidirectional = true
		case "-i":
			s = s.WithIntegrity()
		default:
			return s, app.WithHint(app.Usagef("--netpipe-options: %q is none of -r, -s, -2, -i", word),
				"these are the options of NPtcp that both ends must have alike")
		}
	}
	if err := s.Validate(); err != nil {
		return s, app.Usagef("--netpipe-options: %v", err)
	}
	return s, nil
}

func (s *Server) netpipeServer(l net.Listener, options string) (func(context.Context) error, error) {
	same, err := netpipeSettings(options)
	if err != nil {
		return nil, err
	}
	limits := netpipe.Limits{
		Largest: foreignLargest, Waiting: foreignWaiting, Budget: s.budget, Unknown: max(1, s.files.Listener-foreignWaiting-1),
		Begun: s.netpipeBegun,
	}
	return func(ctx context.Context) error {
		return netpipe.New().Serve(ctx, l, same, limits, s.netpipeEvent)
	}, nil
}
