package ssh

import (
	"encoding/base64"
	"fmt"
	"unicode/utf16"
)

// Kind is a kind of interpreter.
type Kind int

// The interpreters that a far host may have.
const (
	Sh         Kind = iota // a POSIX shell
	PowerShell             // Windows PowerShell 5 or newer
)

// halves splits a marker, so that only a command that really ran prints it whole, not one that
// is echoed or quoted in a message.
func halves(mark string) (string, string) { return mark[:len(mark)/2], mark[len(mark)/2:] }

// launch returns the command line that sshd passes to the user's login shell. Every shell can
// parse it and takes a different path:
//
//   - sh, bash, zsh, ksh, csh, tcsh and fish replace themselves by sh, and never reach the rest.
//     No character in the quotes is special to any of them: there is no quote, backslash,
//     exclamation mark or newline.
//   - cmd.exe finds no exec, takes the words up to || as its arguments, and starts PowerShell;
//     rem hides the rest.
//   - PowerShell finds no exec either, prints the quoted part and starts a PowerShell that does
//     not read standard input (-InputFormat None), unlike the login shell itself.
//
// Both interpreters then run what they read line by line, and nothing else: they read not one
// byte beyond the end of a line.
func launch(mark string) string {
	a, b := halves(mark)
	ps := "powershell -NoProfile -NonInteractive -InputFormat None -OutputFormat Text -EncodedCommand " + encode(powerShellLoop(mark))
	return fmt.Sprintf(`exec sh -c 'echo %s""%s sh; while IFS= read -r l; do eval "$l"; done' ; echo '|| %s & rem '; %s`, a, b, ps, ps)
}

// powerShellLoop returns the script that PowerShell is started with.
func powerShellLoop(mark string) string {
	a, b := halves(mark)
	return `$ErrorActionPreference='Stop';$ProgressPreference='SilentlyContinue';$in=[Console]::OpenStandardInput();` +
		`function Line{$l=New-Object Collections.Generic.List[byte];` +
		`while(($c=$in.ReadByte()) -ge 0 -and $c -ne 10){$l.Add($c)};if($c -lt 0){exit};` +
		`[Text.Encoding]::UTF8.GetString($l.ToArray())};` +
		`[Console]::Out.Write('` + a + `'+'` + b + ` powershell'+[char]10);` +
		`while($true){Invoke-Expression (Line)}`
}

// encode encodes text for -EncodedCommand: UTF-16LE in base64.
func encode(text string) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(text)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// wrap turns a command into one line that prints its output, then the marker and a status. If
// the command reads input and fails, the interpreter reads the rest of the input and ends: it
// must never take input for a command.
func wrap(k Kind, mark, command string, eats bool) string {
	a, b := halves(mark)
	if k == PowerShell {
		line := `$s=0;try{$o=.{` + command + `} 2>&1|Out-String}catch{$o="$_";$s=1};` +
			`[Console]::Out.Write("$o"+'` + a + `'+'` + b + ` '+$s+[char]10)`
		if eats {
			line += `;if($s){while($in.ReadByte() -ge 0){};exit}`
		}
		return line + "\n"
	}
	line := "{ " + command + "; } 2>&1; s=$?; printf '%s%s %s\\n' " + a + " " + b + " $s"
	if eats {
		line += "; [ $s = 0 ] || { cat >/dev/null; exit 1; }"
	}
	return line + "\n"
}
