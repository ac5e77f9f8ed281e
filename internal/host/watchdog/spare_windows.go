package watchdog

// descriptors is empty: Windows has no limit of handles that a process could reach.
type descriptors struct{}

func (*descriptors) hold() error { return nil }

func (*descriptors) release() {}
