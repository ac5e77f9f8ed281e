package filecopy

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
)

// digest is what both ends compare: SHA-256 (FIPS 180-4) of all bytes.
type digest = [sha256.Size]byte

// newData returns an endless stream of pseudo-random bytes (ChaCha8), which cannot be
// compressed or deduplicated. The same seed gives the same bytes.
func newData(seed uint64) *rand.ChaCha8 {
	key := [32]byte{'l', 'i', 'n', 'e', 'r', 'a', 't', 'e', ' ', 'c', 'o', 'p', 'y'}
	binary.LittleEndian.PutUint64(key[24:], seed)
	return rand.NewChaCha8(key)
}

// sumOf returns the digest and length of r's data.
func sumOf(r io.Reader, buf []byte, halted func() bool) (digest, int64, error) {
	h := sha256.New()
	var total int64
	for {
		if halted() {
			return digest{}, total, errHalted
		}
		n, err := io.ReadFull(r, buf)
		h.Write(buf[:n])
		total += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return digest(h.Sum(nil)), total, nil
		}
		if err != nil {
			return digest{}, total, err
		}
	}
}
