package workflow

import (
	"bytes"
	"path"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/glob"
)

// kind is a kind of file that runs by itself, or decides what does.
type kind struct {
	rule     string
	severity contract.Severity
	says     string
	paths    glob.Set
	// only, if set, decides by one of the versions of the file.
	only func(content []byte) bool
}

func kindOf(rule string, severity contract.Severity, says string, patterns ...string) kind {
	return kind{rule: rule, severity: severity, says: says, paths: glob.NewSet(patterns...)}
}

// kinds are all kinds, in lower case. The first that matches a path counts.
var kinds = []kind{
	kindOf("agent-instructions", contract.SeverityMajor, "instructs coding agents",
		"**/{agents,agent,claude,gemini,codex,qwen,conventions.aider}.md", "**/{agents,claude}.local.md", "**/.cursor/rules/**", "**/.cursorrules", "**/.cursorignore",
		".github/copilot-instructions.md", ".github/{instructions,prompts,chatmodes,agents}/**", "**/.clinerules{,/**}", "**/.roo{rules*,modes,/**}", "**/.windsurfrules", "**/.windsurf/**",
		"**/.aider*", "**/.junie/**", "**/.goosehints", "**/.continue/**", "**/.claude/**", "**/.gemini/**", "**/.codex/**", "**/.amazonq/**", "**/.augment{/**,-guidelines}",
		"**/.kiro/**", "**/.trae/**", "**/.openhands/**", "**/.rules", "**/skill.md"),
	kindOf("mcp", contract.SeverityMajor, "gives tools to coding agents",
		"**/{,.}mcp.json", "**/mcp.{yml,yaml}", "**/.vscode/mcp.json", "**/.cursor/mcp.json", "**/mcp_config.json", "**/claude_desktop_config.json", "**/.cursor/**", "**/opencode.json{,c}"),
	kindOf("rgpt", contract.SeverityMajor, "configures RocketGPT", "**/rgpt.{,*.}{yml,yaml}", "**/.rgpt/**"),
	kindOf("owners", contract.SeverityMajor, "lists who must review changes", "**/codeowners", "**/owners", "**/owners_aliases", ".github/settings.{yml,yaml}"),
	kindOf("automation", contract.SeverityMajor, "configures a bot that changes or merges code",
		".github/dependabot.{yml,yaml}", ".github/auto{-,}merge*.{yml,yaml}", ".github/mergify.yml", ".mergify.yml", ".mergify/**", "**/{,.}renovaterc*", "**/renovate.json{,5}",
		".github/renovate*", ".kodiak.toml", ".bors.toml", "bors.toml", ".github/{kodiak,bulldozer,policy-bot,stale}.{toml,yml}", ".bulldozer.yml", ".policy.yml"),
	kindOf("ci", contract.SeverityMajor, "is run by CI",
		".{github,forgejo,gitea}/workflows/**", ".github/actionlint.{yml,yaml}", ".gitlab-ci*", ".gitlab/**", ".gitlab-ci/**", "**/.gitlab-ci.{yml,yaml}", ".circleci/**", ".buildkite/**",
		"**/azure-pipelines*.{yml,yaml}", "{,.}azure-pipelines/**", "**/jenkinsfile*", ".jenkins{,x}/**", ".jenkins.{yml,yaml}", ".travis.{yml,yaml}", ".travis/**", ".drone.{yml,yaml,star,jsonnet}",
		"**/bitbucket-pipelines.{yml,yaml}", ".woodpecker*", ".woodpecker/**", "{,.}appveyor.{yml,yaml}", ".cirrus*", ".semaphore/**", ".teamcity/**", ".builds/**", ".build.yml",
		".tekton/**", ".harness/**", "{,.}bitrise.{yml,yaml}", "{,.}codemagic.{yml,yaml}", "{,.}codefresh.{yml,yaml}", "codeship-*.yml", "{,.}wercker.yml", "screwdriver.{yml,yaml}",
		"**/cloudbuild*.{yml,yaml,json}", "**/buildspec*.{yml,yaml}", ".evergreen.{yml,yaml}", ".taskcluster.yml", "taskcluster/**", "{,.}zuul.{yml,yaml}", "{,.}zuul.d/**", ".prow/**", ".prow.{yml,yaml}",
		".vsts-ci.{yml,yaml}", "concourse/**", "{,.}gocd.{yml,yaml}", "**/*.gocd.{yml,yaml}", ".netlify/**", "netlify.toml", "vercel.json", "amplify.yml", "render.{yml,yaml}",
		".readthedocs.{yml,yaml}", ".goreleaser.{yml,yaml}", ".copr/**", ".packit.{yml,yaml}"),
	kindOf("action", contract.SeverityMajor, "is an action that workflows run", ".{github,forgejo,gitea}/actions/**"),
	{
		rule: "action", severity: contract.SeverityMajor, says: "is an action that workflows run", paths: glob.NewSet("**/action.{yml,yaml}"),
		only: func(content []byte) bool {
			return bytes.Contains(content, []byte("\nruns:")) || bytes.HasPrefix(content, []byte("runs:"))
		},
	},
	kindOf("hook", contract.SeverityMajor, "runs at git commands of developers",
		"**/.{git,}hooks/**", "**/.git-hooks/**", "**/.husky/**", "**/.huskyrc*", "**/.pre-commit-config.{yml,yaml}", ".pre-commit-hooks.{yml,yaml}", "{,.}lefthook*.{yml,yaml,toml,json}",
		".lefthook/**", ".overcommit.yml", ".simple-git-hooks.*", "**/.lintstagedrc*", "**/lint-staged.config.*", "captainhook.json", "grumphp.yml", "commitlint.config.*", "hk.pkl"),
	kindOf("autorun", contract.SeverityMajor, "runs when a developer opens the repository",
		"**/.devcontainer/**", "**/{,.}devcontainer.json", "**/.envrc", "**/.direnv/**", "**/.gitpod.{yml,dockerfile}", ".idx/**", "**/.exrc", "**/.nvimrc", "**/.nvim.lua", "**/.vimrc", "**/.dir-locals{,-2}.el",
		"**/{,.}mise{,.local}.toml", ".mise/**", "**/.zed/tasks.json", "**/.idea/{startup,workspace}.xml", "**/.idea/runconfigurations/**", "sitecustomize.py", "**/usercustomize.py", "**/*.pth"),
	{
		rule: "autorun", severity: contract.SeverityMajor, says: "runs a task when a developer opens the folder", paths: glob.NewSet("**/.vscode/tasks.json", "**/*.code-workspace"),
		only: func(content []byte) bool { return bytes.Contains(bytes.ToLower(content), []byte("folderopen")) },
	},
	{
		rule: "autorun", severity: contract.SeverityMajor, says: "sets programs that an editor runs", paths: glob.NewSet("**/.vscode/settings.json"),
		only: func(content []byte) bool {
			lower := bytes.ToLower(content)
			for _, key := range []string{"automatictasks", "terminal.integrated", "path\"", "interpreter", "executable", "mcp", "autoapprove", ".tools", "command"} {
				if bytes.Contains(lower, []byte(key)) {
					return true
				}
			}
			return false
		},
	},
	kindOf("autorun", contract.SeverityMinor, "defines tasks that a developer can start", "**/.vscode/{tasks,launch,settings}.json", "**/*.code-workspace"),
	kindOf("wrapper", contract.SeverityMajor, "is a program that loads and runs a build tool",
		"**/gradle-wrapper.jar", "**/.mvn/wrapper/*.{jar,java}", "**/.mvn/{extensions.xml,jvm.config,maven.config}", "**/.yarn/{releases,plugins}/**", "**/.pnpmfile.{cjs,mjs}", "**/pnpmfile.js", "**/.pnp.{cjs,loader.mjs}"),
	kindOf("wrapper", contract.SeverityMedium, "loads and runs a build tool", "**/gradlew{,.bat}", "**/mvnw{,.cmd}", "**/{gradle,maven}-wrapper.properties"),
	kindOf("container", contract.SeverityMedium, "decides what runs in a container",
		"**/{dockerfile,containerfile}*", "**/*.{dockerfile,containerfile}", "**/{docker-,}compose*.{yml,yaml}", "**/docker-bake.{hcl,json}"),
}

// kind reports what a path is.
func (j *judge) kind(f change.File, p string) {
	lower, folded := strings.ToLower(p), change.Fold(p)
	for _, k := range kinds {
		if !k.paths.Match(lower) && (folded == lower || !k.paths.Match(folded)) {
			continue
		}
		if k.only != nil && !k.only(f.Before.Content) && !k.only(f.After.Content) {
			continue
		}
		j.add(k.rule, k.severity, p, 0, "%s %s %s; a person should approve that", change.Clean(p), k.says, verb(f))
		return
	}
}

// verb says what happens to a file.
func verb(f change.File) string {
	switch {
	case f.Added():
		return "and is new"
	case f.Deleted():
		return "and is deleted"
	case f.From != "" && f.Before.Digest == f.After.Digest:
		return "and is moved"
	}
	return "and changes"
}

var workflowDirs = []string{".github/", ".forgejo/", ".gitea/"}

// isWorkflow reports whether a path, in lower case, is that of a workflow or an action.
func isWorkflow(lower string) bool {
	if ext := path.Ext(lower); ext != ".yml" && ext != ".yaml" {
		return false
	}
	if base := path.Base(lower); base == "action.yml" || base == "action.yaml" {
		return true
	}
	for _, dir := range workflowDirs {
		if strings.HasPrefix(lower, dir+"workflows/") {
			return true
		}
	}
	return false
}
