package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"linerate/internal/lab/machine/line"
)

// agent answers one harness on one line.
type agent struct {
	out  *line.Writer
	mu   sync.Mutex
	runs map[uint32]*exec.Cmd // running programs
	puts map[uint32]*os.File  // files being written
}

// serve answers on the file at path until it ends.
func serve(path string) error {
	file, err := openLine(path)
	if err != nil {
		return err
	}
	defer file.Close()
	a := &agent{out: line.NewWriter(file), runs: map[uint32]*exec.Cmd{}, puts: map[uint32]*os.File{}}
	heard := make(chan struct{})
	go a.greet(heard)
	defer func() {
		select {
		case <-heard:
		default:
			close(heard)
		}
	}()
	in := line.NewReader(file)
	for {
		f, err := in.Read()
		if err != nil {
			return err
		}
		if f.Kind == line.Ready {
			select {
			case <-heard:
			default:
				close(heard)
			}
			continue
		}
		a.answer(f)
	}
}

// greet sends hello until the harness has answered.
func (a *agent) greet(heard <-chan struct{}) {
	text, _ := json.Marshal(line.Greeting{Boot: uint64(time.Now().UnixNano())<<8 | uint64(os.Getpid()&0xff), System: runtime.GOOS})
	for {
		_ = a.out.Write(line.Hello, 0, text)
		select {
		case <-heard:
			return
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// answer handles a frame without waiting for programs.
func (a *agent) answer(f line.Frame) {
	switch f.Kind {
	case line.Exec:
		var c line.Command
		if err := json.Unmarshal(f.Payload, &c); err != nil {
			a.end(f.ID, 0, err)
			return
		}
		a.start(f.ID, c)
	case line.Kill:
		a.mu.Lock()
		if cmd := a.runs[f.ID]; cmd != nil {
			killGroup(cmd.Process)
		}
		a.mu.Unlock()
	case line.Put:
		a.end2(f.ID, a.open(f))
	case line.Data:
		if file := a.puts[f.ID]; file != nil {
			if _, err := file.Write(f.Payload); err != nil {
				a.end(f.ID, 0, errors.Join(err, file.Close()))
				delete(a.puts, f.ID)
			}
		}
	case line.End:
		if file := a.puts[f.ID]; file != nil {
			delete(a.puts, f.ID)
			a.end(f.ID, 0, errors.Join(file.Sync(), file.Close()))
		}
	case line.Get:
		go a.get(f.ID, string(f.Payload))
	case line.Hello, line.Ready, line.Stdout, line.Stderr: // never sent to a guest
	}
}

func (a *agent) open(f line.Frame) error {
	var to line.File
	if err := json.Unmarshal(f.Payload, &to); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to.Path), 0o755); err != nil {
		return err
	}
	_ = os.Remove(to.Path) // a running program cannot be overwritten
	file, err := os.OpenFile(to.Path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, to.Mode)
	if err != nil {
		return err
	}
	a.puts[f.ID] = file
	return file.Chmod(to.Mode) // regardless of the umask
}

func (a *agent) get(id uint32, path string) {
	file, err := os.Open(path)
	if err != nil {
		a.end(id, 0, err)
		return
	}
	defer file.Close()
	_, err = io.Copy(pieces{a, line.Data, id}, file)
	a.end(id, 0, err)
}

// start runs a program in a group of its own.
func (a *agent) start(id uint32, c line.Command) {
	if len(c.Args) == 0 {
		a.end(id, 0, errors.New("no program named"))
		return
	}
	cmd := exec.Command(c.Args[0], c.Args[1:]...) //nolint:noctx // Kill ends it, with its children
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stdin = bytes.NewReader(c.Stdin)
	cmd.Stdout, cmd.Stderr = pieces{a, line.Stdout, id}, pieces{a, line.Stderr, id}
	cmd.WaitDelay = time.Second // for grandchildren that keep the output open
	ownGroup(cmd)
	a.mu.Lock()
	err := cmd.Start()
	if err == nil {
		a.runs[id] = cmd
	}
	a.mu.Unlock()
	if err != nil {
		a.end(id, 0, err)
		return
	}
	go func() {
		err := cmd.Wait()
		a.mu.Lock()
		delete(a.runs, id)
		a.mu.Unlock()
		if bad := (*exec.ExitError)(nil); errors.As(err, &bad) || errors.Is(err, exec.ErrWaitDelay) {
			err = nil
		}
		a.end(id, cmd.ProcessState.ExitCode(), err)
	}()
}

// end2 ends a request only if it failed.
func (a *agent) end2(id uint32, err error) {
	if err != nil {
		a.end(id, 0, err)
	}
}

// end reports the end of a request.
func (a *agent) end(id uint32, code int, err error) {
	exit := line.Exit{Code: code}
	if err != nil {
		exit.Err = err.Error()
	}
	text, _ := json.Marshal(exit)
	_ = a.out.Write(line.End, id, text)
}

// pieces writes its input as frames of one kind.
type pieces struct {
	a    *agent
	kind line.Kind
	id   uint32
}

func (p pieces) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if err := p.a.out.Write(p.kind, p.id, b); err != nil {
		return 0, fmt.Errorf("guest: %w", err)
	}
	return len(b), nil
}
