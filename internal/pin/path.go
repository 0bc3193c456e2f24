package pin

import (
	"path"
	"slices"
	"strings"
)

// testFolders are folders whose files belong to tests by custom.
var testFolders = []string{"test", "tests", "__tests__", "spec", "specs", "e2e", "cypress", "integration-tests"}

// recordedFolders hold what tests compare with.
var recordedFolders = []string{"testdata", "__snapshots__", "fixtures", "golden", "goldens", "snapshots", "__fixtures__", "test-data"}

// cleanPath makes a path comparable. It is never opened.
func cleanPath(p string) string {
	if p == "" {
		return ""
	}
	return strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(p, "\\", "/")), "/")
}

func folders(p string) []string {
	all := strings.Split(p, "/")
	return all[:len(all)-1]
}

func inFolder(p string, names []string) bool {
	return slices.ContainsFunc(folders(p), func(f string) bool { return slices.Contains(names, strings.ToLower(f)) })
}

// Watches says whether a change of the file at this path can do something to
// tests: it holds tests, helps them, holds what they compare with, or says
// which of them run.
func Watches(p string) bool {
	p = cleanPath(p)
	return p != "" && (runs(p) || supports(p) || isRecorded(p) || settingsOf(p) != nil)
}

// runs reports whether a test runner looks for tests in a file of this path.
func runs(p string) bool {
	l := languageOf(p)
	return l.runs != nil && l.runs(p)
}

// supports reports whether a file is code that tests call.
func supports(p string) bool {
	l := languageOf(p)
	return l.supports != nil && l.supports(p)
}

// isRecorded says whether a file holds what tests compare with.
func isRecorded(p string) bool {
	switch strings.ToLower(path.Ext(p)) {
	case ".golden", ".snap", ".snapshot", ".approved":
		return true
	}
	return inFolder(p, recordedFolders)
}
