// Package durable is what files need that neither a crash nor another user may
// spoil: the lock that lets one process write, names that are on disk, directories
// that nobody else may write.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("in use by another linerate")

// Missing returns the directories that files need and that are not there, each
// once and after the one that holds it. at, unless nil, says where the path of a
// file lies.
func Missing(files []string, at func(string) string) []string {
	var all []string
	for _, f := range files {
		var chain []string
		for dir := filepath.Dir(f); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			real := dir
			if at != nil {
				real = at(dir)
			}
			if _, err := os.Lstat(real); !errors.Is(err, fs.ErrNotExist) {
				break
			}
			chain = append(chain, dir)
		}
		for _, dir := range slices.Backward(chain) {
			if !slices.Contains(all, dir) {
				all = append(all, dir)
			}
		}
	}
	return all
}
