package deploy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"

	"linerate/internal/control/wire"
	"linerate/internal/control/wire/ssh"
	"linerate/internal/fault"
	"linerate/internal/host/durable"
)

// startWindows does what start does, in PowerShell 5. The program ends with its standard input;
// PowerShell waits for it and removes the directory. sshd for Windows kills the processes of a
// connection that drops; the directory, in the user's temporary folder, may then stay.
func startWindows(ctx context.Context, shell *ssh.Shell, o Options) (wire.Peer, error) {
	host := shell.Target().Host
	if o.Sudo {
		return wire.Peer{}, fault.New(fault.Unreachable, fmt.Errorf("--sudo: %s is a Windows host", host), "log in there as an administrator, and leave out --sudo")
	}
	run := func(what, command string, input []byte, progress func(int)) (string, error) {
		r, err := shell.Feed(ctx, command, input, progress)
		if err != nil {
			return "", fmt.Errorf("%s %s: %w", what, host, err)
		}
		if r.Status != 0 {
			return "", fmt.Errorf("%s %s: %s", what, host, firstLine(r.Output))
		}
		return strings.TrimSpace(r.Output), nil
	}
	arch, err := run("look at", `if($env:PROCESSOR_ARCHITEW6432){$env:PROCESSOR_ARCHITEW6432}else{$env:PROCESSOR_ARCHITECTURE}`, nil, nil)
	if err != nil {
		return wire.Peer{}, err
	}
	files, err := find(parseSystem("windows", arch, true), o)
	if err != nil {
		return wire.Peer{}, err
	}
	program, err := os.ReadFile(files[0])
	if err != nil {
		return wire.Peer{}, fmt.Errorf("copy linerate to %s: %w", host, err)
	}
	data, err := compress(program)
	if err != nil {
		return wire.Peer{}, fmt.Errorf("copy linerate to %s: %w", host, err)
	}
	if _, err := run("make a directory on", windowsDir(rand.Text()), nil, nil); err != nil {
		return wire.Peer{}, err
	}
	got, err := run("copy linerate to", windowsReceive(len(data)), data, o.announce(len(data)))
	if err != nil {
		return wire.Peer{}, err
	}
	if !strings.EqualFold(got, durable.Sum(program)) {
		return wire.Peer{}, errors.New("copy linerate to " + host + ": what arrived is not what was sent")
	}
	a, b := shell.Mark()
	return shell.Start(ctx, windowsStart(a, b, o.Flags), nil)
}

// windowsDir returns the command that makes the directory $d in the user's temporary folder,
// unreadable for others.
func windowsDir(name string) string {
	return `$d=Join-Path ([IO.Path]::GetTempPath()) 'linerate-` + name + `';[void][IO.Directory]::CreateDirectory($d);$f=Join-Path $d 'linerate.exe'`
}

// windowsReceive returns the commands that read n bytes, unpack them into the file $f and print
// its SHA-256.
func windowsReceive(n int) string {
	return fmt.Sprintf(`$b=New-Object byte[] %d;$p=0;`+
		`while($p -lt $b.Length){$g=$in.Read($b,$p,$b.Length-$p);if($g -le 0){exit};$p+=$g};`+
		`$z=New-Object IO.Compression.GZipStream((New-Object IO.MemoryStream(,$b)),[IO.Compression.CompressionMode]::Decompress);`+
		`$w=[IO.File]::Create($f);try{$z.CopyTo($w)}finally{$w.Close()};`+
		`$h=[Security.Cryptography.SHA256]::Create();$w=[IO.File]::OpenRead($f);`+
		`try{[BitConverter]::ToString($h.ComputeHash($w)).Replace('-','')}finally{$w.Close()}`, n)
}

// windowsStart returns the commands that start $f on PowerShell's own handles: PowerShell would
// turn the output of an ordinary command into lines of text.
func windowsStart(a, b string, flags []string) string {
	return `$i=New-Object Diagnostics.ProcessStartInfo($f,'` + strings.Join(append([]string{"agent"}, flags...), " ") + `');$i.UseShellExecute=$false;` +
		`[Console]::Out.Write('` + a + `'+'` + b + ` 0'+[char]10);[Console]::Out.Flush();` +
		`$c=[Diagnostics.Process]::Start($i);$c.WaitForExit();` +
		`Remove-Item -Recurse -Force $d;exit $c.ExitCode`
}
