package plane

import "golang.org/x/sys/unix"

// sendQueue asks how many bytes wait in the send buffer, tcp(7).
const sendQueue = unix.SIOCOUTQ

// raw says that connections leave the Go runtime's hands.
func raw() bool { return true }
