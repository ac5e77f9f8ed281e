package sysctl

// defaultRoot is where Linux shows its settings, proc_sys(5). What is below
// net belongs to the network namespace of the thread that opens the file.
const defaultRoot = "/proc/sys"

func openSystem(name string) (Key, error) { return openFile(defaultRoot, name) }
