package sockio

// AllowedCongestion reports whether every program of this host may choose that
// congestion control for its sockets. Who serves strangers asks before it sets
// what they name: to set another one, as root may on Linux, loads a module of the
// kernel (tcp_set_congestion_control, net/ipv4/tcp_cong.c) and takes what the
// host's owner keeps to himself. Systems without such a list allow all they have.
func AllowedCongestion(name string) bool { return allowedCongestion(name) }
