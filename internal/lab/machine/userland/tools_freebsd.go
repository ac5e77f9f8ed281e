package main

import (
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// tools returns the programs that a script over ssh needs, each with only the options that it
// uses.
func tools() map[string]func(args []string) error {
	return map[string]func(args []string) error{
		"uname":  uname,
		"id":     func([]string) error { fmt.Println(os.Getuid()); return nil },
		"mkdir":  makeDirs,
		"chmod":  changeMode,
		"rm":     remove,
		"mv":     move,
		"head":   head,
		"cat":    func([]string) error { _, err := io.Copy(os.Stdout, os.Stdin); return err },
		"gzip":   unpack,
		"sha256": sum,
	}
}

// options splits args into letters and the rest.
func options(args []string) (letters string, rest []string) {
	for i, a := range args {
		if !strings.HasPrefix(a, "-") {
			return letters, args[i:]
		}
		letters += a[1:]
	}
	return letters, nil
}

// uname is uname -s or uname -m, from the kernel.
func uname(args []string) error {
	name := map[string]string{"-s": "kern.ostype", "-m": "hw.machine"}[strings.Join(args, " ")]
	if name == "" {
		return errors.New("usage: uname -s|-m")
	}
	text, err := unix.Sysctl(name)
	fmt.Println(text)
	return err
}

// makeDirs is mkdir -p FOLDER or mkdir -m MODE FOLDER.
func makeDirs(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "-p":
		return os.MkdirAll(args[1], 0o777)
	case len(args) == 3 && args[0] == "-m":
		mode, err := strconv.ParseUint(args[1], 8, 9)
		if err != nil {
			return err
		}
		return os.Mkdir(args[2], os.FileMode(mode))
	}
	return errors.New("usage: mkdir -p FOLDER | mkdir -m MODE FOLDER")
}

func changeMode(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: chmod MODE FILE")
	}
	mode, err := strconv.ParseUint(args[0], 8, 9)
	if err != nil {
		return err
	}
	return os.Chmod(args[1], os.FileMode(mode))
}

// remove is rm, with -r and -f.
func remove(args []string) error {
	letters, rest := options(args)
	one := os.Remove
	if strings.Contains(letters, "r") {
		one = os.RemoveAll
	}
	var all error
	for _, path := range rest {
		err := one(path)
		if errors.Is(err, os.ErrNotExist) && strings.Contains(letters, "f") {
			err = nil
		}
		all = errors.Join(all, err)
	}
	return all
}

// move is mv -f.
func move(args []string) error {
	_, rest := options(args)
	if len(rest) != 2 {
		return errors.New("usage: mv -f FROM TO")
	}
	if i, err := os.Stat(rest[1]); err == nil && i.IsDir() {
		rest[1] = filepath.Join(rest[1], filepath.Base(rest[0]))
	}
	return os.Rename(rest[0], rest[1])
}

// head is head -c BYTES, which reads no more than it writes.
func head(args []string) error {
	if len(args) != 2 || args[0] != "-c" {
		return errors.New("usage: head -c BYTES")
	}
	n, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	_, err = io.CopyN(os.Stdout, os.Stdin, n)
	return err
}

// unpack is gzip -dc.
func unpack(args []string) error {
	if len(args) != 1 || args[0] != "-dc" {
		return errors.New("usage: gzip -dc")
	}
	r, err := gzip.NewReader(os.Stdin)
	if err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, r)
	return err
}

// sum is sha256 -q.
func sum(args []string) error {
	if len(args) != 2 || args[0] != "-q" {
		return errors.New("usage: sha256 -q FILE")
	}
	f, err := os.Open(args[1])
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	fmt.Printf("%x\n", h.Sum(nil))
	return nil
}
