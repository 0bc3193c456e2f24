package pin

import (
	"path"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/language"
)

// cleanPath makes a path comparable. It is never opened.
func cleanPath(p string) string {
	if p == "" {
		return ""
	}
	return strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(p, "\\", "/")), "/")
}

// Watches reports whether a change of the file at this path can affect tests: it
// contains tests, helps them, contains what they compare with, or says which of them
// run.
func Watches(p string) bool {
	p = cleanPath(p)
	return p != "" && (runs(p) || supports(p) || isRecorded(p) || settingsOf(p) != nil)
}

// runs reports whether a test runner looks for tests in a file of this path.
func runs(p string) bool {
	l := languageOf(p)
	return l.IsTest != nil && l.IsTest(p)
}

// supports reports whether a file is code that tests call.
func supports(p string) bool {
	l := languageOf(p)
	return l.IsSupport != nil && l.IsSupport(p)
}

// isRecorded reports whether a file contains what tests compare with.
func isRecorded(p string) bool {
	switch strings.ToLower(path.Ext(p)) {
	case ".golden", ".snap", ".snapshot", ".approved":
		return true
	}
	return language.InFolder(p, language.RecordedFolders)
}
