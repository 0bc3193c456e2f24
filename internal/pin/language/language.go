// Package language defines what a language provides to judge its tests.
package language

import (
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/buildfiles"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// Language describes how to find and read the tests of a language.
type Language struct {
	// Name is unique.
	Name string
	// Extensions are its file extensions, with the dot.
	Extensions []string
	// IsTest reports whether a test runner looks for tests in the file at a path.
	IsTest func(path string) bool
	// MayBeTest reports whether only some test runners look for tests in the file at a path. They do so
	// in a repository that already has such files. It is nil if all agree.
	MayBeTest func(path string) bool
	// IsSupport reports whether the file at a path is code that tests call. It is nil if there is
	// no such code.
	IsSupport func(path string) bool
	// Parse reads a file.
	Parse func(s *testfile.File, data []byte)
	// RunsAlone reports whether a runner can run a new test without the others. It is
	// nil if no runner of the language can.
	RunsAlone func(u *testfile.Unit) bool
	// Settings are the settings files of the language's own tools that select tests.
	Settings []buildfiles.Rule
	// FolderScope is true if tests can call only the functions in their own directory, otherwise
	// all.
	FolderScope bool
	// BesideCode is true if tests are in the same files as the code that they test.
	BesideCode bool
	// IgnoreHelpers is true if changes to code outside tests are not judged.
	IgnoreHelpers bool
}

// InFolder reports whether a path contains a directory with one of these names.
func InFolder(p string, names []string) bool {
	return slices.ContainsFunc(folders(p), func(f string) bool { return slices.Contains(names, strings.ToLower(f)) })
}

func folders(p string) []string {
	all := strings.Split(p, "/")
	return all[:len(all)-1]
}

// TestFolders contain tests by convention.
var TestFolders = []string{"test", "tests", "__tests__", "spec", "specs", "e2e", "cypress", "integration-tests"}

// RecordedFolders contain expected results by convention.
var RecordedFolders = []string{"testdata", "__snapshots__", "fixtures", "golden", "goldens", "snapshots", "__fixtures__", "test-data"}
