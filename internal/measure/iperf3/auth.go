package iperf3

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Padding is the padding of the token before RSA (section 10). Nothing on the wire names it, so
// both ends must be configured alike.
type Padding int

// The paddings.
const (
	OAEP     Padding = iota // with SHA-1 for label and mask; since 3.17
	PKCS1v15                // up to 3.16, and later on request
)

// ErrRefused reports that a token was not accepted. It gives no reason: a server that
// distinguished bad padding from a bad password would be a decryption oracle.
var ErrRefused = errors.New("authentication refused")

// DefaultClockSkew is the largest difference allowed between the clocks of both ends.
const DefaultClockSkew = 10 * time.Second

// maxToken bounds the base64 of a token: an 8192-bit key gives 1368 characters.
const maxToken = 2048

// Credentials are the content of a token (section 10). The token covers neither the parameters
// nor the data, and can be replayed within the clock skew.
type Credentials struct {
	User, Password string    // without white space
	Time           time.Time // creation of the token, whole seconds
}

// plaintext returns the text to encrypt.
func (c Credentials) plaintext() ([]byte, error) {
	for name, v := range map[string]string{"user": c.User, "password": c.Password} {
		if v == "" || strings.ContainsFunc(v, unicode.IsSpace) {
			return nil, fmt.Errorf("make token: %s is empty or has white space", name)
		}
	}
	return fmt.Appendf(nil, "user: %s\npwd:  %s\nts:   %d", c.User, c.Password, c.Time.Unix()), nil
}

// Token encrypts the credentials with the server's public key, for
// Params.AuthToken. The key must have at least 1024 bits and be long enough
// for the credentials.
func (c Credentials) Token(key *rsa.PublicKey, padding Padding) (string, error) {
	plain, err := c.plaintext()
	if err != nil {
		return "", err
	}
	var sealed []byte
	if padding == PKCS1v15 {
		sealed, err = rsa.EncryptPKCS1v15(rand.Reader, key, plain) //nolint:staticcheck // the protocol before 3.17 has nothing else
	} else {
		sealed, err = rsa.EncryptOAEP(sha1.New(), rand.Reader, key, plain, nil)
	}
	if err != nil {
		return "", fmt.Errorf("make token: %w", err)
	}
	return base64.StdEncoding.EncodeToString(sealed), nil
}

// OpenToken decrypts a client's token. For every fault the error is just ErrRefused.
func OpenToken(key *rsa.PrivateKey, token string, padding Padding) (Credentials, error) {
	if len(token) > maxToken {
		return Credentials{}, ErrRefused
	}
	sealed, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return Credentials{}, ErrRefused
	}
	var plain []byte
	if padding == PKCS1v15 {
		plain, err = rsa.DecryptPKCS1v15(nil, key, sealed) //nolint:staticcheck // the protocol before 3.17 has nothing else
	} else {
		plain, err = rsa.DecryptOAEP(sha1.New(), nil, key, sealed, nil)
	}
	if err != nil {
		return Credentials{}, ErrRefused
	}
	return parsePlaintext(plain)
}

// parsePlaintext splits the text into words, as the real server does.
//
//	user: mario
//	pwd:  rossi
//	ts:   1719000000
func parsePlaintext(plain []byte) (Credentials, error) {
	w := bytes.Fields(plain)
	if len(w) != 6 || string(w[0]) != "user:" || string(w[2]) != "pwd:" || string(w[4]) != "ts:" {
		return Credentials{}, ErrRefused
	}
	seconds, err := strconv.ParseInt(string(w[5]), 10, 64)
	if err != nil {
		return Credentials{}, ErrRefused
	}
	return Credentials{User: string(w[1]), Password: string(w[3]), Time: time.Unix(seconds, 0)}, nil
}

// PasswordHash returns a user's entry in a users file: the lower-case SHA-256 of
// "{user}password", including the braces.
func PasswordHash(user, password string) string {
	sum := sha256.Sum256([]byte("{" + user + "}" + password))
	return hex.EncodeToString(sum[:])
}

// maxUsersFile bounds a users file in bytes.
const maxUsersFile = 1 << 20

// ParseUsers reads a users file of up to 1 MiB: each line is a name, a comma and a
// PasswordHash; a line that starts with # is a comment.
//
//	# name,sha256
//	mario,bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b
//	luigi,6563eb2f7a0f30dbab92de13eef27f52bc74b1eeee4ae937f0b60ac2db4cc418
func ParseUsers(r io.Reader) (map[string]string, error) {
	limited := &io.LimitedReader{R: r, N: maxUsersFile + 1}
	lines := bufio.NewScanner(limited)
	users := map[string]string{}
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, hash, ok := strings.Cut(line, ",")
		sum, err := hex.DecodeString(hash)
		if !ok || name == "" || err != nil || len(sum) != sha256.Size {
			return nil, fmt.Errorf("parse users, line %d: want name,SHA-256 in hex", n)
		}
		users[name] = strings.ToLower(hash)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("parse users: %w", err)
	}
	if limited.N <= 0 {
		return nil, fmt.Errorf("parse users: %w", ErrTooLong)
	}
	return users, nil
}

// Check returns ErrRefused unless users (of ParseUsers) holds the password, and the token's
// time is within skew of now.
func (c Credentials) Check(users map[string]string, now time.Time, skew time.Duration) error {
	known, exists := users[c.User]
	same := subtle.ConstantTimeCompare([]byte(known), []byte(PasswordHash(c.User, c.Password))) == 1
	if !exists || !same || now.Sub(c.Time).Abs() > skew {
		return ErrRefused
	}
	return nil
}
