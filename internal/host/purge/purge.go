// Package purge makes a host forget what it learnt from earlier connections, so that a run
// does not depend on those before it.
package purge

import "context"

// TCPMetrics empties the cache of round trip time, slow-start threshold and window that the
// system keeps for the destinations of past connections, and uses to start new ones
// (statistics.md section 2). On Linux that is tcp_metrics of this network namespace
// (net/ipv4/tcp_metrics.c); entries of other destinations are lost too, and learnt again.
//
// It removes the entries at the time of the call. A connection that ends later, because its
// last data is still on its way, makes a new entry.
//
// The error wraps fs.ErrPermission if the cache is not empty and the caller may not empty it,
// which takes CAP_NET_ADMIN in the initial user namespace: root in another one is not enough.
// It wraps errors.ErrUnsupported on other systems, which it names, and on kernels without
// tcp_metrics.
func TCPMetrics(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return tcpMetrics()
}
