package filecopy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"linerate/internal/core/traffic/files"
	"linerate/internal/core/units"
)

const (
	// DefaultBytes is the default size of a copy: some seconds at 1 Gbit/s, and more than the
	// caches of CPUs and most disks hold.
	DefaultBytes units.Bytes = 256 << 20
	// leastDefault is the smallest default; a smaller copy says nothing.
	leastDefault units.Bytes = 16 << 20
	// defaultShare limits the default size to 1/defaultShare of the free space.
	defaultShare = 4
	// diskReserve and memoryReserve stay free for other programs (proposed).
	diskReserve   units.Bytes = 64 << 20
	memoryReserve units.Bytes = 256 << 20
)

// place is where a store will be, decided before it is created.
type place struct {
	anonymous bool
	folder    string // linerate creates its file in it
	path      string // from the user: a file to read, or a new file to write
	volume    Volume
	bytes     int64  // of the user's file
	warning   string // why it differs from the request
}

// where describes the place.
func (p place) where() string {
	switch {
	case p.anonymous:
		return "memory of the process"
	case p.path != "":
		return fmt.Sprintf("%s (%s)", p.path, p.volume)
	}
	return fmt.Sprintf("file on %s in %s", p.volume, p.folder)
}

// fits returns an error if size bytes do not fit.
func (p place) fits(size int64) error {
	if p.anonymous {
		return enoughMemory(size)
	}
	if free := p.volume.Free; units.Bytes(size) > free-diskReserve {
		return fmt.Errorf("%s do not fit: %s has %s free, of which %s stay free", units.Bytes(size), p.where(), free, diskReserve)
	}
	if p.volume.Memory {
		return enoughMemory(size)
	}
	return nil
}

// enoughMemory returns an error if size bytes of memory are too much.
func enoughMemory(size int64) error {
	free, known := availableMemory().Get()
	if known && units.Bytes(size) > free-memoryReserve {
		return fmt.Errorf("%s do not fit into memory: %s are available, of which %s stay free", units.Bytes(size), free, memoryReserve)
	}
	return nil
}

// suggest returns the default size of a copy.
func (p place) suggest() (int64, error) {
	size := DefaultBytes
	if !p.anonymous {
		size = min(size, (p.volume.Free-diskReserve)/defaultShare)
	}
	if free, known := availableMemory().Get(); known && (p.anonymous || p.volume.Memory) {
		size = min(size, (free-memoryReserve)/defaultShare)
	}
	if size < leastDefault {
		return 0, fmt.Errorf("%s has no room for %s", p.where(), leastDefault)
	}
	return int64(size) &^ (1<<20 - 1), nil
}

// find decides where name is: "memory", "disk" or a path. need is how much has to fit if there
// is a choice; sink is true for a place to write to.
func (e *Engine) find(name string, need int64, sink bool) (place, error) {
	switch name {
	case files.InMemory, "":
		return findMemory(need), nil
	case files.OnDisk:
		return e.findDisk(need)
	}
	if !e.options.NamedPaths {
		return place{}, fmt.Errorf("%q: this end copies memory and disk, and no paths that others name: %w", name, fs.ErrPermission)
	}
	if sink {
		return findSink(name)
	}
	return findSource(name)
}

// findMemory returns a file system in memory, or else process memory.
func findMemory(need int64) place {
	for _, folder := range memoryFolders() {
		p, err := folderPlace(folder)
		if err == nil && p.volume.Memory && p.fits(need) == nil {
			return p
		}
	}
	return place{anonymous: true, warning: "memory is memory of the process and no file: " + noMemoryDisk}
}

// findDisk returns a folder on a local disk with room.
func (e *Engine) findDisk(need int64) (place, error) {
	var candidates, why []string
	if cache, err := os.UserCacheDir(); err == nil {
		candidates = append(candidates, cache)
	}
	candidates = append(append(candidates, os.TempDir()), temporaryFolders()...)
	candidates = append(candidates, e.stateDir)
	for i, folder := range candidates {
		if slices.Contains(candidates[:i], folder) {
			continue
		}
		p, err := folderPlace(folder)
		switch {
		case err != nil:
		case p.volume.Memory || p.volume.Remote:
			err = fmt.Errorf("%s is on %s, which is no disk of this machine", folder, p.volume)
		default:
			err = p.fits(need)
		}
		if err == nil {
			return p, nil
		}
		why = append(why, err.Error())
	}
	return place{}, fmt.Errorf("no folder for a file on disk, name one: %s", strings.Join(why, "; "))
}

// folderPlace returns a place in a folder that this user may write to.
func folderPlace(folder string) (place, error) {
	info, err := os.Stat(folder)
	if err != nil {
		return place{}, err
	}
	if !info.IsDir() {
		return place{}, fmt.Errorf("%s is no folder", folder)
	}
	if err := writable(folder); err != nil {
		return place{}, err
	}
	v, err := ReadVolume(folder)
	return place{folder: folder, volume: v}, err
}

// findSource returns the place of a path to read from.
func findSource(name string) (place, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return place{}, err
	case info.IsDir():
		return folderPlace(name)
	case !info.Mode().IsRegular():
		return place{}, fmt.Errorf("%s is neither a regular file nor a folder", name)
	case info.Size() == 0:
		return place{}, fmt.Errorf("%s is empty", name)
	}
	v, err := ReadVolume(name)
	return place{path: name, volume: v, bytes: info.Size()}, err
}

// findSink returns the place of a path to write to, which must be a folder or not exist.
func findSink(name string) (place, error) {
	_, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		v, err := ReadVolume(filepath.Dir(name))
		return place{path: name, volume: v}, err
	}
	if err != nil {
		return place{}, err
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return folderPlace(name)
	}
	return place{}, fmt.Errorf("%s: %w, and is not overwritten: name a folder or a new file", name, fs.ErrExist)
}
