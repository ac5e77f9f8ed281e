package cli

import (
	"cmp"
	"strings"

	"github.com/spf13/pflag"

	"linerate/internal/app"
	"linerate/internal/app/serve"
	"linerate/internal/core/plain"
)

// registerPrograms adds the flags that only clients of foreign programs have. givenValues reads
// their values.
func registerPrograms(fl *pflag.FlagSet, all app.Programs) {
	for _, p := range all {
		registerFlags(fl, p.Flags)
	}
}

func registerFlags(fl *pflag.FlagSet, flags []app.Flag) {
	for _, f := range flags {
		if f.Switch {
			fl.Bool(f.Name, false, f.Usage)
		} else {
			fl.String(f.Name, "", f.Usage)
		}
	}
}

// farPrograms lists the foreign HOSTs that command measures with, and the flags of serve that
// answer them. A program with traffic of its own belongs to the command for that traffic.
func farPrograms(all app.Programs, command string) (hosts, flags string) {
	var schemes, answer []string
	for _, p := range all {
		of := "test"
		for _, k := range p.Kinds {
			if !strings.HasPrefix(k.Command, "serve") { // which only its clients make
				of = cmp.Or(k.Command, of)
			}
		}
		if of != command {
			continue
		}
		schemes = append(schemes, p.Of()+"://HOST")
		if p.Serve != nil {
			answer = append(answer, "--"+p.Name)
		}
	}
	return plain.And(schemes), strings.Join(answer, " ")
}

// givenValues returns the flags that are set, in the form that programs take.
func givenValues(set *pflag.FlagSet) app.Values {
	v := app.Values{}
	set.Visit(func(f *pflag.Flag) { v[f.Name] = f.Value.String() })
	return v
}

// registerServers adds the flags that start servers of other programs.
func registerServers(fl *pflag.FlagSet, all app.Programs) {
	for _, p := range all {
		if p.Serve == nil {
			continue
		}
		fl.String(p.Name, "", "answer "+p.Name+" clients too, on :"+p.Listens()+" or --"+p.Name+"=ADDRESS:PORT")
		fl.Lookup(p.Name).NoOptDefVal = ":" + p.Listens()
		registerFlags(fl, p.ServerFlags)
	}
}

// givenServers returns the servers of other programs that the flags ask for.
func givenServers(set *pflag.FlagSet, all app.Programs) serve.Foreign {
	f := serve.Foreign{Addrs: app.Values{}, Given: givenValues(set)}
	for _, p := range all {
		if addr := f.Given[p.Name]; p.Serve != nil && addr != "" {
			f.Addrs[p.Name] = addr
		}
	}
	return f
}
