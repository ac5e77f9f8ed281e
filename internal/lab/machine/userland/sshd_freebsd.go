package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"time"

	"golang.org/x/crypto/ssh"
)

// authorized has the keys that may log in, in the format of sshd(8).
const authorized = "/root/.ssh/authorized_keys"

// secureShell is sshd(8): it runs commands for clients with an authorized key, and does nothing
// else. It creates a new host key at each start.
func secureShell(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: sshd PORT")
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	key, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		return err
	}
	cfg := &ssh.ServerConfig{PublicKeyCallback: mayLogIn}
	cfg.AddHostKey(key)
	return accept(args[0], func(c net.Conn) error {
		defer c.Close()
		return serveSSH(c, cfg)
	})
}

// mayLogIn compares a key with those of the file.
func mayLogIn(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	rest, err := os.ReadFile(authorized)
	if err != nil {
		return nil, err
	}
	for len(rest) > 0 {
		var known ssh.PublicKey
		if known, _, _, rest, err = ssh.ParseAuthorizedKey(rest); err != nil {
			return nil, err
		}
		if bytes.Equal(known.Marshal(), key.Marshal()) {
			return &ssh.Permissions{}, nil
		}
	}
	return nil, errors.New("unknown key")
}

// serveSSH serves one connection until it ends.
func serveSSH(c net.Conn, cfg *ssh.ServerConfig) error {
	conn, channels, requests, err := ssh.NewServerConn(c, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	go ssh.DiscardRequests(requests)
	for n := range channels {
		if n.ChannelType() != "session" {
			if err := n.Reject(ssh.UnknownChannelType, "only sessions"); err != nil {
				return err
			}
			continue
		}
		ch, asked, err := n.Accept()
		if err != nil {
			return err
		}
		go session(ch, asked)
	}
	return nil
}

// session runs the one command of a session (RFC 4254, section 6.5); it ignores environment
// requests, and there are no terminals.
func session(ch ssh.Channel, asked <-chan *ssh.Request) {
	defer ch.Close()
	for r := range asked {
		var wanted struct{ Command string }
		if r.Type != "exec" || ssh.Unmarshal(r.Payload, &wanted) != nil {
			_ = r.Reply(false, nil)
			continue
		}
		_ = r.Reply(true, nil)
		go ssh.DiscardRequests(asked)
		var ended struct{ Status uint32 }
		ended.Status = uint32(command(ch, wanted.Command))
		_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(&ended))
		return
	}
}

// command runs a line with sh and returns its exit status. A line that outlives its connection
// gets EOF on its input.
func command(ch ssh.Channel, line string) int {
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", line) // ends with its input
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = ch, ch.Stderr(), time.Second
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		report("sshd", err)
		return 255
	}
	go func() {
		_, _ = io.Copy(in, ch)
		_ = in.Close()
	}()
	_ = cmd.Wait()
	return max(cmd.ProcessState.ExitCode(), 0)
}
