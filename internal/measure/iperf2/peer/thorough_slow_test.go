//go:build slow

package peer

import "testing"

// thorough runs every combination with the foreign program.
const thorough = true

// TestEveryMode runs the tests in which thorough makes a difference.
func TestEveryMode(t *testing.T) {
	t.Run("client", TestClientWithForeignServer)
	t.Run("server", TestServerWithForeignClient)
	t.Run("UDP client", TestUDPClientWithForeignServer)
	t.Run("UDP server", TestUDPServerWithForeignClient)
	t.Run("own ends", TestOwnEnds)
	t.Run("nobody", TestUDPNobody)
}
