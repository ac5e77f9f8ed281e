package cli

import "github.com/spf13/cobra"

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
