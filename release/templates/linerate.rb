cask "linerate" do
  arch arm: "arm64", intel: "amd64"

  version {{quoted .Version}}
  sha256 arm:   "{{.Sum "darwin" "arm64"}}",
         intel: "{{.Sum "darwin" "amd64"}}"

  url "{{.URLOf "darwin" "#{arch}" "#{version}"}}"
  name {{quoted .Name}}
  desc {{quoted .Summary}}
  homepage {{quoted .Homepage}}

  binary "linerate-#{version}-darwin-#{arch}/linerate"
{{- range .Pages}}
  manpage "linerate-#{version}-darwin-#{arch}/{{.}}"
{{- end}}
  bash_completion "linerate-#{version}-darwin-#{arch}/completions/linerate.bash"
  zsh_completion "linerate-#{version}-darwin-#{arch}/completions/_linerate"
  fish_completion "linerate-#{version}-darwin-#{arch}/completions/linerate.fish"

  # Results and settings are the user's: they stay, unless brew is told --zap.
  zap trash: [
    "~/Library/Application Support/linerate",
  ]
end
