package main

import (
	endian "encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"linerate/internal/control/session"
	"linerate/internal/control/wire/stdio"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// mismatched demands the sentence that names both sides and says what to do.
func mismatched(t testing.TB, text, mine, other string) {
	t.Helper()
	for _, want := range []string{
		"versions do not fit", otherVersion, "install the same linerate on both hosts",
		fmt.Sprintf("%s is linerate", mine), fmt.Sprintf("speaks session protocol %d", session.Protocol),
		fmt.Sprintf("%s is linerate %s and speaks %d", other, otherVersion, session.Protocol+1),
	} {
		must.Contain(t, text, want)
	}
}

// TestControllerRefusesAnotherProtocol has an agent that speaks a later protocol
// and would take the controller.
func TestControllerRefusesAnotherProtocol(t *testing.T) {
	t.Parallel()
	cmd := command(t, "test", "exec:127.0.0.1 "+os.Args[0]+" agent", "-t", "1s")
	cmd.Env = append(cmd.Env, roleVar+"=future-agent") // for the agent; linerate itself does not look
	r := run(t, cmd).ends(t, 3)
	mismatched(t, r.err, "the controller", "the agent")
}

// TestAgentRefusesAnotherProtocol is the same the other way round: a controller
// that speaks a later protocol, and the agent as it is installed.
func TestAgentRefusesAnotherProtocol(t *testing.T) {
	t.Parallel()
	peer := must.Get(stdio.Start(t.Context(), []string{binary, "agent", "--state", t.TempDir()}, stdio.Options{}))(t)
	b := must.Get(json.Marshal(session.Hello{Protocol: session.Protocol + 1, Version: otherVersion, Host: model.Far}))(t)
	hello := endian.BigEndian.AppendUint16([]byte("lr-hello"), uint16(len(b)))
	must.Get(peer.Control.Write(append(hello, b...)))(t)
	said := must.Get(greeting(peer.Control, len("lr-reply?")))(t)
	mismatched(t, string(said), "the agent", "the controller")
	must.OK(t, peer.Close())
	if why := peer.Why(); why == nil || !strings.HasSuffix(why.Error(), "ended") { // well, and without a word
		t.Errorf("the agent: %v", why)
	}
}
