package peer

import (
	"cmp"
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"time"

	"linerate/internal/measure/iperf3"
)

// Access controls who may test. A server that accepts PKCS #1 v1.5, and reveals in its answer
// or its timing whether the padding was right, decrypts messages for an attacker
// (Bleichenbacher 1998). So that padding is off by default, every refusal gets the same answer,
// and its time does not depend on the reason. Use the key for nothing else all the same.
type Access struct {
	Key      *rsa.PrivateKey
	Users    map[string]string // of iperf3.ParseUsers
	Paddings []iperf3.Padding  // nil is OAEP alone
	Skew     time.Duration     // between the clocks; 0 is iperf3.DefaultClockSkew
}

// answerStep is the step of the times at which refused logins are answered: far longer than it
// takes to check a token.
const answerStep = 500 * time.Millisecond

// errOldPadding is the reason for refusing a token with the padding of old clients.
var errOldPadding = errors.New("its token is padded with PKCS #1 v1.5, as by iperf3 before 3.17, which this server takes with --iperf3-pkcs1 alone")

// admit returns the user of a token. A refusal takes a multiple of answerStep, and its error
// wraps iperf3.ErrRefused; its details are for the server's own log, since the client learns
// only that it was refused. Tokens are checked one at a time, so that anonymous clients cost at
// most one CPU.
func (a *Access) admit(ctx context.Context, turn chan struct{}, token string) (user string, err error) {
	began := time.Now()
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	user, err = a.check(token, time.Now())
	<-turn
	if err == nil {
		return user, nil
	}
	took := time.Since(began)
	late := time.NewTimer(answerStep - took%answerStep)
	defer late.Stop()
	select {
	case <-late.C:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	return "", err
}

// check returns the user of a token. The error wraps iperf3.ErrRefused, and names a padding
// that the server does not accept.
func (a *Access) check(token string, now time.Time) (user string, err error) {
	paddings := a.Paddings
	if paddings == nil {
		paddings = []iperf3.Padding{iperf3.OAEP}
	}
	old := true
	for _, padding := range paddings {
		// If the token cannot be decrypted the empty credentials are checked, so that the work
		// is the same.
		who, opened := iperf3.OpenToken(a.Key, token, padding)
		known := who.Check(a.Users, now, cmp.Or(a.Skew, iperf3.DefaultClockSkew))
		if opened == nil && known == nil {
			return who.User, nil
		}
		old = old && opened != nil && padding != iperf3.PKCS1v15
	}
	if old && token != "" {
		if _, err := iperf3.OpenToken(a.Key, token, iperf3.PKCS1v15); err == nil {
			return "", fmt.Errorf("%w: %w", iperf3.ErrRefused, errOldPadding)
		}
	}
	return "", iperf3.ErrRefused
}
