package sysctl

// defaultRoot is where Linux shows its settings, proc_sys(5). Those below net are of the
// network namespace of the thread that opens the file.
const defaultRoot = "/proc/sys"

func openSystem(name string) (Key, error) { return openFile(defaultRoot, name) }
