package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The harness puts these into the initrd besides this program, see machine.Debian.
const (
	moduleFolder = "/modules"  // kernel modules that the root needs
	programs     = "/programs" // copied into /usr/local/bin of the root
	portFile     = "/dev/virtio-ports/linerate"
	root         = "/root"
)

// initialize is process 1: it loads the modules of the disk, mounts the root, and executes
// systemd if the kernel's command line has "linerate.init=systemd"; otherwise it remains
// process 1, starts the guest and reaps orphans.
func initialize() error {
	for _, m := range []struct{ from, to, kind string }{
		{"proc", "/proc", "proc"}, {"sysfs", "/sys", "sysfs"}, {"devtmpfs", "/dev", "devtmpfs"},
	} {
		_ = os.MkdirAll(m.to, 0o755)
		if err := unix.Mount(m.from, m.to, m.kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s: %w", m.to, err)
		}
	}
	if len(os.Args) == 2 && os.Args[1] == "second" {
		return second()
	}
	if err := loadAll(moduleFolder); err != nil {
		return err
	}
	if err := mountRoot(); err != nil {
		return err
	}
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	systemd := strings.Contains(string(cmdline), "linerate.init=systemd")
	if err := furnish(systemd); err != nil {
		return err
	}
	for _, at := range []string{"/proc", "/sys", "/dev"} {
		if err := unix.Mount(at, root+at, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", at, err)
		}
	}
	free("/")
	if err := errors.Join(unix.Chdir(root), unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), unix.Chdir("/")); err != nil {
		return fmt.Errorf("change to the root: %w", err)
	}
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "TERM=dumb"}
	if systemd {
		return unix.Exec("/lib/systemd/systemd", []string{"/lib/systemd/systemd"}, env)
	}
	return unix.Exec("/run/guest", []string{"/run/guest", "second"}, env)
}

// loadAll loads the modules of a folder. Some need others, so it repeats as long as another
// pass loads more.
func loadAll(folder string) error {
	names, err := filepath.Glob(folder + "/*.ko")
	if err != nil || len(names) == 0 {
		return fmt.Errorf("no modules in %s: %w", folder, err)
	}
	for before := len(names) + 1; len(names) > 0 && len(names) < before; {
		before = len(names)
		var left []string
		err = nil
		for _, name := range names {
			if one := load(name); one != nil {
				err = errors.Join(err, one)
				left = append(left, name)
			}
		}
		names = left
	}
	return err
}

func load(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.FinitModule(int(file.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("module %s: %w", filepath.Base(name), err)
	}
	return nil
}

// mountRoot mounts the first disk once its driver has found it.
func mountRoot() error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	var err error
	for range 100 {
		if err = unix.Mount("/dev/vda", root, "ext4", 0, ""); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("mount the root: %w", err)
}

// furnish installs the guest, the programs and, for systemd, the guest's unit in the root.
func furnish(systemd bool) error {
	if err := unix.Mount("tmpfs", root+"/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return err
	}
	if err := copyFile("/init", root+"/run/guest"); err != nil {
		return err
	}
	all, _ := filepath.Glob(programs + "/*")
	for _, from := range all {
		to := root + "/usr/local/bin/" + filepath.Base(from)
		if same(from, to) {
			continue // the machine was reset
		}
		if err := copyFile(from, to); err != nil {
			return err
		}
	}
	if !systemd {
		return nil
	}
	unit := "[Unit]\nDefaultDependencies=no\nIgnoreOnIsolate=yes\n[Service]\nExecStart=/run/guest " + portFile + "\nRestart=always\nKillMode=process\n" +
		"Environment=HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8\nStandardOutput=null\n"
	wants := root + "/run/systemd/system/sysinit.target.wants"
	return errors.Join(os.MkdirAll(wants, 0o755),
		os.WriteFile(root+"/run/systemd/system/linerate-guest.service", []byte(unit), 0o644),
		os.Symlink("../linerate-guest.service", wants+"/linerate-guest.service"))
}

func same(a, b string) bool {
	sa, errA := os.Stat(a)
	sb, errB := os.Stat(b)
	return errA == nil && errB == nil && sa.Size() == sb.Size()
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// free deletes the initrd's files, which use memory.
func free(folder string) {
	for _, name := range []string{programs, moduleFolder, "/init"} {
		_ = os.RemoveAll(filepath.Join(folder, name))
	}
}

// second is process 1 in the root: it loads the drivers of all devices, starts the guest and
// reaps orphans.
func second() error {
	_ = unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "")
	_ = os.MkdirAll("/dev/pts", 0o755)
	_ = unix.Mount("devpts", "/dev/pts", "devpts", 0, "")
	_ = unix.Mount("tmpfs", "/dev/shm", "tmpfs", 0, "")
	_ = unix.Sethostname([]byte("debian"))
	loadDrivers()
	port, err := findPort()
	if err != nil {
		return err
	}
	_ = exec.Command("ip", "link", "set", "lo", "up").Run() //nolint:noctx // process 1 has nobody who could cancel it
	for {
		child, err := os.StartProcess("/run/guest", []string{"/run/guest", port}, &os.ProcAttr{Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
		if err != nil {
			return err
		}
		for {
			pid, err := unix.Wait4(-1, nil, 0, nil)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || pid == child.Pid {
				break // the guest ended: restart it
			}
		}
	}
}

// loadDrivers does udev's work: it loads a module for each device by its alias, twice, since
// buses bring devices.
func loadDrivers() {
	for range 2 {
		aliases, _ := filepath.Glob("/sys/bus/*/devices/*/modalias")
		var args []string
		for _, a := range aliases {
			if b, err := os.ReadFile(a); err == nil {
				args = append(args, strings.TrimSpace(string(b)))
			}
		}
		_ = exec.Command("modprobe", append([]string{"-a", "-q", "-b"}, args...)...).Run() //nolint:noctx // see above
	}
}

// findPort returns the line's device: without udev there is no /dev/virtio-ports.
func findPort() (string, error) {
	for range 100 {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, n := range names {
			f, err := os.Open(n)
			if err != nil {
				continue
			}
			text, _ := bufio.NewReader(f).ReadString('\n')
			f.Close()
			if strings.TrimSpace(text) == filepath.Base(portFile) {
				return "/dev/" + filepath.Base(filepath.Dir(n)), nil
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return "", errors.New("no virtio port named " + filepath.Base(portFile))
}
