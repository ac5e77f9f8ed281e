package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"linerate/internal/store/postgres"
	uilive "linerate/internal/ui/live"
)

// How often others are told how a run goes on, and the most that is read of it.
const (
	shareEvery = time.Second
	mostShared = 1 << 20
)

// sharedFile is where the process that measures a session tells others of its present
// run: beside the lock that says that it runs. It is worth nothing afterwards, so that
// nothing waits for a disk. "" where the results are no file of this machine.
func (a *console) sharedFile(id string) string {
	path := a.storePath()
	if path == "" || path == inMemory || postgres.IsAddress(path) {
		return ""
	}
	return filepath.Join(path+".running", url.PathEscape(id)+".now")
}

// share tells other processes how the runs of a session go on, until the function
// returned is called.
func (a *console) share(id string, state *uilive.State) (end func()) {
	file := a.sharedFile(id)
	if file == "" {
		return func() {}
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer os.Remove(file)
		tick := time.NewTicker(shareEvery)
		defer tick.Stop()
		var last []byte
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			text, err := json.Marshal(state.Now())
			if err == nil && !bytes.Equal(text, last) && writeShared(file, text) == nil {
				last = text
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

// writeShared puts text in place at once, so that nobody reads half of it.
func writeShared(file string, text []byte) error {
	part := file + ".part"
	if err := os.WriteFile(part, text, 0o600); err != nil {
		return err
	}
	return os.Rename(part, file)
}

// Now implements web.Source: what the process that measures a session tells of its
// present run.
func (p pages) Now(id string) (uilive.Now, bool) {
	var n uilive.Now
	file := p.a.sharedFile(id)
	if file == "" {
		return n, false
	}
	f, err := os.Open(file)
	if err != nil {
		return n, false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostShared))
	return n, err == nil && json.Unmarshal(text, &n) == nil
}
