package stats

import (
	"math"
	"slices"
	"testing"
)

// A slow host is a slow row or column, and a slow path one cell (statistics.md section 12).
func TestOddIsAPathAndNotAHost(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		cells [][]float64
		want  [][2]int
	}{
		"a slow host": {[][]float64{{nan, 940, 94, 938}, {941, nan, 93.8, 941}, {939, 942, nan, 940}, {940, 938, 94.2, nan}}, nil},
		"a slow path": {[][]float64{{nan, 940, 94, 938}, {941, nan, 93.8, 611}, {939, 942, nan, 940}, {940, 938, 94.2, nan}}, [][2]int{{1, 3}}},
		"equal cells": {[][]float64{{5, 5, 5}, {5, 5, 5}, {5, 5, 5}}, nil},
		"too few":     {[][]float64{{1, 2}, {3, 400}}, nil},
		"unmeasured":  {[][]float64{{nan, nan, nan}, {nan, nan, nan}, {nan, nan, nan}}, nil},
	} {
		if got := Odd(c.cells); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
