package iperf3

import (
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

func TestPlaintext(t *testing.T) {
	c := Credentials{User: "mario", Password: "rossi", Time: time.Unix(1719000000, 0)}
	const want = "user: mario\npwd:  rossi\nts:   1719000000"
	got := must.Get(c.plaintext())(t)
	must.True(t, string(got) == want, "%q", got)
	must.Equal(t, must.Get(parsePlaintext([]byte(want)))(t), c)
	for _, bad := range []string{"", "user: a b\npwd:  c\nts:   1", "user: a\npwd:  c\nts:   x", "pwd: a\nuser: b\nts: 1"} {
		must.Is(t, must.Err(parsePlaintext([]byte(bad))), ErrRefused, "%q", bad)
	}
	for _, bad := range []Credentials{{User: "a b", Password: "c"}, {User: "a", Password: "c\nts: 1"}, {User: "a"}} {
		must.Fail(t, must.Err(bad.plaintext()), "%+v: taken", bad)
	}
}

func TestToken(t *testing.T) {
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	c := Credentials{User: "mario", Password: "rossi", Time: time.Unix(1719000000, 0)}
	for padding, other := range map[Padding]Padding{OAEP: PKCS1v15, PKCS1v15: OAEP} {
		token := must.Get(c.Token(&key.PublicKey, padding))(t)
		must.Need(t, len(token) == 344 && !strings.ContainsAny(token, "\r\n"), "token of %d characters", len(token))
		must.Equal(t, must.Get(OpenToken(key, token, padding))(t), c, "padding %d", padding)
		// A wrong padding can by chance open PKCS#1 v1.5, but never into words.
		must.Is(t, must.Err(OpenToken(key, token, other)), ErrRefused, "padding %d read as %d", padding, other)
	}
	for name, token := range map[string]string{"empty": "", "no base64": "*", "short": "AAAA", "long": strings.Repeat("A", maxToken+4)} {
		must.Is(t, must.Err(OpenToken(key, token, OAEP)), ErrRefused, "%s", name)
	}
}

func TestUsers(t *testing.T) {
	// printf '{mario}rossi' | sha256sum
	const hash = "bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b"
	users := must.Get(ParseUsers(strings.NewReader("# name,hash\n\nmario," + hash + "\n")))(t)
	must.Need(t, len(users) == 1 && users["mario"] == hash && PasswordHash("mario", "rossi") == hash, "%v", users)
	now := time.Unix(1719000000, 0)
	good := Credentials{User: "mario", Password: "rossi", Time: now}
	for _, d := range []time.Duration{0, DefaultClockSkew, -DefaultClockSkew} {
		must.OK(t, good.Check(users, now.Add(d), DefaultClockSkew), "clock off by %v", d)
	}
	for name, c := range map[string]Credentials{
		"late": {"mario", "rossi", now.Add(-11 * time.Second)}, "early": {"mario", "rossi", now.Add(11 * time.Second)},
		"far away": {"mario", "rossi", time.Unix(1<<62, 0)}, "password": {"mario", "verdi", now}, "user": {"luigi", "rossi", now},
	} {
		must.Is(t, c.Check(users, now, DefaultClockSkew), ErrRefused, "%s", name)
	}
	for name, file := range map[string]string{"no hash": "mario", "short": "mario,00", "no name": "," + hash} {
		must.Fail(t, must.Err(ParseUsers(strings.NewReader(file))), "%s: taken", name)
	}
	must.Is(t, must.Err(ParseUsers(strings.NewReader(strings.Repeat("# comment\n", 1+maxUsersFile/10)))), ErrTooLong, "large file")
}
