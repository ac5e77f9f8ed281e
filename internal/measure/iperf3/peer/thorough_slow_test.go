//go:build slow

package peer

import "testing"

// thorough runs every combination with the foreign program.
const thorough = true

// TestEveryMode runs the tests in which thorough makes a difference.
func TestEveryMode(t *testing.T) {
	t.Run("client", TestClient)
	t.Run("server", TestServer)
	t.Run("UDP client", TestClientUDP)
	t.Run("UDP server", TestServerUDP)
	t.Run("UDP limit", TestServerUDPLimit)
}
