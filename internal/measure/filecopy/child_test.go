package filecopy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"linerate/internal/core/traffic/files"
	"linerate/internal/must"
)

// childTask is what a child of the test binary does, as JSON in this variable.
const childTask = "LINERATE_FILECOPY_CHILD"

// task is a copy that a child process receives and never finishes.
type task struct {
	State string
	Copy  files.Params
}

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(childTask); ok {
		var k task
		if err := json.Unmarshal([]byte(text), &k); err != nil {
			panic(err)
		}
		// A testing.T belongs to a test: this one runs in the child only.
		os.Args = []string{os.Args[0], "-test.run=^TestChild$"}
	}
	os.Exit(m.Run())
}

// TestChild is the child: it receives the beginning of a copy, says so, and
// waits to be killed.
func TestChild(t *testing.T) {
	text, ok := os.LookupEnv(childTask)
	if !ok {
		t.Skip("is what a child process that another test starts runs")
	}
	var k task
	must.Do(t, json.Unmarshal([]byte(text), &k))
	p := script(t, New(k.State, Options{NamedPaths: true}), flow(k.Copy))
	p.begin(t, int64(odd))
	must.Get(p.Write(make([]byte, 2<<20)))(t)
	for p.moved() < 2<<20 {
		select {
		case <-p.Done:
			t.Fatal(p.Err)
		default:
		}
	}
	fmt.Println("in the middle")
	<-p.Done
}

// inTheMiddle starts a child and returns when it is in the middle of its copy.
func inTheMiddle(t *testing.T, k task) *exec.Cmd {
	t.Helper()
	text := must.Get(json.Marshal(k))(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childTask+"="+string(text))
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "in the middle" {
			return cmd
		}
		t.Logf("child: %s", lines.Text())
	}
	t.Fatalf("the child ended: %v", cmd.Wait())
	return nil
}

// kill ends a child as a power cut would.
func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait()
}
