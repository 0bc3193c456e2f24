package pin

import (
	"path"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/language"
)

// cleanPath normalizes a path for comparison. The path is never opened.
func cleanPath(p string) string {
	if p == "" {
		return ""
	}
	return strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(p, "\\", "/")), "/")
}

// Watches reports whether a change to the file at this path can affect tests: it contains tests,
// test helpers, expected results or test settings.
func Watches(p string) bool {
	p = cleanPath(p)
	return p != "" && (runs(p) || mayRun(p) || supports(p) || isRecorded(p) || settingsOf(p) != nil)
}

// IsTest reports whether the file at this path contains tests, code that only tests call, or their
// expected results.
func IsTest(p string) bool {
	p = cleanPath(p)
	return p != "" && (runs(p) || mayRun(p) || supports(p) || isRecorded(p))
}

// runs reports whether a test runner looks for tests in a file of this path.
func runs(p string) bool {
	l := languageOf(p)
	return l.IsTest != nil && l.IsTest(p)
}

// mayRun reports whether only some test runners look for tests in a file of this path.
func mayRun(p string) bool {
	l := languageOf(p)
	return l.MayBeTest != nil && l.MayBeTest(p)
}

// supports reports whether a file is code that tests call.
func supports(p string) bool {
	l := languageOf(p)
	return l.IsSupport != nil && l.IsSupport(p)
}

// isRecorded reports whether a file contains expected results of tests.
func isRecorded(p string) bool {
	switch strings.ToLower(path.Ext(p)) {
	case ".golden", ".snap", ".snapshot", ".approved":
		return true
	}
	return language.InFolder(p, language.RecordedFolders)
}
