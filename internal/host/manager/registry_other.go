//go:build !windows

package manager

func ownRegistry() Registry { return nil }
