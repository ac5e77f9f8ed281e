package atboot

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"linerate/internal/host/durable"
	"linerate/internal/host/files"
)

// task is a scheduled task of Windows. Windows stores a definition in its own form, so later
// answers are compared with its answer about the new task.
type task struct {
	Name  string `json:"name"`
	Token string `json:"token"`            // in its description; no other task has it
	Said  string `json:"sha256,omitempty"` // of Windows' answer about the new task

	text string
}

// taskFile holds the definition while schtasks reads it.
const taskFile = "task.xml" + newSuffix

// windowsJob returns a task that runs as SYSTEM when Windows starts.
func windowsJob(k Keeper) (job, error) {
	if !filepath.IsAbs(k.State) || strings.ContainsFunc(k.State, func(r rune) bool { return r < ' ' || r == '"' }) {
		return job{}, fmt.Errorf("state directory %q: want an absolute path without quotes", k.State)
	}
	t := &task{Name: jobName, Token: rand.Text()}
	t.text = taskText(k, t.Token)
	return job{name: "the scheduled task " + jobName, pieces: []piece{{Task: t}}}, nil
}

// taskText returns a definition in the Task Scheduler Schema
// (http://schemas.microsoft.com/windows/2004/02/mit/task). S-1-5-18 is SYSTEM.
func taskText(k Keeper, token string) string {
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo>
    <Author>linerate</Author>
    <Description>%s It puts back what linerate had changed when this machine went down. %s</Description>
  </RegistrationInfo>
  <Triggers>
    <BootTrigger>
      <Enabled>true</Enabled>
    </BootTrigger>
  </Triggers>
  <Principals>
    <Principal id="Author">
      <UserId>S-1-5-18</UserId>
      <RunLevel>HighestAvailable</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <ExecutionTimeLimit>PT10M</ExecutionTimeLimit>
    <Enabled>true</Enabled>
  </Settings>
  <Actions Context="Author">
    <Exec>
      <Command>%s</Command>
      <Arguments>undo --at-boot --state %s</Arguments>
    </Exec>
  </Actions>
</Task>
`, marker, token, files.XML(windowsWord(k.program())), files.XML(windowsWord(k.State)))
}

// utf16Text returns text in the encoding that its first line announces to schtasks.
func utf16Text(text string) []byte { return files.UTF16(strings.ReplaceAll(text, "\n", "\r\n")) }

// patience is the timeout for a program of the system.
const patience = 30 * time.Second

// schtasks returns the path of the program, which no entry of PATH can change.
func schtasks() string {
	return filepath.Join(cmp.Or(os.Getenv("SystemRoot"), `C:\Windows`), "System32", "schtasks.exe")
}

// runSchtasks runs schtasks.exe and returns its output without zero bytes: it may be UTF-16.
func runSchtasks(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, schtasks(), args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("schtasks %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(exit.Stderr))
	}
	return bytes.ReplaceAll(out, []byte{0}, nil), err
}

// state asks Windows for the task. schtasks distinguishes a missing task from other failures
// only in the language of the machine, so after a failure the list of all tasks decides.
func (t *task) state(ctx context.Context) (state, error) {
	said, err := runSchtasks(ctx, "/Query", "/TN", t.Name, "/XML")
	if err != nil {
		all, listErr := runSchtasks(ctx, "/Query", "/FO", "CSV", "/NH")
		if listErr != nil || bytes.Contains(all, []byte(`"\`+t.Name+`"`)) {
			return absent, err
		}
		return absent, nil
	}
	if !bytes.Contains(said, []byte(t.Token)) || t.Said != "" && durable.Sum(said) != t.Said {
		return foreign, nil
	}
	return ours, nil
}

// create registers the task, and replaces none: without /F schtasks asks before it replaces
// one, and gets no answer.
func (t *task) create(ctx context.Context, k Keeper) error {
	path := filepath.Join(k.dir(), taskFile)
	if err := writeSynced(path, utf16Text(t.text), 0o600); err != nil {
		return err
	}
	k.after("job temporary")
	_, err := runSchtasks(ctx, "/Create", "/TN", t.Name, "/XML", path)
	if err = errors.Join(err, os.Remove(path)); err != nil {
		return err
	}
	k.after("job registered")
	said, err := runSchtasks(ctx, "/Query", "/TN", t.Name, "/XML")
	if err != nil {
		return err
	}
	if !bytes.Contains(said, []byte(t.Token)) {
		return fmt.Errorf("task %s: %w", t.Name, ErrTaken)
	}
	t.Said = durable.Sum(said)
	return nil
}

func (t *task) remove(ctx context.Context) error {
	_, err := runSchtasks(ctx, "/Delete", "/TN", t.Name, "/F")
	return err
}
