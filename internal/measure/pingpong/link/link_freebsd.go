package link

// sendQueue is FIONWRITE of sys/filio.h: how many bytes wait in the send buffer.
const sendQueue = 0x40046677
