package checks

import (
	"regexp"
	"slices"

	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// inFiles are the tests of some files, and those of the files that have any.
func inFiles(tests []pin.Added, files []string) (covered []pin.Added, has []string) {
	for _, t := range tests {
		if slices.Contains(files, t.Path) {
			covered = append(covered, t)
			has = append(has, t.Path)
		}
	}
	slices.Sort(has)
	return covered, slices.Compact(has)
}

// inScripts are the tests of JavaScript and TypeScript below a directory.
func inScripts(tests []pin.Added, dir string) []pin.Added {
	var covered []pin.Added
	for _, t := range tests {
		if scriptSource.MatchString(t.Path) && output.Below(t.Path, dir) {
			covered = append(covered, t)
		}
	}
	return covered
}

var scriptSource = regexp.MustCompile(`\.[cm]?[jt]sx?$`)

// WithoutNumber is the name of a test without the number that distinguishes it from
// others of the same name.
func WithoutNumber(test string) string { return numbered.ReplaceAllString(test, "") }

var numbered = regexp.MustCompile(` #\d+$`)
