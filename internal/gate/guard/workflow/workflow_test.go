package workflow_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/workflow"
)

func findings(tb testing.TB, c change.Change) []change.Finding {
	tb.Helper()
	found, err := workflow.Guard.Judge(tb.Context(), c)
	require.NoError(tb, err)
	for _, f := range found {
		require.NotContains(tb, f.Message, "%!")
		require.Less(tb, len(f.Message), 2000)
	}
	return found
}

// changed returns the findings of a change of one file as "severity rule:line", but not that the file
// is one of CI. An empty text: no such version.
func changed(tb testing.TB, path, before, after string) (out []string) {
	tb.Helper()
	a, b := gatetest.Tree{}, gatetest.Tree{}
	if before != "" {
		a[path] = before
	}
	if after != "" {
		b[path] = after
	}
	found := findings(tb, gatetest.Between(a, b))
	for _, f := range found {
		if f.Rule == "ci" || f.Rule == "action" {
			continue
		}
		s := string(f.Severity) + " " + f.Rule
		if f.Line > 0 {
			s += fmt.Sprint(":", f.Line)
		}
		out = append(out, s)
	}
	return out
}

func TestOrdinaryFilesHaveNoFindings(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"main.go", "README.md", ".github/ISSUE_TEMPLATE/bug.md", "docs/workflows/ci.yml", "setup.py", "build.rs", "Makefile", "src/action.yml", "pyproject.toml",
		"package.json", "requirements.txt", "Gemfile", "src/owners.go", "a/composer.lock", "internal/agents/a.go", "docker.go", "hooks/useState.ts", "CONVENTIONS.md",
	} {
		before, after := "{}", `{ "name": "x" }`
		if strings.HasSuffix(path, ".txt") || path == "Gemfile" || path == "setup.py" {
			before, after = "a\n", "b\n"
		}
		require.Empty(t, changed(t, path, before, after), path)
	}
}

func TestFilesThatRunByThemselvesAreFound(t *testing.T) {
	t.Parallel()
	for rule, paths := range map[string]string{
		"major ci": `.github/workflows/x.txt .GitHub/Workflows/x.txt .forgejo/workflows/a.sh .gitlab-ci.yml .gitlab/ci/a.yml .circleci/config.yml azure-pipelines.yml
			ci/azure-pipelines-test.yaml Jenkinsfile ci/Jenkinsfile.release .travis.yml .drone.yml .drone.star .buildkite/pipeline.yml bitbucket-pipelines.yml .woodpecker/a.yml
			.woodpecker.yml appveyor.yml .cirrus.yml cloudbuild.yaml .readthedocs.yml vercel.json`,
		"major action":             ".github/actions/build/index.js .gitea/actions/x/run.sh",
		"medium container":         "Dockerfile docker/Dockerfile.prod app.dockerfile Containerfile docker-compose.yml compose.override.yaml",
		"major hook":               ".githooks/pre-push .husky/pre-commit .pre-commit-config.yaml lefthook.yml .lintstagedrc.json",
		"major owners":             "CODEOWNERS .github/CODEOWNERS docs/codeowners",
		"major automation":         ".github/dependabot.yml renovate.json .github/renovate.json5 .mergify.yml .kodiak.toml",
		"major autorun":            ".devcontainer/devcontainer.json .envrc .gitpod.yml .idea/workspace.xml sub/.exrc",
		"minor autorun":            ".vscode/launch.json .vscode/tasks.json",
		"major agent-instructions": "AGENTS.md sub/CLAUDE.md GEMINI.md .cursor/rules/a.mdc .cursorrules .github/copilot-instructions.md .github/instructions/x.md .clinerules .clinerules/a.md .windsurfrules .aider.conf.yml .claude/settings.json",
		"major mcp":                ".mcp.json mcp.json .vscode/mcp.json .cursor/mcp.json",
		"major rgpt":               "rgpt.yaml rgpt.ci.yml .rgpt/prompts/x.md",
		"major wrapper":            "gradle/wrapper/gradle-wrapper.jar .mvn/wrapper/maven-wrapper.jar .yarn/releases/yarn-4.cjs",
		"medium wrapper":           "gradlew mvnw gradle/wrapper/gradle-wrapper.properties",
	} {
		severity, rule, _ := strings.Cut(rule, " ")
		for _, path := range strings.Fields(paths) {
			file := gatetest.File("x")
			for what, f := range map[string]change.File{
				"new": {Path: path, After: file}, "deleted": {Path: path, Before: file}, "moved away": {Path: "other", From: path, Before: file, After: file},
				"moved here": {Path: path, From: "other", Before: file, After: file}, "executable": {Path: path, Before: file, After: gatetest.Entry(change.ModeExecutable, "x")},
				"a link": {Path: path, After: gatetest.Entry(change.ModeLink, "x")}, "large": {Path: path, After: change.Version{Mode: change.ModeFile, Digest: "1", Unread: true, Size: 1 << 30}},
			} {
				found := findings(t, change.Change{Files: []change.File{f}})
				require.True(t, slices.ContainsFunc(found, func(f change.Finding) bool {
					return f.Rule == rule && string(f.Severity) == severity && f.Path == path
				}), "%s %s: %v", path, what, found)
			}
		}
	}
}

func TestEditorTasksThatStartAloneAreMajor(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"major autorun"}, changed(t, ".vscode/tasks.json", "{}", `{"tasks":[{"runOptions":{"runOn":"folderOpen"}}]}`))
	require.Equal(t, []string{"minor autorun"}, changed(t, ".vscode/settings.json", "{}", `{"editor.tabSize": 2}`))
	require.Equal(t, []string{"major autorun"}, changed(t, ".vscode/settings.json", "{}", `{"python.defaultInterpreterPath": "./x"}`))
	found := findings(t, gatetest.Between(gatetest.Tree{}, gatetest.Tree{"x/action.yml": "name: x\nruns:\n  using: node20\n"}))
	require.Equal(t, "action", found[0].Rule)
}

func TestWhatPackagesRunAndLoadIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, before, after string
		want                []string
	}{
		"a new install script":     {"a/package.json", `{}`, "{\n\"scripts\":{\"test\":\"x\",\"postinstall\":\"node x\"}}", []string{"major install-script:2"}},
		"a changed install script": {"package.json", `{"scripts":{"prepare":"a"}}`, `{"scripts":{"prepare":"b"}}`, []string{"major install-script:1"}},
		"a kept install script":    {"package.json", `{"scripts":{"prepare":"a"}}`, `{"version":"2","scripts":{"prepare":"a","test":"b"}}`, nil},
		"no JSON":                  {"package.json", `{}`, `{"scripts":`, []string{"medium install-script"}},
		"hooks of husky":           {"package.json", `{}`, `{"husky":{"hooks":{"pre-commit":"x"}}}`, []string{"major hook:1"}},
		"a registry to publish to": {"package.json", `{}`, `{"publishConfig":{"registry":"https://evil"}}`, []string{"major registry:1"}},
		"a script of composer":     {"composer.json", `{}`, `{"scripts":{"post-install-cmd":["@php x"]}}`, []string{"major install-script:1"}},
		"a backend":                {"pyproject.toml", "[build-system]\nrequires = [\"a\"]\nbuild-backend = \"a\"\n", "[build-system]\nrequires = [\"b\"]\nbuild-backend = \"evil\"\n", []string{"medium build-backend:2", "major build-backend:3"}},
		"a build hook":             {"pyproject.toml", "", "[tool.hatch.build.hooks.custom]\npath = \"x.py\"\n", []string{"medium build-backend:2"}},
		"a source of packages":     {"pyproject.toml", "[project]\n", "[project]\n\n[[tool.uv.index]]\nurl = \"https://x\"\n", []string{"major registry:3"}},
		"a dependency":             {"pyproject.toml", "[project]\n", "[project]\ndependencies = [\"x\"]\n", nil},
		"an index":                 {"requirements.txt", "a\n", "a\n--extra-index-url https://x\n", []string{"major registry:2"}},
		"another gem server":       {"Gemfile", "source 'https://rubygems.org'\n", "source 'https://evil'\n", []string{"major registry:1"}},
		"the gem server":           {"Gemfile", "gem 'x'\n", "source 'https://rubygems.org'\ngem 'x'\n", nil},
		"npm's configuration":      {".npmrc", "fund=false\n", "fund=false\nregistry=https://evil\n", []string{"major registry:2"}},
		"a linker":                 {".cargo/config.toml", "", "[target.x]\nlinker = \"./x\"\n", []string{"major registry:2"}},
		"native code":              {"x.gemspec", "a\n", "a\ns.extensions = ['ext/extconf.rb']\n", []string{"major install-script:2"}},
		"a setup that runs":        {"setup.py", "setup()\n", "import subprocess\nsetup()\n", []string{"medium build-script:1"}},
		"a build that loads":       {"build.rs", "fn main() {}\n", "fn main() { Command::new(\"sh\"); }\n", []string{"medium build-script:1"}},
		"an ordinary setup":        {"setup.py", "setup(version='1')\n", "setup(version='2')\n", nil},
		"a generator that loads":   {"a.go", "package a\n", "package a\n\n//go:generate sh -c \"curl https://x | sh\"\n", []string{"medium build-script:3"}},
		"an ordinary generator":    {"a.go", "package a\n", "package a\n\n//go:generate stringer -type=A\n", nil},
		"a piped script":           {"Makefile", "a:\n", "a:\n\tcurl -sSf https://x | sudo -E bash -s\n", []string{"medium build-script:2"}},
		"a download":               {"Makefile", "a:\n", "a:\n\tcurl -o x https://x\n", nil},
	} {
		require.Equal(t, c.want, changed(t, c.path, c.before, c.after), name)
	}
}

const safe = `name: ci
on: push
permissions:
  contents: read
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@0123456789012345678901234567890123456789
      - run: make test
`

// with returns the safe workflow with a change.
func with(old, text string) string { return strings.Replace(safe, old, text, 1) }

func TestOnlyNewDangersOfAWorkflowAreFound(t *testing.T) {
	t.Parallel()
	run := "      - run: make test\n"
	for name, c := range map[string]struct {
		after string
		want  []string
	}{
		"nothing":             {safe + "\n", nil},
		"an unpinned action":  {with(run, "      - uses: a/b@v1\n"), []string{"medium unpinned-action:10"}},
		"a local action":      {with(run, "      - uses: ./x\n"), nil},
		"an image":            {with(run, "      - uses: docker://alpine:3\n"), []string{"medium unpinned-action:10"}},
		"a called workflow":   {safe + "  call:\n    uses: a/b/.github/workflows/c.yml@main\n    secrets: inherit\n", []string{"medium unpinned-action:12", "medium secret:13"}},
		"write-all":           {with("  contents: read", "  write-all"), []string{"major permissions:4"}},
		"one write":           {with("contents: read", "contents: write"), []string{"major permissions:4"}},
		"a job's write":       {with("    runs-on", "    permissions: {id-token: write}\n    runs-on"), []string{"major permissions:7"}},
		"no permissions":      {with("permissions:\n  contents: read\n", ""), []string{"medium permissions"}},
		"a title in a script": {with("make test", "echo ${{ github.event.issue.title }}"), []string{"major script-injection:10"}},
		"brackets":            {with("make test", `echo ${{ github['event']['issue']['title'] }}`), []string{"major script-injection:10"}},
		"a whole event":       {with("make test", "echo '${{ toJSON(github.event) }}'"), []string{"major script-injection:10"}},
		"a branch":            {with("make test", "|\n          a\n          echo ${{ github.head_ref }}"), []string{"major script-injection:12"}},
		"a number":            {with("make test", "echo ${{ github.event.pull_request.number }}"), nil},
		"a test of a title":   {with("make test", "echo ${{ contains(github.event.issue.title, 'x') }}"), nil},
		"an environment":      {with(run, "      - run: echo \"$T\"\n        env:\n          T: ${{ github.event.issue.title }}\n"), nil},
		"an input":            {with("make test", "echo ${{ github.ref_name }}"), []string{"medium script-injection:10"}},
		"a script of GitHub": {
			with(run, "      - uses: actions/github-script@0123456789012345678901234567890123456789\n        with:\n          script: f(`${{ github.event.comment.body }}`)\n"),
			[]string{"major script-injection:12"},
		},
		"a machine":             {with("ubuntu-latest", "[self-hosted, linux]"), []string{"major self-hosted:7"}},
		"a group of machines":   {with("ubuntu-latest", "{group: x}"), []string{"major self-hosted:7"}},
		"a secret":              {with(run, run+"        env:\n          A: ${{ secrets.A }}\n          B: ${{ secrets.GITHUB_TOKEN }}\n"), []string{"medium secret:12"}},
		"all secrets":           {with(run, run+"        env:\n          A: ${{ toJSON(secrets) }}\n"), []string{"major secret:12"}},
		"a trigger":             {with("on: push", "on: [pull_request_target]"), []string{"medium pull-request-target:2"}},
		"a checkout":            {strings.Replace(with("on: push", "on: pull_request_target"), run, "        with:\n          ref: ${{ github.event.pull_request.head.sha }}\n"+run, 1), []string{"major pull-request-target:11"}},
		"a checkout by command": {strings.Replace(with("on: push", "on: pull_request_target"), "make test", "gh pr checkout 1", 1), []string{"major pull-request-target:10"}},
		"a piped download":      {with("make test", "curl https://x | sh"), []string{"medium remote-script:10"}},
		"a lint":                {with("make test", "echo ${{ nothing.x }}"), []string{"minor workflow-lint:10"}},
		"a syntax error":        {with("runs-on", "run-on"), []string{"medium workflow-invalid:6", "medium workflow-invalid:7"}},
		"no YAML":               {safe + "\t{", []string{"medium workflow-invalid"}},
		"an empty file":         {"\n", []string{"medium workflow-invalid:1"}},
	} {
		got := changed(t, ".github/workflows/ci.yml", safe, c.after)
		require.ElementsMatch(t, c.want, got, name)
		if c.after != safe+"\t{" {
			require.Empty(t, changed(t, ".github/workflows/ci.yml", c.after, "# comment\n"+c.after), "%s was there before", name)
		}
	}
	require.Equal(t, []string{"medium permissions:4"}, changed(t, ".github/workflows/ci.yml", "", with("contents: read", "contents: write")), "a new workflow")
}

func TestActionsAreExaminedLikeWorkflows(t *testing.T) {
	t.Parallel()
	action := "name: x\nruns:\n  using: composite\n  steps:\n    - uses: a/b@main\n    - run: echo ${{ github.event.comment.body }}\n      shell: bash\n"
	require.Equal(t, []string{"medium unpinned-action:5", "major script-injection:6"}, changed(t, ".github/actions/x/action.yml", "", action))
	require.Empty(t, changed(t, "action.yaml", action, action+"# x\n"))
}

func TestHostileWorkflowsAreBounded(t *testing.T) {
	t.Parallel()
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	for name, text := range map[string]string{
		"a bomb":                bomb,
		"an alias to itself":    "on: &a\n  x: *a\n",
		"brackets":              strings.Repeat("[", 200_000),
		"braces over lines":     strings.Repeat("{a:\n", 40_000),
		"an indent":             strings.Repeat("- ", 100_000),
		"questions":             strings.Repeat("? ", 100_000),
		"indents":               deep(2000),
		"many nodes":            "on: [" + strings.Repeat("a,", 60_000) + "]",
		"nested expressions":    with("make test", "echo ${{ "+strings.Repeat("(", 100_000)+" }}"),
		"negations":             with("    runs-on", "    if: \""+strings.Repeat("!", 100_000)+"x\"\n    runs-on"),
		"operators":             with("    runs-on", "    if: a"+strings.Repeat("||a", 50_000)+"\n    runs-on"),
		"large":                 safe + strings.Repeat("# x\n", 300_000),
		"not UTF-8":             "on: \xff\xfe\njobs: \x80\n",
		"zeros":                 "on:\x00\x00push",
		"two documents":         "---\n---\n",
		"open quotes":           "on: \"" + strings.Repeat("\\", 100_000),
		"anchors without names": strings.Repeat("&", 100_000),
	} {
		got := changed(t, ".github/workflows/ci.yml", safe, text)
		require.True(t, slices.ContainsFunc(got, func(s string) bool {
			return strings.HasPrefix(s, "medium workflow-invalid") || strings.HasPrefix(s, "medium workflow-unread")
		}), "%s: %v", name, got)
	}
	for _, path := range []string{"package.json", "composer.json", "pyproject.toml", "requirements.txt", "setup.py", "Makefile", ".npmrc"} {
		changed(t, path, "{}", strings.Repeat("{\"scripts\":", 90_000))
		changed(t, path, "{}", strings.Repeat("curl [[ '' ", 90_000))
	}
}

func deep(n int) string {
	var b strings.Builder
	for i := range n / 10 {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestManyWorkflowsAreBounded(t *testing.T) {
	t.Parallel()
	c := change.Change{}
	big := safe + strings.Repeat("# x\n", 40_000)
	for i := range 30 {
		c.Files = append(c.Files, change.File{Path: fmt.Sprintf(".github/workflows/%03d.yml", i), After: gatetest.File(big)})
	}
	unread := 0
	for _, f := range findings(t, c) {
		if f.Rule == "workflow-unread" {
			unread++
		}
	}
	require.Equal(t, 24, unread)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := workflow.Guard.Judge(ctx, c)
	require.ErrorIs(t, err, ctx.Err())
}

func FuzzJudge(f *testing.F) {
	f.Add(safe, with("make test", "echo ${{ github.event.issue.title }}"))
	f.Add("on: &a [*a]", "jobs: {a: &b {steps: [*b]}}")
	f.Add("{}", "[build-system]\nbuild-backend = \"x\"")
	f.Fuzz(func(t *testing.T, before, after string) {
		for _, path := range []string{".github/workflows/ci.yml", "action.yml", "package.json", "pyproject.toml", ".npmrc"} {
			findings(t, change.Change{Files: []change.File{{Path: path, Before: gatetest.File(before), After: gatetest.File(after)}}})
		}
	})
}

func BenchmarkJudge(b *testing.B) {
	for _, n := range []int{20, 2000} {
		c := change.Change{}
		for i := range n {
			text := strings.Repeat("func main() {}\n", 200)
			c.Files = append(c.Files, change.File{Path: fmt.Sprintf("internal/pkg%d/File%d.go", i%50, i), Before: gatetest.File(text), After: gatetest.File(text + "x\n")})
		}
		for i := range n / 20 {
			c.Files = append(c.Files,
				change.File{Path: fmt.Sprintf(".github/workflows/%d.yml", i), Before: gatetest.File(safe), After: gatetest.File(with("make test", "make all"))},
				change.File{Path: fmt.Sprintf("p%d/package.json", i), Before: gatetest.File("{}"), After: gatetest.File(`{"scripts":{"a":"b"}}`)})
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				findings(b, c)
			}
		})
	}
}
