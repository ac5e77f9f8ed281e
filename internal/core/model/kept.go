package model

// FileLine is one line of a file that sets something. Text is the native text that it sets, or
// the canonical one if the file has its own words for it.
type FileLine struct {
	File   string `json:"file" bound:"value"`      // absolute path, "/etc/sysctl.d/90-net.conf"
	Number int    `json:"line" bound:"2147483647"` // 1…
	Text   string `json:"text" bound:"value"`      // without blanks around it
}

// FileState is the result of reverting a kept file.
type FileState string

// The states.
const (
	FileRestored FileState = "restored" // as it was before it was kept
	FileAlready  FileState = "already"  // it was already so
	FileChanged  FileState = "changed"  // another program changed it since: left alone
	FileFailed   FileState = "failed"   // Detail says why
)

// FileResult is the result for one file.
type FileResult struct {
	Record string    `json:"record" bound:"name"`
	Path   string    `json:"path" bound:"value"`
	State  FileState `json:"state" bound:"restored|already|changed|failed"`
	Detail string    `json:"detail,omitempty" bound:"text"`
}

// FileFormat names a kind of files that keep settings.
type FileFormat string

// The formats. A format of a Linux interface manager includes the sysctl file for kernel
// settings.
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

// FileFormats returns all formats, in the order of display.
func FileFormats() []FileFormat {
	return []FileFormat{FormatLinuxSysctl, FormatSystemdNetworkd, FormatNetplan, FormatNetworkManager, FormatIfupdown, FormatFreeBSD, FormatMacOS, FormatWindowsReg, FormatWindowsPowerShell, FormatAnsible}
}

// System returns the GOOS that the files are for; "" if for any.
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

// Omission is a setting that the format cannot express.
type Omission struct {
	Knob   KnobID `json:"knob"`
	Value  string `json:"value" bound:"value"`
	Reason string `json:"reason" bound:"text"`
	// The line of another file that would win, if that is the reason.
	By FileLine `json:"by,omitzero"`
}
