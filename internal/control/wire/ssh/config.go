package ssh

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// configTime is how long ssh may take to read its configuration, which can run commands of the
// user (Match exec).
const configTime = 20 * time.Second

// config is ssh's configuration for a host.
type config struct {
	hostName      string // that ssh connects to, or would without a jump host or proxy
	port          string
	jump          string // ProxyJump, "" for none
	proxy         bool   // there is a ProxyCommand
	remoteCommand bool   // there is a RemoteCommand
}

// readConfig runs ssh -G. If that client cannot report its configuration, the name is used as
// it is.
func readConfig(ctx context.Context, command []string, t Target) (config, error) {
	limited, cancel := context.WithTimeout(ctx, configTime)
	defer cancel()
	argv := slices.Concat(command, []string{"-G"}, t.arguments())
	cmd := exec.CommandContext(limited, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return config{}, fmt.Errorf("reach %s over ssh: %w", t, ctx.Err())
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == sshFailed {
		return config{}, explain(t, stderr.String())
	}
	c := parseConfig(string(out))
	c.hostName = cmp.Or(c.hostName, t.Host)
	return c, nil
}

// Alias returns the name or address that ssh's configuration has for host; "" if that is the
// same, or if there is no ssh. command is that of Options.
func Alias(ctx context.Context, command []string, host string) string {
	if len(command) == 0 {
		command = []string{"ssh"}
	}
	t, err := ParseTarget("ssh://" + host)
	if err != nil {
		return ""
	}
	c, err := readConfig(ctx, command, t)
	if err != nil || c.hostName == strings.ToLower(host) || c.hostName == host {
		return ""
	}
	return c.hostName
}

// parseConfig reads the output of ssh -G, lines like
//
//	hostname 192.0.2.7
//	proxyjump gate.example
//	port 22
func parseConfig(text string) config {
	var c config
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		given := value != "" && value != "none"
		switch strings.ToLower(key) {
		case "hostname":
			c.hostName = value
		case "port":
			c.port = value
		case "proxyjump":
			if given {
				c.jump = value
			}
		case "proxycommand":
			c.proxy = given
		case "remotecommand":
			c.remoteCommand = given
		}
	}
	return c
}

// direct returns the address that ssh itself connects to, "" if it does not.
func (c config) direct() string {
	if c.indirect() != "" || c.hostName == "" || c.port == "" {
		return ""
	}
	return net.JoinHostPort(c.hostName, c.port)
}

// indirect names the jump host or proxy in between, "" for none.
func (c config) indirect() string {
	switch {
	case c.jump != "":
		return c.jump + " (ProxyJump)"
	case c.proxy:
		return "a ProxyCommand"
	}
	return ""
}
