package machine

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// archive writes an archive that a Linux kernel unpacks into its initial root: cpio in format
// "newc" (Documentation/driver-api/early-userspace/buffer-format.rst).
type archive struct {
	to    io.Writer
	inode int
	at    int64
	err   error
}

func (a *archive) folder(name string) { a.entry(name, 0o040755, nil, 0) }

func (a *archive) file(name, from string) {
	in, err := os.Open(from)
	if err != nil {
		a.err = err
		return
	}
	defer in.Close()
	s, err := in.Stat()
	if err != nil {
		a.err = err
		return
	}
	a.entry(name, 0o100755, in, s.Size())
}

func (a *archive) end() { a.entry("TRAILER!!!", 0, nil, 0) }

func (a *archive) entry(name string, mode int, content io.Reader, size int64) {
	a.inode++
	fields := []int64{int64(a.inode), int64(mode), 0, 0, 1, 0, size, 0, 0, 0, 0, int64(len(name) + 1), 0}
	var head bytes.Buffer
	head.WriteString("070701")
	for _, f := range fields {
		fmt.Fprintf(&head, "%08X", f)
	}
	head.WriteString(name + "\x00")
	a.copy(&head)
	a.pad()
	if content != nil {
		a.copy(content)
		a.pad()
	}
}

func (a *archive) copy(from io.Reader) {
	if a.err != nil {
		return
	}
	n, err := io.Copy(a.to, from)
	a.at += n
	a.err = err
}

func (a *archive) pad() {
	a.copy(bytes.NewReader(make([]byte, (4-a.at%4)%4)))
}
