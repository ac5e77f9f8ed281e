package deploy_test

import (
	"context"
	"strconv"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

func waitTick(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
