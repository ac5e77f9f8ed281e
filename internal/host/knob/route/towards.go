package route

import (
	"context"
	"net/netip"
)

// Towards returns the destination, as Open takes it, and the interface of the
// route that packets to peer take: "default" or a prefix. It sends nothing. It
// wraps fs.ErrNotExist when there is no such route, and errors.ErrUnsupported on
// systems other than Linux.
func Towards(ctx context.Context, peer netip.Addr) (destination, device string, err error) {
	if err := ctx.Err(); err != nil {
		return "", "", err
	}
	return towards(peer.Unmap())
}
