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

// Access is who may test. Whoever can ask a server that takes PKCS #1 v1.5, and
// learns from its answer or from the time of it whether the padding was right, can
// have it decrypt what was encrypted with its key (Bleichenbacher 1998). So that
// padding is off unless asked for, a refused client is told the same whatever was
// wrong, and at a time that does not depend on it. The key should serve nothing
// else all the same.
type Access struct {
	Key      *rsa.PrivateKey
	Users    map[string]string // of iperf3.ParseUsers
	Paddings []iperf3.Padding  // nil is OAEP alone
	Skew     time.Duration     // between the clocks; 0 is iperf3.DefaultClockSkew
}

// answerStep is after which time, or a multiple of it, a refused login is
// answered: far longer than it takes to look at a token.
const answerStep = 500 * time.Millisecond

// errOldPadding is why a token with the padding of old clients is refused.
var errOldPadding = errors.New("its token is padded with PKCS #1 v1.5, as by iperf3 before 3.17, which this server takes with --iperf3-pkcs1 alone")

// admit returns the user of a token, or, after answerStep or a multiple of it, an
// error that wraps iperf3.ErrRefused. What else the error says is for the server's
// own log: the client is told only that it was refused. Tokens are looked at one
// at a time, so that anonymous clients cost one processor at most.
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

// check returns the user of a token. The error wraps iperf3.ErrRefused, and says
// of a token in a padding that is not taken that it is.
func (a *Access) check(token string, now time.Time) (user string, err error) {
	paddings := a.Paddings
	if paddings == nil {
		paddings = []iperf3.Padding{iperf3.OAEP}
	}
	old := true
	for _, padding := range paddings {
		// Where nothing can be read the empty credentials are looked up, so that
		// the same is done.
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
