package deploy

import (
	"context"
	"fmt"

	"linerate/internal/control/wire"
)

// passwords is how often sudo's password may be wrong, as with sudo itself
// (passwd_tries of sudoers(5)).
const passwords = 3

// startBySudo starts the agent as root.
//
// -k makes sudo forget that it was here before, so that it is known whether it
// reads a password: what it did not read would reach the agent. The password
// goes over the encrypted connection into sudo's standard input; it is on no
// command line and in no file. sudo reads a line of it byte by byte, and the
// agent is started by a shell that first prints the marker, so that nothing is
// sent to it before sudo is content.
func (d *deployment) startBySudo(ctx context.Context, file remote) (wire.Peer, error) {
	sudo := "sudo -k -n"
	r, err := d.shell.Run(ctx, sudo+" -- "+quote(file.path)+" version", nil)
	if err != nil {
		return wire.Peer{}, fmt.Errorf("run sudo on %s: %w", d.host, err)
	}
	var line []byte
	if r.Status != 0 {
		if d.o.Password == nil {
			return wire.Peer{}, &Problem{
				text: fmt.Sprintf("sudo on %s wants a password, and there is no terminal to ask for it: %s", d.host, firstLine(r.Output)),
				Hint: "log in there as root, or allow sudo without a password (NOPASSWD in sudoers)",
			}
		}
		sudo = "sudo -k -S -p ''"
		password, err := d.password(ctx, sudo, file)
		if err != nil {
			return wire.Peer{}, err
		}
		line = append(password, '\n')
	}
	a, b := d.shell.Mark()
	agent := fmt.Sprintf(`%s -- sh -c 'printf "%%s%%s 0\n" "$0" "$1"; shift; exec "$@"' %s %s %s agent %s; exit $?`,
		sudo, a, b, quote(file.path), d.flags(file))
	peer, err := d.shell.Start(ctx, agent, line)
	clear(line)
	return peer, err
}

// password asks until sudo takes it.
func (d *deployment) password(ctx context.Context, sudo string, file remote) ([]byte, error) {
	var said string
	for range passwords {
		password, err := d.o.Password(d.host)
		if err != nil {
			return nil, fmt.Errorf("ask for the password of sudo on %s: %w", d.host, err)
		}
		// head waits for the line even where sudo does not.
		r, err := d.shell.Ask(ctx, "head -n 1 | "+sudo+" -- "+quote(file.path)+" version", password)
		if err != nil {
			return nil, fmt.Errorf("run sudo on %s: %w", d.host, err)
		}
		if r.Status == 0 {
			return password, nil
		}
		clear(password)
		said = firstLine(r.Output)
	}
	return nil, &Problem{text: fmt.Sprintf("sudo on %s: %s", d.host, said), Hint: "try there: sudo true"}
}
