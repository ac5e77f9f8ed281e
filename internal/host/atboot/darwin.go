package atboot

import (
	"fmt"

	"linerate/internal/host/files"
)

// darwinJob is a property list that launchd(8) reads when macOS starts. It is not loaded now:
// RunAtLoad would run it at once.
func darwinJob(k Keeper) (job, error) {
	if err := plain(k.State); err != nil {
		return job{}, err
	}
	return single(k.file("/Library/LaunchDaemons/"+jobName+".plist", 0o644, plistText(k))), nil
}

// plistText is a launchd.plist(5).
func plistText(k Keeper) string {
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- %s -->
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>%s</string>
  <key>RunAtLoad</key>
  <true/>
  <key>ProgramArguments</key>
  <array>
    <string>%s</string>
    <string>undo</string>
    <string>--at-boot</string>
    <string>--state</string>
    <string>%s</string>
  </array>
  <key>StandardOutPath</key>
  <string>/var/log/%[2]s.log</string>
  <key>StandardErrorPath</key>
  <string>/var/log/%[2]s.log</string>
</dict>
</plist>
`, marker, jobName, files.XML(k.program()), files.XML(k.State))
}
