package atboot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	unitName = jobName + ".service"
	unitDir  = "/etc/systemd/system"
)

// linuxJob uses the first of these that Linux has: systemd, the local scripts of OpenRC,
// those of rc.local, cron.
func linuxJob(k Keeper) (job, error) {
	if err := plain(k.State); err != nil {
		return job{}, err
	}
	script := fmt.Sprintf("#!/bin/sh\n# %s\n# It puts back what linerate had changed when this machine went down.\n%s\n", marker, k.shellLine())
	switch {
	case k.exists("/run/systemd/system"): // sd_booted(3)
		return systemdJob(k), nil
	case k.exists("/etc/local.d") && k.exists("/etc/runlevels/default/local"): // OpenRC, /etc/local.d/README
		return single(k.file("/etc/local.d/"+jobName+".start", 0o755, script)), nil
	case k.exists("/etc/rc.local.d"):
		return single(k.file("/etc/rc.local.d/"+jobName, 0o755, script)), nil
	case k.exists("/etc/cron.d") && k.hasCron():
		return single(k.file("/etc/cron.d/"+jobName, 0o644, cronText(k))), nil
	}
	return job{}, fmt.Errorf("nothing here runs a job at the start of the machine: no systemd, no /etc/local.d with the service local, "+
		"no /etc/rc.local.d, no cron with /etc/cron.d: %w", errors.ErrUnsupported)
}

// single returns a job of one piece.
func single(p piece) job { return job{name: p.Path, pieces: []piece{p}} }

// hasCron reports whether there is a cron that reads /etc/cron.d; that of busybox does not.
func (k Keeper) hasCron() bool {
	for _, name := range []string{"cron", "crond", "fcron"} {
		path, err := filepath.EvalSymlinks(k.real("/usr/sbin/" + name))
		if err == nil && filepath.Base(path) != "busybox" {
			return true
		}
	}
	return false
}

// cronText returns a crontab(5) with the user column. In it a percent sign would end the
// command.
func cronText(k Keeper) string {
	return fmt.Sprintf("# %s\n# It puts back what linerate had changed when this machine went down.\n@reboot root %s\n",
		marker, strings.ReplaceAll(k.shellLine(), "%", `\%`))
}

// systemdJob returns a unit with the link that systemctl enable would make.
func systemdJob(k Keeper) job {
	unit := k.file(unitDir+"/"+unitName, 0o644, unitText(k))
	link := piece{Path: k.real(unitDir + "/multi-user.target.wants/" + unitName), Link: "../" + unitName}
	return job{name: unit.Path, pieces: []piece{unit, link}, check: k.enabled}
}

// unitText returns a systemd.service(5). It has sh start the program: where SELinux is
// enforcing, systemd itself may not start a file with the label of /var/lib, and fails with
// 203/EXEC. In ExecStart $$ is a dollar sign and %% a percent sign (systemd.service(5),
// "Command lines"). The unit runs after the programs that set up interfaces have begun
// (systemd.special(7), network.target), which would override it otherwise.
func unitText(k Keeper) string {
	percent := strings.NewReplacer("%", "%%").Replace
	program, state := percent(k.program()), percent(k.State)
	return fmt.Sprintf(`# %s
[Unit]
Description=Put back what linerate had changed when this machine went down
After=network.target
RequiresMountsFor="%s"
ConditionPathExists=%s

[Service]
Type=oneshot
TimeoutStartSec=120
ExecStart=/bin/sh -c 'exec "$$0" "$$@"' "%s" undo --at-boot --state "%s"

[Install]
WantedBy=multi-user.target
`, marker, state, program, program, state)
}

// enabled asks systemd whether it will start the unit. Without systemctl it returns nil.
func (k Keeper) enabled(ctx context.Context) error {
	systemctl := "systemctl"
	if k.Root != "" {
		systemctl = k.real("/usr/bin/systemctl")
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, systemctl, "is-enabled", unitName).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if words := strings.TrimSpace(string(out)); err != nil || words != "enabled" {
		return fmt.Errorf("systemd will not start %s: it is %q", unitName, words)
	}
	return nil
}
