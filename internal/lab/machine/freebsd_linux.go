package machine

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// FreeBSDImage returns the folder with a FreeBSD to boot: kernel or kernel.xz, an ELF kernel
// with the drivers of its cards and md(4), and stub.elf, a multiboot loader for it. It is
// LINERATE_FREEBSD, or freebsd in the folder of Images. The source tree contains no FreeBSD.
func FreeBSDImage() string {
	if dir := os.Getenv("LINERATE_FREEBSD"); dir != "" {
		return dir
	}
	return filepath.Join(Images(), "freebsd")
}

// MissingFreeBSD names what a FreeBSD machine requires and is not installed; "" if nothing is
// missing.
func MissingFreeBSD() string {
	if what := Missing(); what != "" {
		return what
	}
	for _, p := range []string{"makefs", "xz"} {
		if _, err := exec.LookPath(p); err != nil {
			return "no " + p + " (Debian packages makefs and xz-utils)"
		}
	}
	for _, name := range []string{"stub.elf", "kernel"} {
		if _, err := findFreeBSD(name); err != nil {
			return err.Error()
		}
	}
	return ""
}

func findFreeBSD(name string) (string, error) {
	at := filepath.Join(FreeBSDImage(), name)
	for _, path := range []string{at, at + ".xz"} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s (LINERATE_FREEBSD names the folder with stub.elf and kernel)", at)
}

// FreeBSD returns a machine with a root of its own, created in dir: process 1 and the few
// programs of package userland, the guest, and files, from their path in the root to their path
// here. The root's rc.conf sets the addresses in address, such as "em0": "10.0.0.1/24". The
// root is an image in memory. Reset passes it to the next start as it was written, as if it
// were on a disk.
func FreeBSD(ctx context.Context, name, dir string, address, files map[string]string) (Config, error) {
	kernel, err := freebsdKernel(ctx, dir)
	if err != nil {
		return Config{}, err
	}
	stub, err := findFreeBSD("stub.elf")
	if err != nil {
		return Config{}, err
	}
	rc := filepath.Join(dir, name+".rc.conf")
	var text strings.Builder
	fmt.Fprintf(&text, "hostname=%q\n", name)
	for _, i := range slices.Sorted(maps.Keys(address)) {
		fmt.Fprintf(&text, "ifconfig_%s=\"inet %s\"\n", i, address[i])
	}
	if err := os.WriteFile(rc, []byte(text.String()), 0o644); err != nil {
		return Config{}, err
	}
	image := filepath.Join(dir, name+".root")
	all := map[string]string{"etc/rc.conf": rc}
	maps.Copy(all, files)
	if err := freebsdRoot(ctx, dir, image, all); err != nil {
		return Config{}, err
	}
	// The kernel reads loader(8)'s variables from here.
	words := []string{
		"vfs.root.mountfrom=ufs:/dev/md0", "console=comconsole", "boot_serial=YES",
		"hint.uart.0.at=isa", "hint.uart.0.port=0x3F8", "hint.uart.0.flags=0x10", "hint.uart.0.irq=4",
	}
	return Config{
		Name: name, Dir: dir, Kernel: stub, Multiboot: true, Initrd: []string{kernel, image}, Append: strings.Join(words, " "),
		Memory: 512, Line: Serial, Args: []string{"-no-reboot"},
	}, nil
}

// freebsdKernel unpacks the kernel into dir if it is compressed.
func freebsdKernel(ctx context.Context, dir string) (string, error) {
	from, err := findFreeBSD("kernel")
	if err != nil || !strings.HasSuffix(from, ".xz") {
		return from, err
	}
	to := filepath.Join(dir, "kernel")
	if _, err := os.Stat(to); err == nil {
		return to, nil
	}
	out, err := os.Create(to)
	if err != nil {
		return "", err
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, "xz", "-dkc", from)
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("unpack %s: %w", from, err)
	}
	return to, nil
}

// freebsdRoot creates a file system with makefs(8).
func freebsdRoot(ctx context.Context, dir, image string, files map[string]string) error {
	root := image + ".d"
	defer os.RemoveAll(root)
	for _, d := range []string{"sbin", "bin", "dev", "tmp", "root", "etc", "boot", "var/run", "var/db", "usr/local/etc/rc.d"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return err
		}
	}
	userland := filepath.Join(dir, "userland-freebsd")
	if _, err := os.Stat(userland); err != nil {
		if err := build(ctx, "freebsd", "linerate/internal/lab/machine/userland", userland); err != nil {
			return err
		}
	}
	guest := filepath.Join(dir, "guest-freebsd")
	if _, err := os.Stat(guest); err != nil {
		if _, err := BuildGuest(ctx, "freebsd", dir); err != nil {
			return err
		}
	}
	all := map[string]string{"sbin/guest": guest, "sbin/init": userland}
	for name := range strings.FieldsSeq("reboot sysctl ifconfig sh sync peek in listen env sshd uname id mkdir chmod rm mv head cat gzip sha256") {
		if err := os.Symlink("/sbin/init", filepath.Join(root, "bin", name)); err != nil {
			return err
		}
	}
	maps.Copy(all, files)
	for to, from := range all {
		if err := copyInto(filepath.Join(root, to), from); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "makefs", "-t", "ffs", "-B", "little", "-o", "version=1", "-b", "64m", "-f", "20000", image, root)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("makefs: %w\n%s", err, text)
	}
	return nil
}

// copyInto copies a file and makes it executable.
func copyInto(to, from string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = io.Copy(out, in)
	return err
}

// BuildTests builds the tests of a package of this module for a system, as a program.
func BuildTests(ctx context.Context, system, dir, folder string) (string, error) {
	out := filepath.Join(dir, strings.ReplaceAll(folder, "/", "_")+".test-"+system)
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-trimpath", "-ldflags=-s -w", "-o", out, "linerate/"+folder)
	cmd.Env = append(cmd.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the tests of %s for %s: %w\n%s", folder, system, err, text)
	}
	return out, nil
}
