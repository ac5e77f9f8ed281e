package lab

import (
	"fmt"
	"os"
	"testing"
)

// TestMain makes the test binary serve as the lab's processes and as the
// programs that tests run in the hosts.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "lab-init" {
		exit(Child(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == "peer" {
		exit(peer(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
