package plane

import "golang.org/x/sys/unix"

// sendQueue requests the bytes in the send buffer, tcp(7).
const sendQueue = unix.SIOCOUTQ

// raw reports that connections leave the Go runtime.
func raw() bool { return true }
