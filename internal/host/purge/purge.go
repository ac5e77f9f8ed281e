// Package purge makes a host forget what it learnt from earlier connections, so
// that a run does not depend on the runs before it.
package purge

import "context"

// TCPMetrics empties the cache in which the system keeps round trip time,
// slow-start threshold and window of the destinations of past connections, and
// from which it starts new ones (statistics.md section 2). On Linux that is
// tcp_metrics of this network namespace (net/ipv4/tcp_metrics.c); what is known
// of other destinations goes too, and is learnt anew.
//
// It forgets what is written at the time of the call. A connection that ends
// later, because its last data is still on its way, is remembered again.
//
// The error wraps fs.ErrPermission where the caller may not empty a cache that
// holds something, which takes CAP_NET_ADMIN in the first user namespace: being
// root in a user namespace of one's own is not enough. It wraps
// errors.ErrUnsupported on other systems, which it names, and on kernels without
// tcp_metrics.
func TCPMetrics(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return tcpMetrics()
}
