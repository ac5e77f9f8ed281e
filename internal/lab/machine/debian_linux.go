package machine

import (
	"os"
	"path/filepath"
	"strings"
)

// Images returns the folder that make vm fills: LINERATE_VM, or linerate-vm in the user's cache
// folder.
func Images() string {
	if dir := os.Getenv("LINERATE_VM"); dir != "" {
		return dir
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return filepath.Join(os.TempDir(), "linerate-vm")
	}
	return filepath.Join(dir, "linerate-vm")
}

// Debian returns a machine with the Debian root of make vm and one of its kernels ("6.1",
// "new"); the caller adds cards. With systemd, process 1 is Debian's and udev names the cards;
// otherwise it is the guest, and the cards are eth0, eth1 and so on. programs is an archive
// with files for /usr/local/bin, see Programs.
func Debian(name, dir, kernel string, systemd bool, programs string) Config {
	at := Images()
	c := Config{
		Name: name, Dir: dir,
		Kernel: filepath.Join(at, "vmlinuz-"+kernel), Initrd: []string{filepath.Join(at, "modules-"+kernel+".cpio"), programs},
		Disks:  []string{filepath.Join(at, "root.img")},
		Append: "console=ttyS0 quiet no_timer_check mitigations=off init_on_alloc=0 panic=-1 loglevel=4 net.ifnames=1 rdinit=/init",
	}
	if systemd {
		c.Append += " linerate.init=systemd"
	}
	return c
}

// Needs returns the files that a machine of this configuration requires.
func (c Config) Needs() []string {
	return append(append([]string{c.Kernel}, c.Initrd...), c.Disks...)
}

// Programs writes the archive for Debian into dir: the guest as process 1, and programs for
// /usr/local/bin.
func Programs(dir, guest string, programs ...string) (string, error) {
	out, err := os.Create(filepath.Join(dir, "programs.cpio"))
	if err != nil {
		return "", err
	}
	defer out.Close()
	a := &archive{to: out}
	a.folder("programs")
	a.file("init", guest)
	for _, p := range programs {
		name, _, _ := strings.Cut(filepath.Base(p), "-") // linerate-linux becomes linerate
		a.file("programs/"+name, p)
	}
	a.end()
	return out.Name(), a.err
}
