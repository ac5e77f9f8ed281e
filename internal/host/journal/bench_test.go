package journal

import (
	"testing"

	"linerate/internal/must"
)

// BenchmarkAppend is what a record costs: the time of two fsyncs.
func BenchmarkAppend(b *testing.B) {
	j := must.Get(Open(b.TempDir()))(b)
	for b.Loop() {
		must.Do(b, j.Append(intent("t", 1, "4096\t131072\t33554432", "4096 65536 65536")))
	}
	must.Do(b, j.Close())
}
