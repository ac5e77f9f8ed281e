package main

import "errors"

// initialize is for Linux: process 1 of a FreeBSD root is another program.
func initialize() error { return errors.ErrUnsupported }
