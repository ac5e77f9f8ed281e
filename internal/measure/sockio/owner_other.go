//go:build !linux

package sockio

func giveTo(uintptr, int, int) error { return nil }
