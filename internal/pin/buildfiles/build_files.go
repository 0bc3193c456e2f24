package buildfiles

import (
	"regexp"
	"strings"
)

// workflow judges the commands of a CI service: only the loss of tests counts.
func workflow(c *Change) {
	before, after := Uncommented(c.Before, "#"), Uncommented(c.After, "#")
	was, is := testLines(before), testLines(after)
	if len(was) > len(is) {
		c.Exclude("", "it no longer runs some of the tests that it ran before")
		return
	}
	if why := Suppressed(strings.Join(before, "\n"), strings.Join(after, "\n")); why != "" && (len(is) > 0 || len(was) > 0) {
		c.Exclude("", why)
	}
}

func testLines(lines []string) []string {
	var out []string
	for _, l := range lines {
		if TestRunner.MatchString(l) && !strings.HasPrefix(strings.TrimSpace(strings.TrimLeft(l, "- ")), "name:") && !strings.Contains(l, "install") {
			out = append(out, l)
		}
	}
	return out
}

var buildSuppressions = regexp.MustCompile(`(?im)^\s*(autotests|test|harness|doctest)\s*=\s*false|<skip(Tests|ITs)?>\s*true|maven\.test\.skip>\s*true|<testFailureIgnore>\s*true|<excludes?>|\bignoreFailures\s*=\s*true|\bignoreFailures\s*\(?\s*true|excludeTestsMatching|\bexclude\s*[("']|\benabled\s*=\s*false|onlyIf\s*\{\s*false|default-filter|^\s*(ignore|grep|invert|exclude)\s*:`)

// buildFile judges Cargo.toml, pom.xml and build.gradle.
func buildFile(c *Change) {
	if !c.Existed {
		return // no test ran by it before
	}
	strip := func(data []byte) string {
		return strings.Join(Uncommented([]byte(strings.Join(Uncommented(data, "#"), "\n")), "//"), "\n")
	}
	before, after := buildSuppressions.FindAllString(strip(c.Before), -1), buildSuppressions.FindAllString(strip(c.After), -1)
	if len(after) > len(before) {
		c.Exclude(strings.TrimSpace(after[len(after)-1]), "tests are excluded or their failures do not count")
	}
}
