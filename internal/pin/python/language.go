// Package python reads tests in Python, and the settings of pytest and tox, by their tokens.
package python

import (
	"path"
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/buildfiles"
	"github.com/rocketgpt/orchestrator/internal/pin/language"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

var testFile = regexp.MustCompile(`^(test_.*|.*_test|tests?)\.py$`)

// Language is Python.
var Language = language.Language{
	Name: "python", Extensions: []string{".py"},
	IsTest: func(p string) bool {
		return testFile.MatchString(path.Base(p)) || language.InFolder(p, []string{"testsuite"}) && path.Base(p) != "__init__.py"
	},
	MayBeTest: func(p string) bool { return strings.HasSuffix(p, "_tests.py") }, // for nose, not for pytest
	IsSupport: func(p string) bool {
		return path.Base(p) == "conftest.py" || language.InFolder(p, language.TestFolders)
	},
	Parse:     parse,
	RunsAlone: func(*testfile.Unit) bool { return true },
	Settings: []buildfiles.Rule{
		{Path: regexp.MustCompile(`(^|/)(\.?pytest\.ini|pytest\.toml|setup\.cfg|tox\.ini|pyproject\.toml)$`), Judge: pytestConfig},
		{Path: regexp.MustCompile(`(^|/)conftest\.py$`), Judge: conftest},
	},
}
