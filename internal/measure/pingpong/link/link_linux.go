package link

import "golang.org/x/sys/unix"

// sendQueue asks how many bytes wait in the send buffer, tcp(7).
const sendQueue = unix.SIOCOUTQ
