package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	guest = "/sbin/guest"
	port  = "/dev/cuau1" // the second serial port, see package machine
)

// run is the program called name.
func run(name string, args []string) error {
	switch name {
	case "init":
		return initialize()
	case "peek":
		return peek(args)
	case "env":
		return with(args)
	case "in":
		return in(args)
	case "listen":
		return listen(args)
	case "sshd":
		return secureShell(args)
	case "sh":
		return shell(args)
	case "sysctl":
		return setVariables(args)
	case "ifconfig":
		return setInterface(args)
	case "sync":
		return writeAll()
	case "reboot":
		return restart()
	}
	if tool := tools()[name]; tool != nil {
		return tool(args)
	}
	return fmt.Errorf("%q is no program of this root", name)
}

// initialize is process 1.
func initialize() error {
	if os.Getpid() != 1 {
		return errors.New("is for process 1 only")
	}
	openConsole()
	os.Clearenv()
	for name, value := range map[string]string{"PATH": "/sbin:/bin:/usr/local/bin", "HOME": "/root", "TMPDIR": "/tmp", "LANG": "C.UTF-8"} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	report("remount the root", remount())
	for _, dir := range []string{"/tmp", "/root", "/var/run", "/var/tmp", "/usr/local/etc/rc.d"} {
		report("make "+dir, os.MkdirAll(dir, 0o755))
	}
	report("make /tmp anybody's", os.Chmod("/tmp", 0o777|os.ModeSticky))
	report("lo0", setAddress("lo0", netip.MustParsePrefix("127.0.0.1/8")))
	report("rc", startScripts())
	fmt.Println("userland: ready")
	return serve()
}

// with executes a program with NAME=VALUE added to its environment.
func with(args []string) error {
	for len(args) > 0 && strings.Contains(args[0], "=") {
		name, value, _ := strings.Cut(args[0], "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return errors.New("usage: env NAME=VALUE PROGRAM...")
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	return unix.Exec(path, args, os.Environ())
}

// in executes a program in a folder.
func in(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: in FOLDER PROGRAM...")
	}
	if err := os.Chdir(args[0]); err != nil {
		return err
	}
	return unix.Exec(args[1], args[1:], os.Environ())
}

// listen starts a program for each connection to a port, as its standard input and output, like
// inetd(8).
func listen(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: listen PORT PROGRAM...")
	}
	return accept(args[0], func(c net.Conn) error {
		f, err := c.(*net.TCPConn).File()
		c.Close()
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(context.Background(), args[1], args[2:]...) // ends with its connection
		cmd.Stdin, cmd.Stdout, cmd.Stderr = f, f, os.Stderr
		err = cmd.Start()
		f.Close()
		if err != nil {
			return err
		}
		return cmd.Wait()
	})
}

// accept serves each connection to a port separately, and reports errors.
func accept(port string, serve func(net.Conn) error) error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", ":"+port)
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() { report("connection", serve(c)) }()
	}
}

// restart is reboot(2) with RB_AUTOBOOT.
func restart() error {
	if _, _, errno := unix.Syscall(unix.SYS_REBOOT, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// report reports a failed step; the machine goes on without it.
func report(step string, err error) {
	if err != nil {
		fmt.Printf("userland: %s: %v\n", step, err)
	}
}

// openConsole opens the three standard files of process 1, which starts without any.
func openConsole() {
	f, err := os.OpenFile("/dev/console", os.O_RDWR, 0)
	if err != nil {
		return // there is no other place to report to
	}
	for fd := range 3 {
		_ = unix.Dup2(int(f.Fd()), fd)
	}
}

// remount makes the read-only root writable, nmount(2). By force: after a reset it is not
// clean, and there is no fsck(8) here.
func remount() error {
	const updateByForce = 0x10000 | 0x80000 // MNT_UPDATE, MNT_FORCE of sys/mount.h
	var words []syscall.Iovec
	for _, w := range []string{"fstype", "ufs", "fspath", "/", "from", "/dev/md0", "rw", ""} {
		if w == "" {
			words = append(words, syscall.Iovec{})
			continue
		}
		b := append([]byte(w), 0)
		words = append(words, syscall.Iovec{Base: &b[0], Len: uint64(len(b))})
	}
	_, _, errno := unix.Syscall(unix.SYS_NMOUNT, uintptr(unsafe.Pointer(&words[0])), uintptr(len(words)), updateByForce)
	if errno != 0 {
		return errno
	}
	return nil
}

// setAddress is SIOCAIFADDR with struct in_aliasreq (netinet/in_var.h): a name of 16
// bytes, then address, broadcast address and mask, each a struct sockaddr_in.
func setAddress(name string, p netip.Prefix) error {
	const addAddress = 0x8044692b
	mask := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	bits := uint32(0xffffffff) << (32 - p.Bits())
	ip, m := p.Addr().As4(), [4]byte{byte(bits >> 24), byte(bits >> 16), byte(bits >> 8), byte(bits)}
	last := mask.As4()
	for i := range last {
		last[i] = ip[i] | ^m[i]
	}
	var request [68]byte
	copy(request[:16], name)
	for i, a := range [][4]byte{ip, last, m} {
		at := 16 + 16*i
		request[at], request[at+1] = 16, unix.AF_INET
		copy(request[at+4:], a[:])
	}
	return ioctl(addAddress, unsafe.Pointer(&request[0]))
}

// ioctl calls ioctl(2) on a socket for interfaces.
func ioctl(request uint, argument unsafe.Pointer) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

// serve starts the guest, restarts it when it ends, and reaps orphans.
func serve() error {
	for {
		child, err := os.StartProcess(guest, []string{guest, port}, &os.ProcAttr{Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
		if err != nil {
			return err
		}
		for {
			pid, err := unix.Wait4(-1, nil, 0, nil)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || pid == child.Pid {
				break
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}
