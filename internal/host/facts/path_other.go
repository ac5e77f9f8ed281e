//go:build !linux

package facts

import (
	"context"
	"net/netip"
)

func readPath(ctx context.Context, peer netip.Addr) path { return portablePath(ctx, peer) }
