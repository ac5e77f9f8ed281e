// Package lists has what package slices lacks.
package lists

import "slices"

// Each returns what f makes of each element of list, and nil for none.
func Each[T, U any](list []T, f func(T) U) []U {
	out := slices.Grow([]U(nil), len(list))
	for _, one := range list {
		out = append(out, f(one))
	}
	return out
}

// Once returns list with those of more that it does not hold yet.
func Once[T comparable](list []T, more ...T) []T {
	for _, one := range more {
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}
