package plane

import "runtime"

// sendQueue is FIONWRITE of sys/filio.h: how many bytes wait in the send buffer.
const sendQueue = 0x40046677

// raw says that connections leave the Go runtime's hands: not on a machine with one
// core, which has none for a thread that keeps its processor.
func raw() bool { return runtime.NumCPU() > 1 }
