// Package golang reads tests in Go with Go's own parser: functions, suites, subtests,
// tables, skips, build constraints, assertions, and helpers that contain assertions.
package golang

import (
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/language"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// Language is Go.
var Language = language.Language{
	Name: "go", Extensions: []string{".go"}, FolderScope: true,
	IsTest:    func(p string) bool { return strings.HasSuffix(p, "_test.go") && !ignored(p) },
	IsSupport: func(p string) bool { return strings.HasSuffix(p, "_test.go") },
	Parse:     parse,
	RunsAlone: runsAlone,
}

// ignored reports whether the go command ignores a path.
func ignored(p string) bool {
	for i, part := range strings.Split(p, "/") {
		if strings.HasPrefix(part, "_") || strings.HasPrefix(part, ".") || part == "testdata" || i == 0 && part == "vendor" {
			return true
		}
	}
	return false
}

// runsAlone is false for benchmarks, and for examples without an output comment: test runs skip
// both.
func runsAlone(u *testfile.Unit) bool {
	return !strings.HasPrefix(u.Name, "Benchmark") && (!strings.HasPrefix(u.Name, "Example") || len(u.Checks) > 0)
}
