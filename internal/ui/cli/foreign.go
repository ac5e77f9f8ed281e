package cli

import (
	"cmp"
	"strings"

	"github.com/spf13/pflag"

	"linerate/internal/app"
	"linerate/internal/app/serve"
	"linerate/internal/core/plain"
)

// registerPrograms adds the flags that only clients of programs of another kind have.
// Their values are read by givenValues.
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

// farPrograms says which HOSTs of another kind command measures with, and which flags of
// serve answer it in their place; what has traffic of its own goes with that one's command.
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

// givenValues are the flags that somebody set, as programs take them.
func givenValues(set *pflag.FlagSet) app.Values {
	v := app.Values{}
	set.Visit(func(f *pflag.Flag) { v[f.Name] = f.Value.String() })
	return v
}

// registerServers binds the flags that ask for servers of other programs.
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

// givenServers are the servers of other programs that the flags ask for.
func givenServers(set *pflag.FlagSet, all app.Programs) serve.Foreign {
	f := serve.Foreign{Addrs: app.Values{}, Given: givenValues(set)}
	for _, p := range all {
		if addr := f.Given[p.Name]; p.Serve != nil && addr != "" {
			f.Addrs[p.Name] = addr
		}
	}
	return f
}
