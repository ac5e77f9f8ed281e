package atboot

import (
	"fmt"
	"strings"
)

// freebsdJob is an rc.d(8) script. rc runs those in /usr/local/etc/rc.d if local_startup of
// rc.conf(5) names that directory, which is the default.
func freebsdJob(k Keeper) (job, error) {
	if err := plain(k.State); err != nil {
		return job{}, err
	}
	name := strings.ReplaceAll(jobName, "-", "_")
	return single(k.file("/usr/local/etc/rc.d/"+name, 0o755, rcText(k, name))), nil
}

// rcText returns that script. It runs after the interfaces and sysctl.conf are set up, which
// would override it otherwise.
func rcText(k Keeper, name string) string {
	return fmt.Sprintf(`#!/bin/sh
# %[1]s
# It puts back what linerate had changed when this machine went down.
#
# PROVIDE: %[2]s
# REQUIRE: FILESYSTEMS netif sysctl
# BEFORE: DAEMON

. /etc/rc.subr

name="%[2]s"
desc="Put back what linerate had changed"
rcvar="%[2]s_enable"
start_cmd="%[2]s_start"
stop_cmd=":"

%[2]s_start()
{
	(%[3]s)
}

load_rc_config $name
: ${%[2]s_enable:="YES"}
run_rc_command "$1"
`, marker, name, k.shellLine())
}
