package facts

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

func readMachine(ctx context.Context) model.Machine { return ask(ctx, "darwin").darwinMachine() }

func readNICs(ctx context.Context, x *knob.Index, first string) ([]model.NIC, error) {
	return ask(ctx, "darwin").readNICs(ctx, x, first)
}

func configSpace(pciPlace) ([]byte, error) {
	return nil, fmt.Errorf("PCI registers on darwin: %w", errors.ErrUnsupported)
}

func lookUpRoute(ctx context.Context, peer netip.Addr) (gateway string, mtu int, err error) {
	return darwinRoutes().lookUp(ctx, peer)
}
