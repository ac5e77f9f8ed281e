package radio

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// patience bounds system_profiler, which takes a few seconds.
const patience = 10 * time.Second

type source struct{ name string }

func openSource(name string) (source, error) { return source{name}, nil }

func (source) close() error { return nil }

func (s source) read(bool) (State, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b, err := exec.CommandContext(ctx, "/usr/sbin/system_profiler", "-json", "SPAirPortDataType").Output()
	if err != nil {
		return State{}, fmt.Errorf("system_profiler: %s", err.Error())
	}
	return parseAirport(b, s.name)
}
