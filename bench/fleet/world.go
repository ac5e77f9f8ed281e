//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"linerate/internal/core/fleet"
	"linerate/internal/store/postgres"
	"linerate/internal/store/postgres/postgrestest"
)

// world is a fleet that runs.
type world struct {
	options
	began time.Time
	disks []string
	hosts []*process
	hubs  []*process
	db    *postgrestest.Server
	store *postgres.Fleet
}

const (
	disks    = 10
	diskRoom = 24 << 20 // bytes, for 20 hosts
	mounted  = "/mnt"   // where the disks are

	firstPort = 10_000 // of the hosts
	user      = 65534  // that they are, because several in a process cannot each become one
)

// start starts a database, two hubs and the hosts.
func start(ctx context.Context, o options) (w *world, err error) {
	w = &world{options: o, began: time.Now()}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if err := errors.Join(os.RemoveAll(o.folder), os.MkdirAll(o.folder, 0o755), os.Chown(o.folder, user, user)); err != nil {
		return w, err
	}
	for _, command := range []string{"ip link set lo up", "mount --make-rprivate /", "mount -t tmpfs -o mode=755 none " + mounted} {
		if err := do(command); err != nil {
			return w, err
		}
	}
	for i := range disks {
		disk := fmt.Sprintf("%s/disk%d", mounted, i)
		if err := errors.Join(os.Mkdir(disk, 0o755), do("mount -t tmpfs -o mode=755,size="+fmt.Sprint(diskRoom*max(1, o.hosts/disks/20))+" none "+disk)); err != nil {
			return w, err
		}
		w.disks = append(w.disks, disk)
	}
	if w.db, err = postgrestest.Start(ctx); err != nil {
		return w, err
	}
	if err := w.db.Exec(ctx, "postgres", "ALTER ROLE postgres SET synchronous_commit = on"); err != nil {
		return w, err
	}
	address, err := w.db.Database(ctx)
	if err != nil {
		return w, err
	}
	if err := os.Chmod(w.db.Dir, 0o755); err != nil { // hubs give up root
		return w, err
	}
	for i := range 2 {
		if err := w.startHub(ctx, i, address); err != nil {
			return w, err
		}
	}
	if w.store, err = postgres.OpenFleet(ctx, address); err != nil {
		return w, err
	}
	link, err := os.ReadFile(filepath.Join(w.hubState(0), "hub", "join.link"))
	if err != nil {
		return w, err
	}
	self, err := os.Executable()
	if err != nil {
		return w, err
	}
	for from := 0; from < o.hosts; from += o.together {
		p := &process{user: user, args: []string{self, "hosts", string(link)}}
		for i := from; i < min(from+o.together, o.hosts); i++ {
			h := fmt.Sprintf("h%03d", i)
			state := filepath.Join(w.disks[i%disks], h)
			if err := errors.Join(os.Mkdir(state, 0o755), os.Chown(state, user, user)); err != nil {
				return w, err
			}
			p.hosts, p.args = append(p.hosts, h), append(p.args, strings.Join([]string{h, fmt.Sprint(firstPort + i), state, w.log(h)}, " "))
		}
		p.name, p.log = p.hosts[0], filepath.Join(o.folder, p.hosts[0]+".txt")
		w.hosts = append(w.hosts, p)
		if err := p.start(); err != nil {
			return w, err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return w, w.until(ctx, 3*time.Minute, "all hosts have joined", func() (bool, error) {
		n, err := w.store.News(ctx, fleet.Mark{})
		return len(n.Hosts) == o.hosts, err
	})
}

// log returns the path of a host's own log.
func (w *world) log(host string) string { return filepath.Join(w.folder, host+".jsonl") }

func (w *world) hubState(i int) string { return fmt.Sprintf("%s/hub%d", mounted, i) }

// startHub starts a hub and waits for its links; the second one gets the key of the first.
func (w *world) startHub(ctx context.Context, i int, db string) error {
	state := w.hubState(i)
	if err := os.Mkdir(state, 0o755); err != nil {
		return err
	}
	if i > 0 {
		if err := do("cp -r " + w.hubState(0) + "/hub " + state); err != nil {
			return err
		}
	}
	p := &process{name: fmt.Sprintf("hub%d", i), log: filepath.Join(w.folder, fmt.Sprintf("hub%d.txt", i))}
	p.args = []string{w.program, "hub", "--db", db, "--state", state, "--listen", fmt.Sprintf("127.0.0.%d:5300", i+1), "--host", "127.0.0.1,127.0.0.2", "--rounds", fmt.Sprint(w.rounds)}
	w.hubs = append(w.hubs, p)
	if err := p.start(); err != nil {
		return err
	}
	return w.until(ctx, time.Minute, p.name+" answers", func() (bool, error) {
		text, err := os.ReadFile(p.log)
		return strings.Contains(string(text), "on each host"), err
	})
}

// until waits for a condition; it goes on over errors, because databases are killed.
func (w *world) until(ctx context.Context, most time.Duration, what string, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		is, err := ok()
		if is {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("never: %s", what), err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// close ends everything.
func (w *world) close() {
	for _, p := range append(w.hosts, w.hubs...) {
		if p.cmd != nil && p.cmd.ProcessState == nil {
			_ = p.kill() // it may have ended itself
		}
	}
	if w.store != nil {
		_ = w.store.Close() // the server ends now
	}
	if w.db != nil {
		_ = w.db.Stop() // its folder is temporary
	}
}

// say prints a line of progress.
func (w *world) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%7.1f s  %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

// do runs a command.
func do(command string) error {
	f := strings.Fields(command)
	if out, err := exec.CommandContext(context.Background(), f[0], f[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, out)
	}
	return nil
}
