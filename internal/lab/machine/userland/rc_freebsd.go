package main

import (
	"bufio"
	"context"
	_ "embed" // the scripts
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

//go:embed etc/rc
var rcScript []byte

//go:embed etc/rc.subr
var rcSubroutines []byte

// startScripts makes the shell run /etc/rc, like init(8).
func startScripts() error {
	err := errors.Join(os.WriteFile("/etc/rc", rcScript, 0o755), os.WriteFile("/etc/rc.subr", rcSubroutines, 0o644))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "/etc/rc") // nothing could cancel it: this is process 1
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// shell is sh(1): sh -c TEXT [NAME ARGS], or sh FILE [ARGS].
func shell(args []string) error {
	var text string
	switch {
	case len(args) >= 2 && args[0] == "-c":
		text, args = args[1], args[min(3, len(args)):]
	case len(args) >= 1:
		b, err := os.ReadFile(args[0])
		if err != nil {
			return err
		}
		text, args = string(b), args[1:]
	default:
		return errors.New("usage: sh -c TEXT | sh FILE ARGS")
	}
	parsed, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
	if err != nil {
		return err
	}
	runner, err := interp.New(interp.StdIO(os.Stdin, os.Stdout, os.Stderr), interp.CallHandler(likeSh), interp.Params(append([]string{"--"}, args...)...))
	if err != nil {
		return err
	}
	err = runner.Run(context.Background(), parsed)
	if status, ok := errors.AsType[interp.ExitStatus](err); ok {
		os.Exit(int(status))
	}
	return err
}

// likeSh replaces builtins of FreeBSD's shell that the interpreter lacks: it has no signals and
// no umask.
func likeSh(_ context.Context, args []string) ([]string, error) {
	switch args[0] {
	case "umask":
		return []string{"true"}, nil
	case "trap":
		args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return slices.Contains([]string{"HUP", "INT", "TERM", "PIPE"}, a) })
		if len(args) == 2 { // signals only
			return []string{"true"}, nil
		}
		if args[len(args)-1] == "0" {
			args[len(args)-1] = "EXIT"
		}
	}
	return args, nil
}

// setVariables is sysctl(8): sysctl NAME=VALUE... or sysctl -f FILE.
func setVariables(args []string) error {
	if len(args) == 2 && args[0] == "-f" {
		file, err := os.Open(args[1])
		if err != nil {
			return err
		}
		defer file.Close()
		args = nil
		for lines := bufio.NewScanner(file); lines.Scan(); {
			text, _, _ := strings.Cut(lines.Text(), "#")
			if text = strings.TrimSpace(text); text != "" {
				args = append(args, text)
			}
		}
	}
	var all error
	for _, a := range args {
		name, value, ok := strings.Cut(a, "=")
		if !ok {
			return errors.New("usage: sysctl NAME=VALUE... | sysctl -f FILE")
		}
		if err := setVariable(strings.TrimSpace(name), strings.TrimSpace(value)); err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", a, err))
		}
	}
	return all
}

func setVariable(name, value string) error {
	v, err := readVariable(name)
	if err != nil {
		return err
	}
	b, err := sysctl([]int32{0, 3}, make([]byte, 200), []byte(name))
	if err != nil {
		return err
	}
	raw := []byte(value)
	if v.Type != "string" {
		n, err := strconv.ParseInt(value, 0, 64)
		if err != nil {
			return err
		}
		raw = binary.LittleEndian.AppendUint64(nil, uint64(n))[:v.Bytes]
	}
	_, err = sysctl(oidOf(b), nil, raw)
	return err
}

// setInterface is what ifconfig(8) does with "inet ADDRESS/BITS", "mtu N" and "up".
func setInterface(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: ifconfig NAME inet ADDRESS/BITS|mtu N|up")
	}
	name, words := args[0], args[1:]
	for len(words) > 0 {
		var err error
		switch {
		case words[0] == "up":
			words = append(words, "") // without a value
		case len(words) < 2:
			return fmt.Errorf("ifconfig: %q without a value", words[0])
		case words[0] == "inet":
			var p netip.Prefix
			if p, err = netip.ParsePrefix(words[1]); err == nil {
				err = setAddress(name, p)
			}
		case words[0] == "mtu":
			err = setMTU(name, words[1])
		default:
			return fmt.Errorf("ifconfig: no %q here", words[0])
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("ifconfig %s %s: %w", name, words[0], err)
		}
		words = words[2:]
	}
	return nil
}

// setMTU is SIOCSIFMTU with struct ifreq.
func setMTU(name, value string) error {
	const setMTU = 0x80206934
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return err
	}
	var request [32]byte
	copy(request[:16], name)
	binary.LittleEndian.PutUint32(request[16:], uint32(n))
	return ioctl(setMTU, unsafe.Pointer(&request[0]))
}

// writeAll is sync(2).
func writeAll() error {
	_, _, errno := unix.Syscall(unix.SYS_SYNC, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
