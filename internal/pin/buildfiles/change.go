// Package buildfiles judges changes to files that determine which tests run and whether their
// result counts: Makefiles, workflows, build files and rgpt.yaml. The languages use it to judge the
// settings of their own test runners.
//
// No file is executed to judge it.
package buildfiles

import (
	"regexp"
	"strings"
)

// Notice describes the effect of a changed setting on tests.
type Notice struct {
	Text   string // in the new file, to find the line
	Reason string
}

// Change is a settings file before and after a change.
type Change struct {
	Before, After   []byte
	Existed, Exists bool
	Excluded        []Notice // tests are excluded, or their result does not count
	Edited          []Notice // other changes
}

// Exclude records that tests no longer run or their result no longer counts.
func (c *Change) Exclude(at, why string) { c.Excluded = append(c.Excluded, Notice{at, why}) }

// Edit records that a setting has changed.
func (c *Change) Edit(at, why string) { c.Edited = append(c.Edited, Notice{at, why}) }

// Command judges a command that runs tests.
func (c *Change) Command(what, before, after string) {
	before, after = strings.TrimSpace(before), strings.TrimSpace(after)
	why := Suppressed(before, after)
	switch {
	case before == after:
	case why != "":
		c.Exclude(after, what+": "+why)
	case before == "":
	case after == "":
		c.Exclude(after, what+" is gone")
	case TestRunner.MatchString(before) && !TestRunner.MatchString(after) && !indirectRunner.MatchString(after):
		c.Exclude(after, what+" no longer runs tests")
	default:
		c.Edit(after, what+" is replaced")
	}
}

// Rule specifies which files contain test settings and how a change to them is judged.
type Rule struct {
	Path  *regexp.Regexp
	Judge func(*Change)
}

// Rules are the rules for tools that are not specific to one language.
var Rules = []Rule{
	{regexp.MustCompile(`(^|/)(GNUm|[Mm])akefile$|\.mk$`), makeTargets},
	{regexp.MustCompile(`^rgpt(\.local)?\.yaml$`), rgptSettings},
	{regexp.MustCompile(`(^|/)(\.github/workflows/[^/]+\.ya?ml|\.gitlab-ci\.ya?ml|\.circleci/config\.yml|azure-pipelines\.yml|\.travis\.yml|Jenkinsfile|Taskfile\.ya?ml|[Jj]ustfile)$`), workflow},
	{regexp.MustCompile(`(^|/)(Cargo\.toml|\.config/nextest\.toml|pom\.xml|build\.gradle(\.kts)?|\.mocharc\.ya?ml)$`), buildFile},
}
