package manager

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strings"
)

// Here is the machine that this program runs on.
func Here() Machine {
	m := Machine{Root: os.DirFS("/"), System: runtime.GOOS}
	if m.System == "linux" {
		m.Running = func(ctx context.Context) (map[string]bool, error) { return processes(ctx, m.Root) }
	}
	return m
}

// processes reads /proc/PID/comm, proc(5), at most 15 bytes of a name. A program
// in another network namespace manages other interfaces: it does not count,
// where that can be seen.
func processes(ctx context.Context, root fs.FS) (map[string]bool, error) {
	entries, err := fs.ReadDir(root, "proc")
	if err != nil {
		return nil, err
	}
	own, _ := fs.ReadLink(root, "proc/self/ns/net") // "" where there is none
	all := make(map[string]bool)
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if strings.Trim(e.Name(), "0123456789") != "" {
			continue
		}
		if its, err := fs.ReadLink(root, "proc/"+e.Name()+"/ns/net"); err == nil && own != "" && its != own {
			continue
		}
		name, err := fs.ReadFile(root, "proc/"+e.Name()+"/comm")
		if err == nil {
			all[strings.TrimSpace(string(name))] = true
		}
	}
	if len(all) == 0 {
		return nil, errors.New("read /proc: it shows no processes")
	}
	return all, nil
}
