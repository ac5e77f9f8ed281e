package ifioctl

func system() (abi, kernel, error) { return freebsd(), socket{}, nil }
