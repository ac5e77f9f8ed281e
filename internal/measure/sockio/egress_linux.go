package sockio

import "golang.org/x/sys/unix"

// bindDevice needs no privilege since Linux 5.7 (sock_bindtoindex, net/core/sock.c).
func bindDevice(fd uintptr, name string) error { return unix.BindToDevice(int(fd), name) }
