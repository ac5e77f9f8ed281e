//go:build !linux

package main

import (
	"context"
	"errors"

	"linerate/internal/core/model"
)

// two needs Linux.
type two struct{}

func startTwo(context.Context, string) (*two, error) {
	return nil, errors.New("machines are started on Linux")
}

func (*two) close() {}

func (*two) record(_ context.Context, r inMachines) ([]byte, []model.Finding, error) {
	return nil, nil, errors.New("machines are started on Linux: " + r.card)
}
