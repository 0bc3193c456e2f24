package checks

import (
	"regexp"
	"slices"

	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// inFiles returns the tests in some files, and the files that contain any.
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

// inScripts returns the JavaScript and TypeScript tests below a directory.
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

// WithoutNumber returns the name of a test without the number that distinguishes it from other
// tests of that name.
func WithoutNumber(test string) string { return numbered.ReplaceAllString(test, "") }

var numbered = regexp.MustCompile(` #\d+$`)
