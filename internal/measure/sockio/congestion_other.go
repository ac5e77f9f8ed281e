//go:build !linux

package sockio

func allowedCongestion(string) bool { return true }
