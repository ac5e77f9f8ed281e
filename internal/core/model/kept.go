package model

// FileLine is one line of a file that sets something. Text is the native text that
// it sets, or the canonical one where the file has words of its own for it.
type FileLine struct {
	File   string `json:"file" bound:"value"`      // absolute path, "/etc/sysctl.d/90-net.conf"
	Number int    `json:"line" bound:"2147483647"` // 1…
	Text   string `json:"text" bound:"value"`      // without blanks around it
}

// FileState says what became of a kept file that was to be taken back.
type FileState string

// The states.
const (
	FileRestored FileState = "restored" // as it was before it was kept
	FileAlready  FileState = "already"  // it was so already before
	FileChanged  FileState = "changed"  // somebody else changed it since: left alone
	FileFailed   FileState = "failed"   // Detail says why
)

// FileResult is what became of one of them.
type FileResult struct {
	Record string    `json:"record" bound:"name"`
	Path   string    `json:"path" bound:"value"`
	State  FileState `json:"state" bound:"restored|already|changed|failed"`
	Detail string    `json:"detail,omitempty" bound:"text"`
}

// FileFormat names a kind of files in which a system keeps settings.
type FileFormat string

// The formats. Those of Linux that belong to the owner of an interface come
// with the sysctl file for the settings of the kernel.
const (
	FormatLinuxSysctl       FileFormat = "linux-sysctl"
	FormatSystemdNetworkd   FileFormat = "systemd-networkd"
	FormatNetplan           FileFormat = "netplan"
	FormatNetworkManager    FileFormat = "networkmanager"
	FormatIfupdown          FileFormat = "ifupdown"
	FormatFreeBSD           FileFormat = "freebsd"
	FormatMacOS             FileFormat = "macos"
	FormatWindowsReg        FileFormat = "windows-reg"
	FormatWindowsPowerShell FileFormat = "windows-powershell"
	FormatAnsible           FileFormat = "ansible"
)

// FileFormats returns all formats, in the order in which people should see them.
func FileFormats() []FileFormat {
	return []FileFormat{FormatLinuxSysctl, FormatSystemdNetworkd, FormatNetplan, FormatNetworkManager, FormatIfupdown, FormatFreeBSD, FormatMacOS, FormatWindowsReg, FormatWindowsPowerShell, FormatAnsible}
}

// System returns the GOOS that the files are for; "" where they are for any.
func (f FileFormat) System() string {
	switch f {
	case FormatFreeBSD:
		return "freebsd"
	case FormatMacOS:
		return "darwin"
	case FormatWindowsReg, FormatWindowsPowerShell:
		return "windows"
	case FormatAnsible:
		return ""
	default:
		return "linux"
	}
}

// Omission is a setting that the format cannot hold.
type Omission struct {
	Knob   KnobID `json:"knob"`
	Value  string `json:"value" bound:"value"`
	Reason string `json:"reason" bound:"text"`
}
