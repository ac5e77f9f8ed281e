package budget

// MostDescriptors is the most that RaiseDescriptors asks for or returns: what a
// server could not use is not worth a table of the kernel's.
const MostDescriptors = 1 << 16

// RaiseDescriptors raises the soft limit of open files of this process to the
// hard one, RLIMIT_NOFILE of getrlimit(2), as far as MostDescriptors, and returns
// what it is then. A soft limit above that is left alone. Systems without such a
// limit return MostDescriptors. An error says why it could not be raised, beside
// what there is.
func RaiseDescriptors() (int, error) { return raiseDescriptors() }
