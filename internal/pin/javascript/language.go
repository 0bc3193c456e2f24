// Package javascript reads tests in JavaScript and TypeScript, and the settings of their
// runners, by their tokens.
package javascript

import (
	"path"
	"regexp"

	"github.com/rocketgpt/orchestrator/internal/pin/buildfiles"
	"github.com/rocketgpt/orchestrator/internal/pin/language"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

var testFile = regexp.MustCompile(`(?i)(^|[._-])(test|tests|spec|cy|e2e)(-d)?\.[cm]?[jt]sx?$`)

// Language is JavaScript and TypeScript.
var Language = language.Language{
	Name:       "js",
	Extensions: []string{".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts"},
	IsTest: func(p string) bool {
		return testFile.MatchString(path.Base(p)) || language.InFolder(p, language.TestFolders) && !isSupportFile(p)
	},
	IsSupport: func(p string) bool { return language.InFolder(p, language.TestFolders) },
	Parse:     parse,
	RunsAlone: func(*testfile.Unit) bool { return true },
	Settings: []buildfiles.Rule{
		{Path: regexp.MustCompile(`(^|/)package\.json$`), Judge: packageJSON},
		{Path: regexp.MustCompile(`(^|/)((jest|vitest|vite|playwright|cypress|ava|web-test-runner|wdio|karma)([.-](config|conf|workspace|setup))[\w.-]*\.([cm]?[jt]s|json)|\.mocharc\.(c?js|jsonc?))$`), Judge: compareRunnerSettings},
	},
}

// isSupportFile reports whether a file in a test directory contains, by convention, no tests.
func isSupportFile(p string) bool {
	return language.InFolder(p, []string{"support", "helpers", "utils", "mocks", "__mocks__", "node_modules"}) || language.InFolder(p, language.RecordedFolders)
}
