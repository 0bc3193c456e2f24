package pin

import (
	"strings"
)

// goLanguage is Go.
var goLanguage = language{
	name: "go", extensions: []string{".go"}, folderScope: true,
	runs:      func(p string) bool { return strings.HasSuffix(p, "_test.go") && !goIgnored(p) },
	supports:  func(p string) bool { return strings.HasSuffix(p, "_test.go") },
	parse:     parseGo,
	runsAlone: goRunsAlone,
}

// goIgnored reports whether the go command leaves out a path.
func goIgnored(p string) bool {
	for i, part := range strings.Split(p, "/") {
		if strings.HasPrefix(part, "_") || strings.HasPrefix(part, ".") || part == "testdata" || i == 0 && part == "vendor" {
			return true
		}
	}
	return false
}

// goRunsAlone is false for benchmarks, and for examples that do not say what they
// print: no test run runs those.
func goRunsAlone(u *unit) bool {
	return !strings.HasPrefix(u.name, "Benchmark") && (!strings.HasPrefix(u.name, "Example") || len(u.checks) > 0)
}
