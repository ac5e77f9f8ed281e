package atboot

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/must"
)

// TestSystemdVerify has the real systemd check the unit, and the link.
func TestSystemdVerify(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	must.SkipIf(t, err != nil, "no systemd-analyze here")
	k := keeper(t, "systemd")
	k.State = filepath.Join(k.Root, "state % {x}")
	words(t, filepath.Join(k.Root, "words"))
	must.Do(t, os.Mkdir(k.State, 0o700))
	must.Get(k.Install(t.Context()))(t)
	unit := k.real(unitDir + "/" + unitName)
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", unit).CombinedOutput()
	must.True(t, err == nil && !bytes.Contains(out, []byte(unitName)), "systemd-analyze verify: %v\n%s", err, out)
	systemctl, err := exec.LookPath("systemctl")
	if err != nil {
		return
	}
	out, err = exec.CommandContext(t.Context(), systemctl, "--root="+k.Root, "is-enabled", unitName).CombinedOutput()
	must.True(t, err == nil && strings.TrimSpace(string(out)) == "enabled", "systemctl is-enabled: %v\n%s", err, out)
	must.Do(t, os.Remove(k.real(unitDir+"/multi-user.target.wants/"+unitName)))
	out, err = exec.CommandContext(t.Context(), systemctl, "--root="+k.Root, "is-enabled", unitName).CombinedOutput()
	must.True(t, err != nil && strings.TrimSpace(string(out)) == "disabled", "without the link: %v\n%s", err, out)
}
