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

// How often the progress of a run is shared, and the most that is read of it.
const (
	shareEvery = time.Second
	mostShared = 1 << 20
)

// sharedFile is the file through which the process that measures a session shares its current
// run, next to the lock that marks the session as running. It is useless afterwards, so it is
// not synced to disk. "" if the results are not in a file on this machine.
func (a *console) sharedFile(id string) string {
	path := a.storePath()
	if path == "" || path == inMemory || postgres.IsAddress(path) {
		return ""
	}
	return filepath.Join(path+".running", url.PathEscape(id)+".now")
}

// share shares the progress of a session's runs with other processes, until the returned
// function is called.
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

// writeShared replaces the file atomically, so that no reader sees half of it.
func writeShared(file string, text []byte) error {
	part := file + ".part"
	if err := os.WriteFile(part, text, 0o600); err != nil {
		return err
	}
	return os.Rename(part, file)
}

// Now implements web.Source: it returns the current run of a session, from the process that
// measures it.
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
