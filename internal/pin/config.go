package pin

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
)

// notice is what a change of settings does to tests.
type notice struct {
	excluded bool   // tests are left out or their result does not count; else the setting is only another one
	at       string // a text of the new file, to point at
	why      string
}

// settingsChange is a file of settings before and after a change.
type settingsChange struct {
	before, after   []byte
	existed, exists bool
	notices         []notice
}

// exclude records that tests are kept from running, or their result from counting.
func (c *settingsChange) exclude(at, why string) {
	c.notices = append(c.notices, notice{true, at, why})
}

// edit records that a setting is another one.
func (c *settingsChange) edit(at, why string) { c.notices = append(c.notices, notice{false, at, why}) }

// settingsRule says which files hold settings of tests, and how a change of one is judged.
type settingsRule struct {
	path  *regexp.Regexp
	judge func(*settingsChange)
}

// settingsRules are those of tools that belong to no language, or to several.
var settingsRules = []settingsRule{
	{regexp.MustCompile(`(^|/)(GNUm|[Mm])akefile$|\.mk$`), makefile},
	{regexp.MustCompile(`^rgpt(\.local)?\.yaml$`), ownConfig},
	{regexp.MustCompile(`(^|/)(\.github/workflows/[^/]+\.ya?ml|\.gitlab-ci\.ya?ml|\.circleci/config\.yml|azure-pipelines\.yml|\.travis\.yml|Jenkinsfile|Taskfile\.ya?ml|[Jj]ustfile)$`), workflow},
	{regexp.MustCompile(`(^|/)(Cargo\.toml|\.config/nextest\.toml|pom\.xml|build\.gradle(\.kts)?|\.mocharc\.ya?ml)$`), buildFile},
}

// allSettings are the rules of all languages and tools. No file has two.
var allSettings = func() []settingsRule {
	out := slices.Clone(settingsRules)
	for _, l := range languages {
		out = append(out, l.settings...)
	}
	return out
}()

// settingsOf returns what judges the settings in the file at a path, nil for a file
// without such settings.
func settingsOf(p string) func(*settingsChange) {
	for _, r := range allSettings {
		if r.path.MatchString(p) {
			return r.judge
		}
	}
	return nil
}

// maxNotices is how many settings of one file are listed.
const maxNotices = 50

// config judges a file that says which tests run.
func (j *judge) config(f File) {
	judge := settingsOf(f.Path)
	if judge == nil {
		judge = settingsOf(f.RenamedFrom)
	} else if f.RenamedFrom != f.Path && settingsOf(f.RenamedFrom) == nil {
		f.Before, f.Existed = nil, false
	}
	if judge == nil {
		return
	}
	c := &settingsChange{before: f.Before, after: f.After, existed: f.Existed, exists: f.Exists}
	if f.RenamedFrom != f.Path && settingsOf(f.Path) == nil {
		c.after, c.exists = nil, false
	}
	judge(c)
	slices.SortStableFunc(c.notices, func(a, b notice) int {
		if a.excluded == b.excluded {
			return 0
		}
		if a.excluded {
			return -1
		}
		return 1
	})
	for i, n := range c.notices {
		kind := Edited
		if n.excluded {
			kind = Excluded
		}
		if i == maxNotices {
			j.report(kind, "", f.Path, 0, "%s: %d more settings are not listed", clean(path.Base(f.Path)), len(c.notices)-i)
			break
		}
		j.report(kind, "", f.Path, lineOf(f.After, n.at), "%s: %s", clean(path.Base(f.Path)), clean(n.why))
	}
}

func lineOf(data []byte, at string) int {
	if at == "" {
		return 0
	}
	i := bytes.Index(data, []byte(at))
	if i < 0 {
		return 0
	}
	return bytes.Count(data[:i], []byte("\n")) + 1
}

// silencers are parts of commands that keep tests from running or failing.
var silencers = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`\|\|\s*(true|:|exit 0|echo\b|/bin/true)`), "a failure is turned into success"},
	{regexp.MustCompile(`(?m)[;&]\s*(true|exit 0|:)\s*["']?\s*$`), "it ends with success, whatever happened"},
	{regexp.MustCompile(`(?m)^\s*[@-]*\s*(exit 0|true|:)\s*$`), "it does nothing and succeeds"},
	{regexp.MustCompile(`(?i)--?pass-?with-?no-?tests`), "having no tests to run passes"},
	{regexp.MustCompile(`--(testPathIgnorePatterns|test-skip-pattern|grep-invert|invert|exclude|ignore|ignore-glob|deselect|ignorePatterns|skip)\b`), "tests are left out"},
	{regexp.MustCompile(`--(grep|testNamePattern|filter|testPathPattern|onlyChanged|only-changed|lf|last-failed)\b`), "only some tests run"},
	{regexp.MustCompile(`(^|\s)-(k|m|t|g|run|skip)[ =]`), "only some tests run"},
	{regexp.MustCompile(`(^|\s)-short\b`), "long tests are left out"},
	{regexp.MustCompile(`--(collect-only|co|listTests|list-tests|list|dry-run|no-run)\b`), "tests are listed and not run"},
	{regexp.MustCompile(`-DskipTests|-DskipITs|-Dmaven\.test\.skip|(^|\s)-x\s+test\b`), "tests are left out"},
	{regexp.MustCompile(`--(updateSnapshot|update-snapshots|snapshot-update|ci=false)\b|(^|\s)-u(\s|$)|(^|\s)-update\b|UPDATE_(GOLDEN|SNAPSHOTS?)|INSTA_UPDATE=(always|new)`), "what tests expect is written anew instead of compared"},
	{regexp.MustCompile(`\bset \+e\b`), "failures do not end it"},
	{regexp.MustCompile(`-p\s+no:`), "a plugin that tests need is turned off"},
	{regexp.MustCompile(`(?i)testFailureIgnore|ignore[_-]?failures?|ignore_outcome|ignore_errors`), "failures do not count"},
	{regexp.MustCompile(`(?i)(continue-on-error|allow_failure):\s*true`), "failures do not count"},
	{regexp.MustCompile(`(?m)^\s*-?\s*if:\s*(\$\{\{)?\s*false`), "it never runs"},
}

// silenced says which silencer is in a command that was not there before.
func silenced(before, after string) string {
	for _, s := range silencers {
		if len(s.pattern.FindAllStringIndex(after, -1)) > len(s.pattern.FindAllStringIndex(before, -1)) {
			return s.why
		}
	}
	return ""
}

var runner = regexp.MustCompile(`\b(jest|vitest|mocha|ava|playwright|cypress|jasmine|karma|tap|pytest|unittest|nose2?|tox|nox|cargo (\+\w+ )?(nextest|test)|go test|gotestsum|ginkgo|mvnw?|gradlew?|ctest|rspec|phpunit|dotnet test|node --test|deno test|bun test|(npm|yarn|pnpm)( run)? test|npm t|make (test|check))\b|\.\/gradlew|\.\/mvnw`)

// passesOn: a command that may run tests by other means.
var passesOn = regexp.MustCompile(`\b(npm|yarn|pnpm|bun|npx|make|\$\(MAKE\)|turbo|nx|lerna|just|task|bash|sh|node|python3?|tsx|ts-node)\b|\./`)

// command judges a command that runs tests.
func (c *settingsChange) command(what, before, after string) {
	before, after = strings.TrimSpace(before), strings.TrimSpace(after)
	why := silenced(before, after)
	switch {
	case before == after:
	case why != "":
		c.exclude(after, what+": "+why)
	case before == "":
	case after == "":
		c.exclude(after, what+" is gone")
	case runner.MatchString(before) && !runner.MatchString(after) && !passesOn.MatchString(after):
		c.exclude(after, what+" runs no tests any more")
	default:
		c.edit(after, what+" is another one")
	}
}

// lines without comments that begin with a sign.
func uncommented(data []byte, sign string) []string {
	var out []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		if !strings.HasPrefix(strings.TrimSpace(line), sign) {
			out = append(out, line)
		}
	}
	return out
}

// workflow judges what a service runs: only the loss of tests counts.
func workflow(c *settingsChange) {
	before, after := uncommented(c.before, "#"), uncommented(c.after, "#")
	was, is := testLines(before), testLines(after)
	if len(was) > len(is) {
		c.exclude("", "tests that it ran are not run any more")
		return
	}
	if why := silenced(strings.Join(before, "\n"), strings.Join(after, "\n")); why != "" && (len(is) > 0 || len(was) > 0) {
		c.exclude("", why)
	}
}

func testLines(lines []string) []string {
	var out []string
	for _, l := range lines {
		if runner.MatchString(l) && !strings.HasPrefix(strings.TrimSpace(strings.TrimLeft(l, "- ")), "name:") && !strings.Contains(l, "install") {
			out = append(out, l)
		}
	}
	return out
}

var buildSilencers = regexp.MustCompile(`(?im)^\s*(autotests|test|harness|doctest)\s*=\s*false|<skip(Tests|ITs)?>\s*true|maven\.test\.skip>\s*true|<testFailureIgnore>\s*true|<excludes?>|\bignoreFailures\s*=\s*true|\bignoreFailures\s*\(?\s*true|excludeTestsMatching|\bexclude\s*[("']|\benabled\s*=\s*false|onlyIf\s*\{\s*false|default-filter|^\s*(ignore|grep|invert|exclude)\s*:`)

// buildFile judges Cargo.toml, pom.xml and build.gradle.
func buildFile(c *settingsChange) {
	strip := func(data []byte) string {
		return strings.Join(uncommented([]byte(strings.Join(uncommented(data, "#"), "\n")), "//"), "\n")
	}
	before, after := buildSilencers.FindAllString(strip(c.before), -1), buildSilencers.FindAllString(strip(c.after), -1)
	if len(after) > len(before) {
		c.exclude(strings.TrimSpace(after[len(after)-1]), "tests are left out or their failures do not count")
	}
}
