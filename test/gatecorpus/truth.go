package main

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// justified reports whether a harmless commit really does what an alarm asks about, by rules that do
// not use the code of the guards. An alarm of any other kind is a false one:
//
//   - secrets and syntax: never; the commits count as free of secrets and of broken files.
//   - labels: never; the commits have ordinary labels.
//   - rewrite: the file is one of those that run by themselves (see workflow) or an editor's folder;
//     or it is a licence; or the entry changes its kind or permission; or it is binary; or it is in a
//     folder with the code of others; or a line with a copyright or licence notice disappears; or it
//     is a submodule or sets git's attributes; or the finding is about the amount of the change.
//   - workflow: the file is one of those that CI, git, an editor, an agent or a package manager runs
//     or obeys; or the change adds a line with a script of an installation, a registry or a build
//     backend to a manifest.
//   - tests: the file, before the change, has more lines that begin a test, or more lines that check
//     something, than after it; or no line that begins a test has the name of the test that is said to
//     be deleted any more; or the change adds a line that skips a test or ignores a result; or the
//     file configures which tests run.
//   - dependencies: the change adds a line to the file with what the rule is about, such as a git URL.
//   - refactor: the change removes or changes a line that declares the name in the message, or an
//     import of the package of its old type.
//   - injection: a line really has such characters; or the file has instructions for agents by its name.
func justified(c change.Change, f change.Finding) bool {
	var file change.File
	for _, x := range c.Files {
		if slices.Contains(x.Paths(), f.Path) {
			file = x
			break
		}
	}
	switch f.Guard {
	case "rewrite":
		return justifiedRewrite(file, f)
	case "workflow":
		return justifiedWorkflow(file, f)
	case "tests":
		return justifiedTests(file, f)
	case "dependencies":
		return justifiedDependency(file, f)
	case "refactor":
		return justifiedRefactor(c, f)
	case "injection":
		return justifiedInjection(file, f)
	}
	return false
}

// runs matches the paths of files that run by themselves or are obeyed, in lower case.
var runs = regexp.MustCompile(`^\.(github|gitlab|circleci|buildkite|forgejo|gitea|azure-pipelines|teamcity|semaphore|husky|githooks|devcontainer|claude|cursor|vscode|idea|rgpt|mvn|yarn|netlify)/` +
	`|(^|/)(\.husky|\.vscode|\.idea|\.devcontainer|\.cursor|\.claude|\.mvn|\.yarn|hooks|azure-pipelines)/` +
	`|(^|/)(\.gitlab-ci|\.travis|\.?appveyor|\.cirrus|\.drone|jenkinsfile|azure-pipelines|bitbucket-pipelines|buildspec|cloudbuild|netlify\.toml|vercel\.json|\.readthedocs|\.goreleaser|\.mergify|\.pre-commit|` +
	`lefthook|\.?renovate|codeowners|owners|agents\.md|claude\.md|gemini\.md|copilot-instructions|\.cursorrules|dockerfile|containerfile|(docker-)?compose.*\.ya?ml|action\.ya?ml|\.envrc|\.gitpod|` +
	`.*mcp\.json|gradlew|mvnw|gradle-wrapper|maven-wrapper|\.lintstagedrc|lint-staged|commitlint|\.copr|\.packit|\.dir-locals|\.npmrc|\.yarnrc|\.pnpmfile|pip\.conf|nuget\.config|rgpt\.)`)

var (
	licences = regexp.MustCompile(`(^|/)(un)?(licen[cs]e|copying|notice|copyright)`)
	others   = regexp.MustCompile(`(^|/)(_?vendor(ed)?|node_modules|third[_-]?party|3rdparty|godeps|site-packages)/`)
	notice   = regexp.MustCompile(`(?i)copyright|licen[cs]e|\(c\)`)
)

func justifiedRewrite(f change.File, finding change.Finding) bool {
	lower := strings.ToLower(finding.Path)
	switch finding.Rule {
	case "files", "lines", "size", "file-size", "deletions", "mass-deletion", "unread":
		return true
	case "licence-header":
		_, removed := f.Lines()
		return slices.ContainsFunc(removed, func(l change.Line) bool { return notice.MatchString(l.Text) })
	case "generated":
		return bytes.Contains(bytes.ToLower(f.Before.Content), []byte("generated"))
	case "unread-file":
		return f.After.Unread
	}
	return runs.MatchString(lower) || licences.MatchString(lower) || others.MatchString(lower) || f.After.Binary() ||
		f.Before.Exists() && f.After.Exists() && f.Before.Mode != f.After.Mode || f.After.Exists() && f.After.Mode != change.ModeFile && f.Added() ||
		f.Before.Mode == change.ModeSubmodule || f.After.Mode == change.ModeSubmodule || f.After.Mode == change.ModeLink ||
		strings.HasSuffix(lower, ".gitmodules") || strings.HasSuffix(lower, ".gitattributes")
}

// hooksOfManifests matches a line of a manifest that makes something run or come from elsewhere.
var hooksOfManifests = regexp.MustCompile(`(?i)"(pre|post)?(install|prepare|publish|pack)"|postinstall|preinstall|"prepare"|post-(install|update|autoload)|build-backend|requires\s*=|backend-path|registry|index-url|` +
	`\bcmdclass\b|maven.*repo|repositor|source\s|curl|wget|exec|subprocess|os\.system|Command::new|go:generate|shell|plugins?\b|sh\b`)

func justifiedWorkflow(f change.File, finding change.Finding) bool {
	if runs.MatchString(strings.ToLower(finding.Path)) {
		return true
	}
	return adds(f, hooksOfManifests)
}

// adds reports whether a change adds a line that matches.
func adds(f change.File, pattern *regexp.Regexp) bool {
	return slices.ContainsFunc(f.AddedLines(), func(l change.Line) bool { return pattern.MatchString(l.Text) })
}

// The lines of tests.
var (
	beginsTest = regexp.MustCompile(`(?m)^\s*(func Test|func Fuzz|func Benchmark|func Example|(async )?def test|it\b|test\b|describe\b|specify\b|context\b|scenario\b|@Test|@ParameterizedTest|\[(Fact|Theory|Test)|` +
		`#\[(\w+::)*test|public function test|TEST|SECTION|class \w*Test|test_case|t\.Run|s\.Run|mocha|class Test|should\b|fn test|suite\b|subtest|\{\s*(name|desc|in)|start_server|test_expect|#\[rstest)`)
	checks = regexp.MustCompile(`(?i)\bassert|expect|require\.|should|t\.(error|fatal|fail)|raise|verify|check|refute|must_|\bmatch|assume|is\(|eq\(|compare|==|!=|throws|snapshot|ensure|test_cmp|test_must|warns`)
	skips  = regexp.MustCompile(`(?i)skip|xfail|ignore|disabled|todo|only\b|pending|exclude|xit\b|xtest|xdescribe|\|\| ?true|continue-on-error|platform|go:build|requires|-k |-m |deselect|cfg\(`)
)

func justifiedTests(f change.File, finding change.Finding) bool {
	if f.Deleted() || !f.After.Regular() {
		return true
	}
	lines := func(v change.Version, p *regexp.Regexp) int { return len(p.FindAllIndex(v.Content, -1)) }
	switch finding.Rule {
	case "unreadable":
		return f.After.Unread || f.Before.Unread
	case "lost_subject", "always_passes":
		return false
	}
	if m := deletedTest.FindStringSubmatch(finding.Message); m != nil && declares(f.Before, m[1]) && !declares(f.After, m[1]) {
		return true
	}
	if lines(f.Before, beginsTest) > lines(f.After, beginsTest) || lines(f.Before, checks) > lines(f.After, checks) {
		return true
	}
	return (finding.Rule == "skipped" || finding.Rule == "excluded" || finding.Rule == "never_runs") && adds(f, skips)
}

// deletedTest matches the last part of the name of a test that is gone.
var deletedTest = regexp.MustCompile(`([\w $'"-]+)(?: \[[^\]]*\])? was deleted`)

// declares reports whether a line that begins a test contains a name.
func declares(v change.Version, name string) bool {
	name = strings.TrimSpace(name)
	for line := range strings.Lines(string(v.Content)) {
		if strings.Contains(line, name) && beginsTest.MatchString(line) {
			return true
		}
	}
	return false
}

// about are what the added lines contain if an alarm about dependencies is right.
var about = map[string]*regexp.Regexp{
	"source":         regexp.MustCompile(`(?i)git|://|file:|path|link:|portal:|\.\./|url`),
	"insecure":       regexp.MustCompile(`http://|git://`),
	"registry":       regexp.MustCompile(`(?i)registr|index|://|source|repositor`),
	"replace":        regexp.MustCompile(`=>`),
	"floating":       regexp.MustCompile(`\*|latest|next|dev-|master|main|x|\+|>=`),
	"install-script": regexp.MustCompile(`(?i)install|script`),
	"lifecycle":      regexp.MustCompile(`(?i)install|prepare|post|pre`),
	"integrity":      regexp.MustCompile(`.`),
}

func justifiedDependency(f change.File, finding change.Finding) bool {
	pattern := about[finding.Rule]
	return pattern != nil && adds(f, pattern)
}

// named matches the names in the messages about APIs.
var named = regexp.MustCompile(`^(?:the exported [\w ]+? |the interface )([\w.$#]+) (?:is gone|has changed|requires)|^(.+?) is deleted with|^(.+?), which exports`)

// oldType matches the package of the type that something had.
var oldType = regexp.MustCompile(` instead of [*\[\]]*([\w./-]+/[\w-]+)\.\w`)

// justifiedRefactor looks for the declaration among the lines that the change removes, or adds for a
// requirement.
func justifiedRefactor(c change.Change, finding change.Finding) bool {
	m := named.FindStringSubmatch(finding.Message)
	if m == nil {
		return false
	}
	if m[1] == "" {
		gone := m[2] + m[3]
		return slices.ContainsFunc(c.Files, func(f change.File) bool { return f.Deleted() && f.Path == gone || f.From == gone })
	}
	was := oldType.FindStringSubmatch(finding.Message)
	name := m[1][strings.LastIndexAny(m[1], ".#")+1:]
	word := regexp.MustCompile(`(^|[^\w$])` + regexp.QuoteMeta(name) + `($|[^\w$])`)
	for _, f := range c.Files {
		if path.Ext(f.OldPath()) != path.Ext(finding.Path) {
			continue
		}
		added, removed := f.Lines()
		if finding.Rule == "requires" {
			removed = added
		}
		if slices.ContainsFunc(removed, func(l change.Line) bool {
			text := strings.TrimSpace(l.Text)
			return was != nil && strings.Contains(text, `"`+was[1]+`"`) || word.MatchString(text) && !strings.HasPrefix(text, "//") && !strings.HasPrefix(text, "#")
		}) || finding.Rule == "signature" && above(f, removed, word) {
			return true
		}
	}
	return false
}

// above reports whether a name stands in an unchanged line before a removed one: a declaration may have
// several lines.
func above(f change.File, removed []change.Line, word *regexp.Regexp) bool {
	old := strings.Split(string(f.Before.Content), "\n")
	for _, l := range removed {
		for i := max(0, l.Number-12); i < min(len(old), l.Number); i++ {
			if word.MatchString(old[i]) {
				return true
			}
		}
	}
	return false
}

var (
	instructions = regexp.MustCompile(`(?i)(^|/)(agents|claude|gemini|copilot-instructions|contributing|security)\.md$|(^|/)(\.claude|\.cursor|\.github/(instructions|prompts|copilot)|skills|prompts)/|llms(-full)?\.txt$`)
	notShown     = regexp.MustCompile(`[\x{200b}-\x{200f}\x{202a}-\x{202e}\x{2060}-\x{2069}\x{feff}\x{ad}\x{e0000}-\x{e007f}]`)
)

func justifiedInjection(f change.File, finding change.Finding) bool {
	switch finding.Rule {
	case "bidi", "invisible", "tags":
		return adds(f, notShown)
	}
	return instructions.MatchString(finding.Path)
}
