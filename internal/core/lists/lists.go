// Package lists complements package slices.
package lists

import "slices"

// Each returns f of each element of list, nil for an empty list.
func Each[T, U any](list []T, f func(T) U) []U {
	out := slices.Grow([]U(nil), len(list))
	for _, one := range list {
		out = append(out, f(one))
	}
	return out
}

// Once returns list with those elements of more appended that it does not have yet.
func Once[T comparable](list []T, more ...T) []T {
	for _, one := range more {
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}

// Count returns how many elements of list f is true for.
func Count[T any](list []T, f func(T) bool) int {
	n := 0
	for _, one := range list {
		if f(one) {
			n++
		}
	}
	return n
}
