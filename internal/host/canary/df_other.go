//go:build !linux && !freebsd && !darwin && !windows

package canary

import "syscall"

// whole leaves packets to the system.
func whole(string, string, syscall.RawConn) error { return nil }

// learnt is not told.
func learnt(string, syscall.RawConn) int { return 0 }
