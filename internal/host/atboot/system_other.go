//go:build !unix && !windows

package atboot

import "os"

const programName = "linerate"

func executable(string) error { return nil }

func discard(program string) (string, error) { return "", os.Remove(program) }
