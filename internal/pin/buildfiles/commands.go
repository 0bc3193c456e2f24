package buildfiles

import (
	"regexp"
	"strings"
)

// suppressions match parts of commands that prevent tests from running or failing.
var suppressions = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`\|\|\s*(true|:|exit 0|echo\b|/bin/true)`), "a failure is reported as success"},
	{regexp.MustCompile(`(?m)[;&]\s*(true|exit 0|:)\s*["']?\s*$`), "it always succeeds"},
	{regexp.MustCompile(`(?m)^\s*[@-]*\s*(exit 0|true|:)\s*$`), "it does nothing and succeeds"},
	{regexp.MustCompile(`(?i)--?pass-?with-?no-?tests`), "it passes even if there are no tests to run"},
	{regexp.MustCompile(`--(testPathIgnorePatterns|test-skip-pattern|grep-invert|invert|exclude|ignore|ignore-glob|deselect|ignorePatterns|skip)(?:[^\w-]|$)`), "tests are excluded"},
	{regexp.MustCompile(`--(grep|testNamePattern|filter|testPathPattern|onlyChanged|only-changed|lf|last-failed)(?:[^\w-]|$)`), "only some tests run"},
	{regexp.MustCompile(`(^|\s)-(k|m|t|g|run|skip)[ =]`), "only some tests run"},
	{regexp.MustCompile(`(^|\s)-short\b`), "long tests are excluded"},
	{regexp.MustCompile(`--(collect-only|co|listTests|list-tests|list|dry-run|no-run)(?:[^\w-]|$)`), "tests are listed, not run"},
	{regexp.MustCompile(`-DskipTests|-DskipITs|-Dmaven\.test\.skip|(^|\s)-x\s+test\b`), "tests are excluded"},
	{regexp.MustCompile(`--(updateSnapshot|update-snapshots|snapshot-update|ci=false)\b|(^|\s)-u(\s|$)|(^|\s)-update\b|UPDATE_(GOLDEN|SNAPSHOTS?)|INSTA_UPDATE=(always|new)`), "expected results are rewritten instead of compared"},
	{regexp.MustCompile(`\bset \+e\b`), "failures do not stop it"},
	{regexp.MustCompile(`-p\s+no:`), "a plugin that tests need is turned off"},
	{regexp.MustCompile(`(?i)testFailureIgnore|ignore[_-]?failures?|ignore_outcome|ignore_errors`), "failures do not count"},
	{regexp.MustCompile(`(?i)(continue-on-error|allow_failure):\s*true`), "failures do not count"},
	{regexp.MustCompile(`(?m)^\s*-?\s*if:\s*(\$\{\{)?\s*false`), "it never runs"},
}

// Suppressed describes how a command now prevents tests from running or failing; it returns "" if
// that is not new.
func Suppressed(before, after string) string {
	for _, s := range suppressions {
		if len(s.pattern.FindAllStringIndex(after, -1)) > len(s.pattern.FindAllStringIndex(before, -1)) {
			return s.why
		}
	}
	return ""
}

// TestRunner matches commands that run tests.
var TestRunner = regexp.MustCompile(`\b(jest|vitest|mocha|ava|playwright|cypress|jasmine|karma|tap|pytest|unittest|nose2?|tox|nox|cargo (\+\S+ )?(nextest|test)|go test|gotestsum|ginkgo|mvnw?|gradlew?|ctest|rspec|phpunit|dotnet test|node --test|deno test|bun test|(npm|yarn|pnpm)( run)? test|npm t|make (test|check))\b|\.\/gradlew|\.\/mvnw`)

// indirectRunner matches commands that may start other commands.
var indirectRunner = regexp.MustCompile(`\b(npm|yarn|pnpm|bun|npx|make|\$\(MAKE\)|turbo|nx|lerna|just|task|bash|sh|node|python3?|tsx|ts-node)\b|\./`)

// Uncommented returns the lines that are not comments. A comment begins with a sign.
func Uncommented(data []byte, sign string) []string {
	var out []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		if !strings.HasPrefix(strings.TrimSpace(line), sign) {
			out = append(out, line)
		}
	}
	return out
}

// NoTests matches directories that contain no tests of the project itself.
var NoTests = regexp.MustCompile(`node_modules|dist|build|\.git|coverage|\.next|\.cache|/out/|vendor|\.turbo|target|\.\{|^\*\*/\.|__snapshots__|fixtures`)
