// Package language says what a language provides for judging its tests.
package language

import (
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/buildfiles"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// Language says how to find and read the tests of a language.
type Language struct {
	// Name is unique.
	Name string
	// Extensions are those of its files, with the dot.
	Extensions []string
	// IsTest reports whether a test runner looks for tests in the file at a path.
	IsTest func(path string) bool
	// IsSupport reports whether the file at a path is code that tests call; nil if
	// there is no such code.
	IsSupport func(path string) bool
	// Parse reads a file.
	Parse func(s *testfile.File, data []byte)
	// RunsAlone reports whether a runner can run a new test without the others. It is
	// nil if no runner of the language can.
	RunsAlone func(u *testfile.Unit) bool
	// Settings are the files of the language's own tools that say which tests run.
	Settings []buildfiles.Rule
	// FolderScope: tests can call only the functions of their folder, otherwise all.
	FolderScope bool
	// BesideCode: tests are in the files of the code that they test.
	BesideCode bool
	// IgnoreHelpers: changes of code outside tests are not judged.
	IgnoreHelpers bool
}

// InFolder reports whether a path leads through a folder with one of these names.
func InFolder(p string, names []string) bool {
	return slices.ContainsFunc(folders(p), func(f string) bool { return slices.Contains(names, strings.ToLower(f)) })
}

func folders(p string) []string {
	all := strings.Split(p, "/")
	return all[:len(all)-1]
}

// TestFolders hold tests by convention.
var TestFolders = []string{"test", "tests", "__tests__", "spec", "specs", "e2e", "cypress", "integration-tests"}

// RecordedFolders hold expected results by convention.
var RecordedFolders = []string{"testdata", "__snapshots__", "fixtures", "golden", "goldens", "snapshots", "__fixtures__", "test-data"}
