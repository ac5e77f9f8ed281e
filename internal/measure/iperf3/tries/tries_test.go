package tries

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestRepeatEndsWithSuccess holds that a try that fails in any way is repeated,
// and one that does not is the last.
func TestRepeatEndsWithSuccess(t *testing.T) {
	for name, fail := range map[string]func(testing.TB){
		"Error": func(t testing.TB) { t.Error("once") },
		"Fatal": func(t testing.TB) { t.Fatalf("%s", "once") },
		"cleanup": func(t testing.TB) {
			t.Cleanup(func() { t.Error("once") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			var order []string
			Repeat(t, func(t testing.TB) {
				order = append(order, "try")
				t.Cleanup(func() {
					order = append(order, "cleanup")
					if t.Context().Err() == nil {
						t.Error("the context of the try outlives it")
					}
				})
				if len(order) == 1 {
					fail(t)
				}
			})
			if want := []string{"try", "cleanup", "try", "cleanup"}; !slices.Equal(order, want) {
				t.Errorf("order %q, want %q", order, want)
			}
		})
	}
}

// TestRepeatSkips holds that a skipped try skips the test.
func TestRepeatSkips(t *testing.T) {
	t.Run("inner", func(t *testing.T) {
		defer func() {
			if !t.Skipped() {
				t.Error("not skipped")
			}
		}()
		Repeat(t, func(t testing.TB) { t.Skip("for the test's sake") })
	})
}

// failing makes TestRepeatFails the test that fails.
const failing = "LINERATE_TRIES_FAIL"

// TestRepeatFails holds, in a process of its own, that a test fails whose tries
// all do, and shows what each said.
func TestRepeatFails(t *testing.T) {
	if os.Getenv(failing) != "" {
		n := 0
		Repeat(t, func(t testing.TB) {
			n++
			t.Errorf("fault %d", n)
		})
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRepeatFails$", "-test.v")
	cmd.Env = append(os.Environ(), failing+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("it passed")
	}
	for _, want := range []string{"fault 1", "fault 2", "fault 3", "all 3 tries failed"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "fault 4") {
		t.Errorf("a fourth try:\n%s", out)
	}
}
