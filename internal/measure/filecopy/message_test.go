package filecopy

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"linerate/internal/must"
)

func TestMessages(t *testing.T) {
	var b bytes.Buffer
	long := strings.Repeat("<\"&\\", 2000)
	for _, m := range []message{
		{Kind: kindOffer, Bytes: 7}, {Kind: kindDigest, Digest: make([]byte, 32)}, {Kind: kindFail, Text: "a\nb\x1b[2J"}, {Kind: kindFail, Text: long},
	} {
		must.Do(t, writeMessage(&b, m))
	}
	m := must.Get(readMessage(&b, kindReady, kindOffer))(t)
	must.True(t, m.Bytes == 7, "%+v", m)
	if m, err := readMessage(&b, kindDigest); err != nil || len(m.Digest) != 32 {
		t.Errorf("%+v, %v", m, err)
	}
	var said *errPeer
	_, err := readMessage(&b, kindDone)
	must.True(t, errors.As(err, &said) && said.text == "a b?[2J", "%v", err)
	if _, err := readMessage(&b, kindDone); !errors.As(err, &said) || len(said.text) > maxText {
		t.Errorf("%v", err)
	}
	must.Fail(t, must.Err(readMessage(&b, kindDone)), "a message out of nothing")
	must.Say(t, must.Err(readMessage(strings.NewReader("\xff\xff\xff\xff"), kindDone)), "longer")
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"kind":"offer","bytes":268435456}`))
	f.Add([]byte(`{"kind":"fail","text":"no space"}`))
	f.Add([]byte(`{"kind":"digest","digest":"AAAA"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMessage(b, kindOffer, kindDigest, kindDone)
		must.True(t, err != nil || m.Kind != kindOffer || m.Bytes >= 1, "an offer of %d bytes is accepted", m.Bytes)
		var said *errPeer
		must.True(t, !errors.As(err, &said) || len(said.text) <= maxText, "too much text: %v", err)
	})
}

func FuzzMounts(f *testing.F) {
	f.Add("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n50 29 0:45 / /mnt/with\\040space rw shared:7 - nfs4 nas:/export rw,vers=4.2\n")
	f.Add("1 2 3 4 \\0 6 - 7 \\999")
	f.Fuzz(func(t *testing.T, text string) {
		all := parseMounts(text)
		m, ok := mountOf(all, "/mnt/x")
		must.True(t, !ok || m.point != "", "a mount on nothing: %+v", m)
	})
}

func TestMounts(t *testing.T) {
	all := parseMounts("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" +
		"50 29 0:45 / /mnt/with\\040space rw shared:7 - nfs4 nas:/export rw,vers=4.2\n" +
		"51 29 0:46 / /mnt/over rw - tmpfs tmpfs rw\n52 29 0:47 / /mnt/over rw - xfs /dev/sdb rw\nnonsense\n")
	for path, want := range map[string]string{
		"/": "ext4", "/etc": "ext4", "/mnt/with space/a": "nfs4", "/mnt/with spaces": "ext4", "/mnt/over": "xfs",
	} {
		m, ok := mountOf(all, path)
		must.True(t, ok && m.kind == want, "%s: %+v", path, m)
	}
}
