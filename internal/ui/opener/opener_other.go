//go:build !darwin && !windows

package opener

// opener is that of the desktops of freedesktop.org.
func opener(path string) []string { return []string{"xdg-open", path} }

// blind says why nobody would see the file: without a screen xdg-open takes a browser
// that takes over the terminal.
func blind(getenv func(string) string) string {
	if getenv("DISPLAY") == "" && getenv("WAYLAND_DISPLAY") == "" && getenv("BROWSER") == "" {
		return "there is no screen (DISPLAY and WAYLAND_DISPLAY are not set)"
	}
	return ""
}
