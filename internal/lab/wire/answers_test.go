package wire

import (
	"testing"

	"linerate/internal/must"
)

// packet4 and packet6 are frames with a time to live, a protocol, and the first byte of
// its header.
func packet4(ttl, protocol, first byte) []byte {
	f := make([]byte, 98)
	f[12], f[14], f[22], f[23], f[34] = 0x08, 0x45, ttl, protocol, first
	return f
}

func packet6(ttl, protocol, first byte) []byte {
	f := make([]byte, 110)
	f[12], f[13], f[14], f[20], f[21], f[54] = 0x86, 0xdd, 0x60, protocol, ttl, first
	return f
}

func TestOwnErrors(t *testing.T) {
	t.Parallel()
	fragment, options := packet4(64, 1, 11), packet4(64, 1, 0)
	fragment[21] = 1
	options[14], options[38] = 0x46, 11
	for name, tt := range map[string]struct {
		frame []byte
		want  bool
	}{
		"time exceeded":          {packet4(64, 1, 11), true},
		"unreachable":            {packet4(64, 1, 3), true},
		"with options":           {options, true},
		"forwarded":              {packet4(63, 1, 11), false},
		"echo":                   {packet4(64, 1, 8), false},
		"a later fragment":       {fragment, false},
		"a datagram":             {packet4(64, 17, 11), false},
		"unreachable, IPv6":      {packet6(64, 58, 1), true},
		"packet too big":         {packet6(64, 58, 2), true},
		"time exceeded, IPv6":    {packet6(64, 58, 3), true},
		"forwarded, IPv6":        {packet6(63, 58, 3), false},
		"echo, IPv6":             {packet6(64, 58, 128), false},
		"a datagram, IPv6":       {packet6(64, 17, 3), false},
		"cut off":                {packet4(64, 1, 11)[:34], false},
		"cut off, IPv6":          {packet6(64, 58, 3)[:54], false},
		"cut off in the options": {options[:36], false},
		"no IP":                  {make([]byte, 60), false},
	} {
		must.Equal(t, ownError(tt.frame), tt.want, name)
	}
}
