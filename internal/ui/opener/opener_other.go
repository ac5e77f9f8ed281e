//go:build !darwin && !windows

package opener

// opener returns the opener of freedesktop.org desktops.
func opener(path string) []string { return []string{"xdg-open", path} }

// blind says why the user would not see the file: without a screen xdg-open starts a text browser
// that takes over the terminal.
func blind(getenv func(string) string) string {
	if getenv("DISPLAY") == "" && getenv("WAYLAND_DISPLAY") == "" && getenv("BROWSER") == "" {
		return "there is no screen (DISPLAY and WAYLAND_DISPLAY are not set)"
	}
	return ""
}
