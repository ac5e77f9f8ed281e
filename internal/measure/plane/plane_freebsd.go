package plane

import "runtime"

// sendQueue is FIONWRITE of sys/filio.h, the bytes in the send buffer.
const sendQueue = 0x40046677

// raw reports whether connections leave the Go runtime: not on a machine with one core, where
// no thread can keep its processor.
func raw() bool { return runtime.NumCPU() > 1 }
