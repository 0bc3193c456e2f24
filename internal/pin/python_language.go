package pin

import (
	"path"
	"regexp"
)

var pythonTest = regexp.MustCompile(`^(test_.*|.*_test|tests?)\.py$`)

// pythonLanguage is Python.
var pythonLanguage = language{
	name: "python", extensions: []string{".py"},
	runs:      func(p string) bool { return pythonTest.MatchString(path.Base(p)) },
	supports:  func(p string) bool { return path.Base(p) == "conftest.py" || inFolder(p, testFolders) },
	parse:     parsePython,
	runsAlone: func(*unit) bool { return true },
	settings: []settingsRule{
		{regexp.MustCompile(`(^|/)(\.?pytest\.ini|pytest\.toml|setup\.cfg|tox\.ini|pyproject\.toml)$`), pytestConfig},
		{regexp.MustCompile(`(^|/)conftest\.py$`), conftest},
	},
}
