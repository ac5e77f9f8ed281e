//go:build slow

package peer

// thorough runs every combination with the foreign program.
const thorough = true
