package peer

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/iperf3"
	"linerate/internal/measure/iperf3/tries"
)

// makeKey makes one key for all tests.
var makeKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func testKey(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	key, err := makeKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// writePEM writes der for the real program and returns the file's name.
func writePEM(t testing.TB, kind string, der []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestClientLogin logs in at the real server, which knows PKCS #1 v1.5 only up to
// 3.16, and OAEP since.
func TestClientLogin(t *testing.T) { tries.Repeat(t, checkLogin) }

func checkLogin(t testing.TB) {
	right, wrong := iperf3.PKCS1v15, iperf3.OAEP
	if atLeast(t, 3, 17) {
		right, wrong = wrong, right
	}
	key := testKey(t)
	private := writePEM(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
	users := filepath.Join(t.TempDir(), "users.csv")
	if err := os.WriteFile(users, []byte("# name,hash\nmario,"+iperf3.PasswordHash("mario", "rossi")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
		if c.ok && err != nil || !c.ok && !errors.Is(err, iperf3.ErrRefused) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestServerLogin logs the real client in, and our own in either padding.
func TestServerLogin(t *testing.T) {
	t.Parallel()
	key := testKey(t)
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := writePEM(t, "PUBLIC KEY", der)
	access := &Access{Key: key, Users: map[string]string{"mario": iperf3.PasswordHash("mario", "rossi")}}
	t.Run("foreign client", func(t *testing.T) {
		if atLeast(t, 3, 17) && !atLeast(t, 3, 18) {
			t.Skip("the client of 3.17 encrypts nothing with OpenSSL 3: its own server refuses it too")
		}
		tries.Repeat(t, func(t testing.TB) {
			addr := serveHere(t, ServerConfig{Access: access})
			args := "-n 1M --username mario --rsa-public-key-path " + public
			if s := foreignClient(t, addr, args, "IPERF3_PASSWORD=rossi"); s.Error != "" {
				t.Error(s.Error)
			}
			if s := foreignClient(t, addr, args, "IPERF3_PASSWORD=russo"); s.Error == "" {
				t.Error("a wrong password was accepted")
			}
		})
	})
	f := model.Flow{Direction: model.To, Bytes: 1 << 20}
	for _, c := range []struct {
		name   string
		login  *Login
		access Access
		ok     bool
	}{
		{"OAEP", &Login{"mario", "rossi", &key.PublicKey, iperf3.OAEP}, Access{}, true},
		{"PKCS #1", &Login{"mario", "rossi", &key.PublicKey, iperf3.PKCS1v15}, Access{}, true},
		{"PKCS #1 where only OAEP is", &Login{"mario", "rossi", &key.PublicKey, iperf3.PKCS1v15}, Access{Paddings: []iperf3.Padding{iperf3.OAEP}}, false},
		{"wrong user", &Login{"luigi", "rossi", &key.PublicKey, iperf3.OAEP}, Access{}, false},
		{"no token", nil, Access{}, false},
		{"clocks apart", &Login{"mario", "rossi", &key.PublicKey, iperf3.OAEP}, Access{Skew: -time.Hour}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.access.Key, c.access.Users = access.Key, access.Users
			addr := serveHere(t, ServerConfig{Access: &c.access})
			_, _, err := Client{Login: c.login}.Run(t.Context(), addr, f, func([]model.Sample) {})
			if c.ok && err != nil || !c.ok && !errors.Is(err, iperf3.ErrRefused) {
				t.Error(err)
			}
		})
	}
}
