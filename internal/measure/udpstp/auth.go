package udpstp

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"strconv"
	"time"
)

// Keys are the keys with which each end signs its PDUs.
type Keys struct{ Client, Server []byte }

// MaxKey is the length of the longest shared key, in bytes.
const MaxKey = 64

// Derive returns the keys of a test whose first Setup request has time unix: two blocks of 256
// bits in counter mode (NIST SP 800-108r1 section 4.1). Before version 20 the shared key itself
// signs.
func Derive(shared string, version uint16, unix uint32) Keys {
	if version < Version {
		return Keys{[]byte(shared), []byte(shared)}
	}
	block := func(i byte) []byte {
		h := hmac.New(sha256.New, []byte(shared))
		h.Write([]byte{0, 0, 0, i})
		h.Write([]byte("UDPSTP\x00"))
		h.Write([]byte(strconv.FormatUint(uint64(unix), 10)))
		h.Write([]byte{0, 0, 2, 0}) // 512 bits in all
		return h.Sum(nil)
	}
	return Keys{block(1), block(2)}
}

// Reasons for rejecting a PDU.
var (
	ErrSignature = errors.New("wrong signature")
	ErrAuthTime  = errors.New("signed more than 5 s from now")
)

// authWindow is how far the time of a signature may be from the receiver's (obudpst 9.0.0,
// AUTH_TIME_WINDOW).
const authWindow = 5 * time.Second

// place returns the offset of the authentication in a PDU: mode 1, time 4, digest 32, number of
// the key 1, reserved 1, checksum 2; 0 if the PDU's kind has none.
func place(pdu []byte) int {
	at := map[uint16]int{setupID: 15, nullID: 7, activationID: 63}[be.Uint16(pdu)]
	if at+41 > len(pdu) {
		return 0
	}
	return at
}

// Sign signs a PDU in mode 1 with the key of that number, at a time in seconds since 1970.
func Sign(pdu, key []byte, number uint8, unix uint32) {
	at := place(pdu)
	if at == 0 {
		return
	}
	pdu[at], pdu[at+37] = 1, number
	be.PutUint32(pdu[at+1:], unix)
	copy(pdu[at+5:], digest(pdu, at, key))
}

// Verify reports whether a PDU was signed with key at about now.
func Verify(pdu, key []byte, now time.Time) error {
	at := place(pdu)
	if at == 0 || pdu[at] != 1 || !hmac.Equal(pdu[at+5:at+37], digest(pdu, at, key)) {
		return ErrSignature
	}
	if off := now.Sub(time.Unix(int64(be.Uint32(pdu[at+1:])), 0)); off < -authWindow || off >= authWindow+time.Second { // whole seconds
		return ErrAuthTime
	}
	return nil
}

// digest returns the digest of the whole PDU, with digest and checksum set to 0.
func digest(pdu []byte, at int, key []byte) []byte {
	var none [32]byte
	h := hmac.New(sha256.New, key)
	h.Write(pdu[:at+5])
	h.Write(none[:])
	h.Write(pdu[at+37 : at+39])
	h.Write(none[:2])
	return h.Sum(nil)
}
