package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/report/term"
)

// exactArgs requires one argument for each name.
func exactArgs(names ...string) cobra.PositionalArgs {
	return someArgs(len(names), len(names), cmp.Or(strings.Join(names, " and "), "no arguments"))
}

// atMostHost allows one argument, HOST.
func atMostHost(cmd *cobra.Command, args []string) error {
	return someArgs(0, 1, "at most HOST")(cmd, args)
}

// someArgs requires between least and most arguments, described by takes. Its error is a usage
// error with a hint.
func someArgs(least, most int, takes string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if least <= len(args) && len(args) <= most {
			return nil
		}
		return argsFault(cmd, "takes "+takes, args)
	}
}

func argsFault(cmd *cobra.Command, takes string, args []string) error {
	got := "got none"
	if len(args) > 0 {
		got = "got " + strconv.Quote(strings.Join(args, " "))
	}
	err := fault.Usagef("%s %s, %s", cmd.Name(), takes, got)
	if len(args) > 0 && plain.Nearest(args[0], commandNames(cmd, "")) != "" {
		return unknownCommand(cmd, args[0])
	}
	if meant := meantArgs(cmd, args); meant != "" {
		return fault.WithHint(err, "%s", meant)
	}
	return fault.WithHint(err, "see %s --help", cmd.CommandPath())
}

// meantArgs says how linerate expresses what args seem to mean, "" if it does not.
func meantArgs(cmd *cobra.Command, args []string) string {
	first := ""
	if len(args) > 0 {
		first = plain.ShellWord(args[0])
	}
	if from := cmd.Flags().Lookup("from"); from != nil && strings.HasPrefix(from.Value.String(), "-") { // it took the next flag
		meant := fmt.Sprintf("--from takes the near HOST, and got %s", from.Value)
		if cmd.Flags().Lookup("reverse") != nil {
			meant += "; what HOST sends is measured by --reverse"
		}
		return meant
	}
	switch name := cmd.Name(); {
	case name == "compare":
		return "the last two sessions: linerate compare last~1 last"
	case name == "completion":
		return "one of bash, zsh, fish and powershell: linerate completion bash"
	case len(args) == 0:
	case name == "fleet":
		return "its commands are " + plain.And(commandNames(cmd, ""))
	case name == "list":
		return "one session is shown by: linerate show " + first
	case name == "limits":
		return "what it computes with are flags, as --rate 10gbit; see linerate limits --help"
	case name == "serve":
		meant := "the other machine measures to this one: linerate test HOST; see linerate serve --help"
		cmd.Flags().Visit(func(f *pflag.Flag) { // one whose value is not the next argument
			if strings.HasPrefix(f.NoOptDefVal, ":") {
				meant = fmt.Sprintf("an address or port follows an equal sign: --%s=%s", f.Name, f.NoOptDefVal)
			}
		})
		return meant
	case name == "copy" && len(args) == 2:
		return "a file or folder of yours is --source, as in --source ./photos.zip; see linerate copy --help"
	case first == "lab":
		return "did you mean " + plain.ShellWord("lab:"+args[1]) + "?"
	case name == "run":
		given, _ := cmd.Flags().GetStringArray("factor")
		if slices.ContainsFunc(given, func(s string) bool { return !strings.Contains(s, "=") }) {
			return "a factor is written without blanks: --factor KNOB=VALUE,VALUE"
		}
	case strings.HasPrefix(first, "lab:"):
		return "a lab is both ends: linerate " + name + " " + plain.ShellWord(first)
	case len(args) == 2 && cmd.Flags().Lookup("from") != nil:
		return fmt.Sprintf("from one host to another: linerate %s %s --from user@%s", name, plain.ShellWord(args[1]), first)
	}
	return ""
}

// knownCommand handles the arguments of a command that only groups others.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		if cmd.HasParent() {
			return fault.WithHint(fault.Usagef("%s needs a command", cmd.CommandPath()), "one of: %s", strings.Join(commandNames(cmd, cmd.CommandPath()+" "), ", "))
		}
		return nil
	}
	return unknownCommand(cmd, args[0])
}

// unknownCommand reports that cmd has no command name, with the nearest one as a hint.
func unknownCommand(cmd *cobra.Command, name string) error {
	err := fault.Usagef("unknown command %q", name)
	if cmd.HasParent() {
		err = fault.Usagef("%s: unknown command %q", cmd.CommandPath(), name)
	}
	switch near := plain.Nearest(name, commandNames(cmd, "")); {
	case near != "":
		return fault.WithHint(err, "did you mean %s %s?", cmd.CommandPath(), near)
	case name == "client":
		return fault.WithHint(err, "HOST stands alone: linerate test HOST")
	case !cmd.HasParent() && strings.ContainsAny(name, ".:@"):
		return fault.WithHint(err, "a HOST follows a command: linerate test %s", plain.ShellWord(name))
	}
	return fault.WithHint(err, "see %s --help", cmd.CommandPath())
}

// commandNames returns the names of the commands below cmd, each after prefix.
func commandNames(cmd *cobra.Command, prefix string) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, prefix+c.Name())
		}
	}
	return names
}

// flagFault describes a mistake in a flag, with the nearest flag as a hint.
func flagFault(cmd *cobra.Command, err error) error {
	see := "see " + cmd.CommandPath() + " --help"
	var unknown *pflag.NotExistError
	var empty *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(cmd, unknown, see)
	case errors.As(err, &empty):
		flag := "--" + empty.GetFlag().Name
		if empty.GetSpecifiedShortnames() != "" {
			flag = "-" + empty.GetFlag().Shorthand + " (" + flag + ")"
		}
		return fault.WithHint(fault.Usagef("%s needs a value: %s", flag, empty.GetFlag().Usage), "%s", see)
	}
	var wrong *pflag.InvalidValueError
	if quantity := (*units.ParseError)(nil); errors.As(err, &wrong) && errors.As(err, &quantity) {
		err = fmt.Errorf("--%s: %w", wrong.GetFlag().Name, quantity)
	}
	return fault.New(fault.Usage, err, "%s", cmp.Or(fault.HintOf(err), see))
}

// unknownFlag reports a flag that cmd does not have.
func unknownFlag(cmd *cobra.Command, e *pflag.NotExistError, see string) error {
	flag := "--" + e.GetSpecifiedName()
	if e.GetSpecifiedShortnames() != "" {
		flag = "-" + e.GetSpecifiedName()
	}
	err := fault.Usagef("unknown flag: %s", flag)
	if n := e.GetSpecifiedName(); n[0] >= '1' && n[0] <= '9' && cmd.Flags().Lookup("parallel") == nil {
		return fault.WithHint(err, "the session before the last one is written last~1; %s", see)
	}
	if meant := meantFlag(cmd, flag); meant != "" {
		return fault.WithHint(err, "%s", meant)
	}
	if e.GetSpecifiedShortnames() == "" {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		if near := plain.Nearest(e.GetSpecifiedName(), known); near != "" {
			return fault.WithHint(err, "did you mean --%s?", near)
		}
	}
	return fault.WithHint(err, "%s", see)
}

// meantFlag says how linerate expresses a flag of iperf or of another command, "" if it does
// not.
func meantFlag(cmd *cobra.Command, flag string) string {
	if cmd.Name() == "sweep" {
		switch flag {
		case "-l":
			return "the smallest message is --min; -l is the length of a write elsewhere"
		case "-u":
			return "the largest message is --max; -u is UDP elsewhere"
		case "-b":
			return "socket buffers are -w, --window; -b is the rate of UDP elsewhere"
		}
	}
	switch flag {
	case "-s":
		switch cmd.Name() {
		case "sweep":
			return "one message after the other is --stream"
		case "copy":
			return "the bytes of a file are --size"
		}
		return "a server is started with: linerate serve"
	case "-c", "--client":
		return "HOST stands alone: linerate test HOST"
	case "--server":
		return "a server is started with: linerate serve"
	case "-p", "--port":
		if cmd.Name() == "serve" {
			return "the port is part of --listen, as in --listen :5300; see linerate serve --help"
		}
		return "the port is part of HOST, as in iperf3://nas:5202; see linerate test --help"
	case "-J":
		return "one JSON document is printed with --json"
	case "-P", "--parallel":
		if cmd.Name() == "sweep" {
			return "a sweep has one connection; several at a time are: linerate test HOST -P 4"
		}
	case "-V", "--verbose":
		return "nothing is left out of a report; what it rests on is in --json"
	case "-v", "--version":
		return "the version is printed by: linerate --version"
	case "-d", "--dualtest":
		return "both directions at once are --bidir"
	case "-r", "--tradeoff":
		return "one direction after the other is what linerate test does; -R is only from HOST"
	case "-4", "-6":
		return "write an address of that kind in place of the name of HOST"
	case "-O":
		return "the warm-up is --omit"
	case "-T":
		return "a name for the session is --title"
	case "-F":
		return "files are copied by: linerate copy HOST"
	case "-f", "--format":
		return "units follow the size of a value; plain numbers are in --json"
	case "-D", "--daemon":
		return "a service is made of: linerate serve --print-unit"
	}
	return ""
}

// meantWord returns a hint with the word of a list that is nearest to text, "" for none.
func meantWord(text string, known []string) string {
	if near := plain.Nearest(text, known); near != "" {
		return "did you mean " + near + "? "
	}
	return ""
}

// emptyFlags refuses flags with an empty value, which usually come from an unset shell variable.
func emptyFlags(cmd *cobra.Command) error {
	var bad faults
	cmd.Flags().Visit(func(f *pflag.Flag) {
		text := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			text = strings.Join(list.GetSlice(), "")
		}
		if text == "" {
			bad.add(f.Name, errors.New("the value is empty; leave the flag out, or give it one"))
		}
	})
	return bad.err()
}

// sessionRef turns last~N, the N-th session before the last one, into the store's own form, which
// looks like a flag on a command line.
func sessionRef(ref string) string {
	n, ok := strings.CutPrefix(ref, "last~")
	if i, err := strconv.Atoi(n); ok && err == nil && i >= 0 {
		return strconv.Itoa(-1 - i)
	}
	return ref
}

// helpCommand is cobra's help command, but with an error for an unknown command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND...]", Short: "the help of a command", Example: "  linerate help run\n  linerate help exit-codes",
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return commandNames(cmd.Root(), ""), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			pages, err := helpPages(cmd.Root(), args)
			for i, page := range pages {
				if i > 0 {
					cmd.Println()
				}
				page.InitDefaultHelpFlag()
				err = errors.Join(err, page.Help())
			}
			return err
		},
	}
}

func (a *console) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use: "completion SHELL", Short: "print a completion script for a shell",
		Long: `completion prints a script for bash, zsh, fish or powershell that completes
commands and flags, hosts of ssh, settings and their values, keys of a lab and
stored sessions. It makes no connection. Load it in the shell's start file.`,
		Example: `  linerate completion bash > ~/.local/share/bash-completion/completions/linerate
  linerate completion zsh > "${fpath[1]}/_linerate"
  linerate completion fish > ~/.config/fish/completions/linerate.fish
  linerate completion powershell`,
		ValidArgs: shells, Args: exactArgs("the name of a shell"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.Out, true)
			case "zsh":
				return root.GenZshCompletion(a.Out)
			case "fish":
				return root.GenFishCompletion(a.Out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.Out)
			}
			return fault.WithHint(fault.Usagef("no completion for %q", args[0]), "%sknown shells are bash, zsh, fish and powershell", meantWord(args[0], shells))
		},
	}
}

// helpPages returns the commands that args name: each word is a subcommand of the one before, or
// starts a new one.
func helpPages(root *cobra.Command, args []string) ([]*cobra.Command, error) {
	if len(args) == 0 {
		return []*cobra.Command{root}, nil
	}
	var pages []*cobra.Command
	at := root
	for _, name := range args {
		below := func(c *cobra.Command) *cobra.Command {
			if i := slices.IndexFunc(c.Commands(), func(c *cobra.Command) bool { return c.Name() == name }); i >= 0 {
				return c.Commands()[i]
			}
			return nil
		}
		if next := below(at); next != nil {
			if at != root {
				pages = pages[:len(pages)-1]
			}
			at = next
		} else if at = below(root); at == nil {
			last := root
			if len(pages) > 0 && pages[len(pages)-1].HasSubCommands() {
				last = pages[len(pages)-1]
			}
			return nil, unknownCommand(last, name)
		}
		pages = append(pages, at)
	}
	return pages, nil
}

// durationFlag is a flag with a duration, in the format of package units.
type durationFlag struct{ to *time.Duration }

// Set implements pflag.Value.
func (d durationFlag) Set(text string) error {
	v, err := units.ParseDuration(text)
	if err == nil {
		*d.to = v
	}
	return err
}

// String implements pflag.Value.
func (d durationFlag) String() string {
	if d.to == nil {
		return ""
	}
	return units.FormatDuration(*d.to)
}

// Type implements pflag.Value.
func (d durationFlag) Type() string { return "time" }

// fitHelp wraps the paragraphs of a command's help at 80 columns if they are longer: a terminal
// would break them inside words.
func fitHelp(c *cobra.Command) {
	var out, paragraph []string
	flush := func() {
		if slices.ContainsFunc(paragraph, func(l string) bool { return utf8.RuneCountInString(l) > helpWidth }) {
			paragraph = term.Wrap(strings.Join(paragraph, " "), helpWidth, helpWidth)
		}
		out, paragraph = append(out, paragraph...), nil
	}
	for l := range strings.SplitSeq(c.Long, "\n") {
		if l == "" || l[0] == ' ' {
			flush()
			out = append(out, l)
			continue
		}
		paragraph = append(paragraph, l)
	}
	flush()
	c.Long = strings.Join(out, "\n")
}

const helpWidth = 80
