package ifioctl

func system() (abi, kernel, error) { return darwin(), socket{}, nil }
