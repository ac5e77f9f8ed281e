package cli

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"linerate/internal/core/plain"
	"linerate/internal/fault"
)

// unitText is a systemd unit. %[1]s is the command line, %[2]s the part that depends on the
// rights that the server needs, %[3]s the command, %[4]s what it does. Its settings are from systemd.exec(5).
const unitText = `# Made by linerate %[3]s --print-unit.
[Unit]
Description=linerate %[3]s: %[4]s
After=network-online.target
Wants=network-online.target

[Service]
ExecStart=%[1]s
Restart=on-failure
RestartSec=5s
StateDirectory=linerate
StateDirectoryMode=0700
LogsDirectory=linerate
LogsDirectoryMode=0700
Environment=LINERATE_STATE=%%S/linerate
UMask=0077
LimitNOFILE=65536
TasksMax=4096
NoNewPrivileges=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectHome=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
MemoryDenyWriteExecute=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service landlock_create_ruleset landlock_add_rule landlock_restrict_self
SystemCallErrorNumber=EPERM
%[2]s
[Install]
WantedBy=multi-user.target
`

// measureUnit needs no rights. Units with one User share the dynamic user of that name, so that
// hub and agent of one machine can share the state directory.
const measureUnit = `DynamicUser=yes
User=linerate
ProtectSystem=strict
ProtectKernelTunables=yes
ProtectKernelLogs=yes
ProtectProc=invisible
CapabilityBoundingSet=
AmbientCapabilities=
`

// tuneUnit keeps what the tuner needs to change and keep settings; the part that listens drops
// all of it by itself.
const tuneUnit = `ProtectSystem=yes
CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW CAP_NET_BIND_SERVICE CAP_SETUID CAP_SETGID CAP_CHOWN CAP_FOWNER CAP_DAC_OVERRIDE CAP_KILL
`

// portUnit lets an unprivileged server use a port below 1024.
const portUnit = `DynamicUser=yes
User=linerate
ProtectSystem=strict
ProtectKernelTunables=yes
ProtectKernelLogs=yes
ProtectProc=invisible
CapabilityBoundingSet=CAP_NET_BIND_SERVICE
AmbientCapabilities=CAP_NET_BIND_SERVICE
`

// printUnit prints a unit that starts a command with the given flags.
func (a *console) printUnit(command string, set *pflag.FlagSet) error {
	what := map[string]string{"serve": "lets other hosts measure to this one", "hub": "has many hosts measure with each other", "agent": "measures with the other hosts of a hub"}[command]
	words := append(slices.Clone(a.Self), command)
	tune, low, reload, link := false, false, "", ""
	set.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "print-unit", "json", "user", "state": // of the unit, not of the server
			return
		case "allow-tune":
			tune = true
		case "audit":
			reload = "ExecReload=/bin/kill -HUP $MAINPID\n" // opens a new file, after logrotate
		}
		if _, listens := a.world().AllPrograms().ByName(f.Name); listens || f.Name == "listen" {
			low = low || lowPort(f.Value.String())
		}
		if file, ok := strings.CutPrefix(f.Value.String(), "@"); ok && f.Name == "hub" {
			link = file
			return
		}
		words = append(words, "--"+f.Name+"="+f.Value.String())
	})
	for i, w := range words {
		words[i] = plain.UnitWord(w)
	}
	if link != "" { // the service's user may not read the file, and systemd hands it over
		path, err := filepath.Abs(link)
		if err != nil {
			return err
		}
		words = append(words, "--hub=@${CREDENTIALS_DIRECTORY}/hub.link")
		reload += "LoadCredential=hub.link:" + strings.ReplaceAll(path, "%", "%%") + "\n"
	}
	rights := measureUnit
	switch {
	case tune:
		rights = tuneUnit
	case low:
		rights = portUnit
	}
	if a.json {
		return fault.Usagef("--print-unit prints a unit, not a document: leave out --json")
	}
	_, err := fmt.Fprintf(a.Out, unitText, strings.Join(words, " "), reload+rights, command, what)
	return err
}

// lowPort reports whether listening there needs privileges.
func lowPort(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n > 0 && n < 1024
}
