package atboot

// running returns this program, even if its file was removed since: proc(5).
func running() (string, error) { return "/proc/self/exe", nil }
