package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"linerate/internal/app"
)

// exactArgs demands one argument for each name, with the exit code and the hint
// of a mistake of the user.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		if len(names) == 0 {
			return argsFault(cmd, "takes no arguments", args)
		}
		return argsFault(cmd, "takes "+strings.Join(names, " and "), args)
	}
}

// atMostOne demands no argument, or the one that name names.
func atMostOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= 1 {
			return nil
		}
		return argsFault(cmd, "takes at most "+name, args)
	}
}

func argsFault(cmd *cobra.Command, takes string, args []string) error {
	got := "got none"
	if len(args) > 0 {
		got = "got " + strconv.Quote(strings.Join(args, " "))
	}
	return withHint(usagef("%s %s, %s", cmd.Name(), takes, got), "see %s --help", cmd.CommandPath())
}

// knownCommand is what the root says to words that are no command.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := usagef("unknown command %q", args[0])
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return withHint(err, "did you mean linerate %s?", strings.Join(near, " or linerate "))
	}
	return withHint(err, "see linerate --help")
}

// flagFault says what is wrong with a flag, and which one may have been meant.
func flagFault(cmd *cobra.Command, err error) error {
	err = app.WithKind(app.Usage, err)
	text := err.Error()
	if _, shorthand, ok := strings.Cut(text, "unknown shorthand flag: "); ok && shorthand[1] >= '0' && shorthand[1] <= '9' {
		return withHint(err, "the session before the last one is written last~1; see %s --help", cmd.CommandPath())
	}
	return withHint(err, "see %s --help", cmd.CommandPath())
}

// sessionRef turns last~N, the N-th session before the last one, into the
// store's own word for it, which looks like a flag on a command line.
func sessionRef(ref string) string {
	n, ok := strings.CutPrefix(ref, "last~")
	if i, err := strconv.Atoi(n); ok && err == nil && i >= 0 {
		return strconv.Itoa(-1 - i)
	}
	return ref
}

// helpCommand is cobra's, with an error for what does not exist.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "the help of a command", Example: "  linerate help run\n  linerate help exit-codes",
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, c := range cmd.Root().Commands() {
				if !c.Hidden {
					names = append(names, c.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return knownCommand(cmd.Root(), args)
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

func (a *console) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use: "completion SHELL", Short: "print a completion script for a shell",
		Long: `completion prints a script for bash, zsh, fish or powershell that completes
commands and flags. Load it in the shell's start file.`,
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
			return withHint(usagef("no completion for %q", args[0]), "known shells are bash, zsh, fish and powershell")
		},
	}
}
