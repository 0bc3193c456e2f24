package pin

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// language is how a file is understood.
type language string

const (
	langGo     language = "go"
	langJS     language = "js"
	langPython language = "python"
	langRust   language = "rust"
	langJava   language = "java" // and Kotlin
	langOther  language = ""
)

var languages = map[string]language{
	".go": langGo,
	".js": langJS, ".jsx": langJS, ".mjs": langJS, ".cjs": langJS,
	".ts": langJS, ".tsx": langJS, ".mts": langJS, ".cts": langJS,
	".py": langPython, ".rs": langRust, ".java": langJava, ".kt": langJava,
}

func languageOf(p string) language { return languages[path.Ext(p)] }

var (
	jsTest     = regexp.MustCompile(`(?i)[._-](test|tests|spec|cy|e2e)\.[cm]?[jt]sx?$`)
	pythonTest = regexp.MustCompile(`^(test_.*|.*_test|tests?)\.py$`)
	javaTest   = regexp.MustCompile(`(^Test\w*|Tests?|TestCase|IT|Spec)\.(java|kt)$`)
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
	return p != "" && (runs(p) || supports(p) || isRecorded(p) || configOf(p) != nil)
}

// runs says whether a runner of tests looks for tests in a file of this path.
func runs(p string) bool {
	base := path.Base(p)
	switch languageOf(p) {
	case langGo:
		return strings.HasSuffix(base, "_test.go") && !goIgnored(p)
	case langJS:
		return jsTest.MatchString(base) || inFolder(p, testFolders) && !jsSupport(p)
	case langPython:
		return pythonTest.MatchString(base)
	case langRust:
		return true // tests stand beside the code
	case langJava:
		return javaTest.MatchString(base) || strings.Contains("/"+p, "/src/test/")
	default:
		return false
	}
}

// jsSupport: files in folders of tests that hold none by custom.
func jsSupport(p string) bool {
	return inFolder(p, []string{"support", "helpers", "utils", "mocks", "__mocks__", "node_modules"}) || inFolder(p, recordedFolders)
}

// supports says whether a file is code that tests lean on.
func supports(p string) bool {
	switch languageOf(p) {
	case langPython:
		return path.Base(p) == "conftest.py" || inFolder(p, testFolders)
	case langJS:
		return inFolder(p, testFolders)
	case langGo:
		return strings.HasSuffix(p, "_test.go")
	default:
		return false
	}
}

// goIgnored says whether the go command looks past a path.
func goIgnored(p string) bool {
	for i, part := range strings.Split(p, "/") {
		if strings.HasPrefix(part, "_") || strings.HasPrefix(part, ".") || part == "testdata" || i == 0 && part == "vendor" {
			return true
		}
	}
	return false
}

// isRecorded says whether a file holds what tests compare with.
func isRecorded(p string) bool {
	switch strings.ToLower(path.Ext(p)) {
	case ".golden", ".snap", ".snapshot", ".approved":
		return true
	}
	return inFolder(p, recordedFolders)
}
