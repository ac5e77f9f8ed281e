package main

import "errors"

// initialize is for Linux: process 1 of a FreeBSD root is a program of its own.
func initialize() error { return errors.ErrUnsupported }
