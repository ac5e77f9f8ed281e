package filecopy

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"linerate/internal/core/plain"
)

// A message between the ends is its length in four bytes, most significant first, and that many
// bytes of JSON:
//
//	00 00 00 22 {"kind":"offer","bytes":268435456}
//
// After "go" the sender sends the bytes of the file without a frame, as many as it offered, and
// then its digest.
type message struct {
	Kind   string `json:"kind"`
	Bytes  int64  `json:"bytes,omitempty"`  // offer: 1 to 2^50
	Digest []byte `json:"digest,omitempty"` // digest: SHA-256
	Text   string `json:"text,omitempty"`   // fail: why
}

// The kinds of messages.
const (
	kindOffer  = "offer"  // sender: the number of bytes to come
	kindReady  = "ready"  // either: my file is ready
	kindGo     = "go"     // receiver: send
	kindDigest = "digest" // sender: the digest of the source
	kindDone   = "done"   // the sink has the same digest; or the work alone is done
	kindFail   = "fail"   // either: the run failed
)

// Bounds of a message.
const (
	maxMessage = 4096
	maxText    = 1000
)

// errPeer is the peer's error message.
type errPeer struct{ text string }

func (e *errPeer) Error() string { return "the other end: " + e.text }

func writeMessage(w io.Writer, m message) error {
	m.Text = plain.Brief(m.Text, maxText)
	frame := bytes.NewBuffer(make([]byte, 4))
	e := json.NewEncoder(frame)
	e.SetEscapeHTML(false) // escaping could make the text six times as long
	if err := e.Encode(m); err != nil {
		return err
	}
	binary.BigEndian.PutUint32(frame.Bytes(), uint32(frame.Len()-4))
	_, err := w.Write(frame.Bytes())
	return err
}

// readMessage reads one message of a wanted kind. It returns a failure message as an errPeer.
func readMessage(r io.Reader, wanted ...string) (message, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return message{}, errors.New("the other end is gone")
		}
		return message{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxMessage {
		return message{}, fmt.Errorf("a message of %d bytes is longer than %d", n, maxMessage)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return message{}, err
	}
	return parseMessage(body, wanted...)
}

func parseMessage(body []byte, wanted ...string) (message, error) {
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return message{}, fmt.Errorf("message: %w", err)
	}
	if m.Kind == kindFail {
		return message{}, &errPeer{plain.Brief(m.Text, maxText)}
	}
	for _, kind := range wanted {
		if m.Kind != kind {
			continue
		}
		if kind == kindOffer && (m.Bytes < 1 || m.Bytes > maxBytes) {
			return message{}, fmt.Errorf("an offer of %d bytes: not between 1 and %d", m.Bytes, int64(maxBytes))
		}
		if kind == kindDigest && len(m.Digest) != len(digest{}) {
			return message{}, fmt.Errorf("a digest of %d bytes where %d were expected", len(m.Digest), len(digest{}))
		}
		return m, nil
	}
	return message{}, fmt.Errorf("message %q where %s was expected", plain.Brief(m.Kind, maxText), strings.Join(wanted, " or "))
}
