//go:build !linux

package link

func nodes() ([]node, error) { return nil, nil }
