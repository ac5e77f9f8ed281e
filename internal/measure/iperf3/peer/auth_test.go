package peer

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/iperf3"
	"linerate/internal/must"
)

// makeKey makes one key for all tests.
var makeKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func testKey(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	return must.Get(makeKey())(t)
}

// writePEM writes der for the real program and returns the file's name.
func writePEM(t testing.TB, kind string, der []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key.pem")
	must.Do(t, os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return name
}

// TestClientLogin logs in at the real server, which knows PKCS #1 v1.5 only up to
// 3.16, and OAEP since.
func TestClientLogin(t *testing.T) {
	right, wrong := iperf3.PKCS1v15, iperf3.OAEP
	if atLeast(t, 17) {
		right, wrong = wrong, right
	}
	key := testKey(t)
	private := writePEM(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
	users := filepath.Join(t.TempDir(), "users.csv")
	must.Do(t, os.WriteFile(users, []byte("# name,hash\nmario,"+iperf3.PasswordHash("mario", "rossi")+"\n"), 0o600))
	addr := foreignServer(t, "--rsa-private-key-path", private, "--authorized-users-path", users)
	f := model.Flow{Direction: model.To, Bytes: 1 << 20}
	for _, c := range []struct {
		name  string
		login *Login
		ok    bool
	}{
		{"right", &Login{"mario", "rossi", &key.PublicKey, right}, true},
		{"wrong password", &Login{"mario", "russo", &key.PublicKey, right}, false},
		{"wrong padding", &Login{"mario", "rossi", &key.PublicKey, wrong}, false},
		{"right again", &Login{"mario", "rossi", &key.PublicKey, right}, true},
	} {
		_, _, err := Client{Login: c.login}.Run(t.Context(), addr, f, func([]model.Sample) {})
		must.True(t, (!c.ok || err == nil) && (c.ok || errors.Is(err, iperf3.ErrRefused)), "%s: %v", c.name, err)
	}
}

// TestServerLogin logs the real client in, and our own in either padding.
func TestServerLogin(t *testing.T) {
	t.Parallel()
	key := testKey(t)
	der := must.Get(x509.MarshalPKIXPublicKey(&key.PublicKey))(t)
	public := writePEM(t, "PUBLIC KEY", der)
	access := &Access{Key: key, Users: map[string]string{"mario": iperf3.PasswordHash("mario", "rossi")}}
	both := []iperf3.Padding{iperf3.OAEP, iperf3.PKCS1v15}
	t.Run("foreign client", func(t *testing.T) {
		if atLeast(t, 17) && !atLeast(t, 18) {
			t.Skip("the client of 3.17 encrypts nothing with OpenSSL 3: its own server refuses it too")
		}
		old := *access
		old.Paddings = both
		addr := serveHere(t, ServerConfig{Access: &old})
		args := "-n 1M --username mario --rsa-public-key-path " + public
		must.Equal(t, foreignClient(t, addr, args, "IPERF3_PASSWORD=rossi").Error, "")
		must.True(t, foreignClient(t, addr, args, "IPERF3_PASSWORD=russo").Error != "", "a wrong password was accepted")
	})
	f := model.Flow{Direction: model.To, Bytes: 1 << 20}
	for _, c := range []struct {
		name   string
		login  *Login
		access Access
		ok     bool
	}{
		{"OAEP", &Login{"mario", "rossi", &key.PublicKey, iperf3.OAEP}, Access{}, true},
		{"PKCS #1", &Login{"mario", "rossi", &key.PublicKey, iperf3.PKCS1v15}, Access{}, false},
		{"PKCS #1 where it is allowed", &Login{"mario", "rossi", &key.PublicKey, iperf3.PKCS1v15}, Access{Paddings: both}, true},
		{"OAEP where both are", &Login{"mario", "rossi", &key.PublicKey, iperf3.OAEP}, Access{Paddings: both}, true},
		{"wrong user", &Login{"luigi", "rossi", &key.PublicKey, iperf3.OAEP}, Access{}, false},
		{"no token", nil, Access{}, false},
		{"clocks apart", &Login{"mario", "rossi", &key.PublicKey, iperf3.OAEP}, Access{Skew: -time.Hour}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.access.Key, c.access.Users = access.Key, access.Users
			addr := serveHere(t, ServerConfig{Access: &c.access})
			_, _, err := Client{Login: c.login}.Run(t.Context(), addr, f, func([]model.Sample) {})
			must.True(t, (!c.ok || err == nil) && (c.ok || errors.Is(err, iperf3.ErrRefused)), "%v", err)
		})
	}
}

// TestOldPaddingIsNamed: a real client of before 3.17 is refused in the words of
// its own program, and the server's log says why.
func TestOldPaddingIsNamed(t *testing.T) {
	t.Parallel()
	if atLeast(t, 17) {
		t.Skip("this client pads with OAEP")
	}
	key := testKey(t)
	der := must.Get(x509.MarshalPKIXPublicKey(&key.PublicKey))(t)
	public := writePEM(t, "PUBLIC KEY", der)
	e := newEvents()
	addr := serveHere(t, ServerConfig{Event: e.add, Access: &Access{Key: key, Users: map[string]string{"mario": iperf3.PasswordHash("mario", "rossi")}}})
	s := foreignClient(t, addr, "-n 1M --username mario --rsa-public-key-path "+public, "IPERF3_PASSWORD=rossi")
	must.Contain(t, s.Error, "authorization", "the client says")
	err := e.ended(t).Err
	must.True(t, errors.Is(err, iperf3.ErrRefused) && strings.Contains(err.Error(), "PKCS #1 v1.5"), "the server says %v", err)
}

// TestRefusedLoginsLookAlike: whatever is wrong with a login, it is refused with
// one error and at one time, so that neither tells whether the padding was right.
func TestRefusedLoginsLookAlike(t *testing.T) {
	key := testKey(t)
	token := func(user, password string, at time.Time, padding iperf3.Padding) string {
		return must.Get(iperf3.Credentials{User: user, Password: password, Time: at}.Token(&key.PublicKey, padding))(t)
	}
	garbage := make([]byte, key.Size())
	garbage[1] = 2
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for _, paddings := range [][]iperf3.Padding{nil, {iperf3.OAEP, iperf3.PKCS1v15}} {
			a := &Access{Key: key, Users: map[string]string{"mario": iperf3.PasswordHash("mario", "rossi")}, Paddings: paddings}
			turn := make(chan struct{}, 1)
			began := time.Now()
			user, err := a.admit(t.Context(), turn, token("mario", "rossi", now, iperf3.OAEP))
			must.True(t, err == nil && user == "mario" && time.Since(began) == 0, "the right login: %q, %v, after %v", user, err, time.Since(began))
			for name, bad := range map[string]string{
				"no token":        "",
				"no base64":       "???",
				"too short":       "AAAA",
				"too long":        strings.Repeat("A", 4096),
				"garbage":         base64.StdEncoding.EncodeToString(garbage),
				"wrong user":      token("luigi", "rossi", now, iperf3.OAEP),
				"wrong password":  token("mario", "russo", now, iperf3.OAEP),
				"old wrong user":  token("luigi", "rossi", now, iperf3.PKCS1v15),
				"clock":           token("mario", "rossi", now.Add(-time.Hour), iperf3.OAEP),
				"old wrong clock": token("mario", "rossi", now.Add(-time.Hour), iperf3.PKCS1v15),
			} {
				began := time.Now()
				user, err := a.admit(t.Context(), turn, bad)
				took := time.Since(began)
				must.True(t, errors.Is(err, iperf3.ErrRefused) && user == "" && took == answerStep, "%s: %q, %v, after %v", name, user, err, took)
				now = now.Add(answerStep) // as the clock of the bubble
			}
		}
	})
}
