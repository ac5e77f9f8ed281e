package journal

import "testing"

// BenchmarkAppend is what a record costs: the time of two fsyncs.
func BenchmarkAppend(b *testing.B) {
	j, err := Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := j.Append(intent("t", 1, "4096\t131072\t33554432", "4096 65536 65536")); err != nil {
			b.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
}
