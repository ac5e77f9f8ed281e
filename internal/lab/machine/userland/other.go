//go:build !freebsd

package main

import "errors"

func run(string, []string) error { return errors.ErrUnsupported }
