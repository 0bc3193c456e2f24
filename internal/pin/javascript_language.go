package pin

import (
	"path"
	"regexp"
)

var jsTest = regexp.MustCompile(`(?i)[._-](test|tests|spec|cy|e2e)\.[cm]?[jt]sx?$`)

// scriptLanguage is JavaScript and TypeScript.
var scriptLanguage = language{
	name:       "js",
	extensions: []string{".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts"},
	runs: func(p string) bool {
		return jsTest.MatchString(path.Base(p)) || inFolder(p, testFolders) && !jsSupport(p)
	},
	supports:  func(p string) bool { return inFolder(p, testFolders) },
	parse:     parseJS,
	runsAlone: func(*unit) bool { return true },
	settings: []settingsRule{
		{regexp.MustCompile(`(^|/)package\.json$`), packageJSON},
		{regexp.MustCompile(`(^|/)((jest|vitest|vite|playwright|cypress|ava|web-test-runner|wdio|karma)([.-](config|conf|workspace|setup))[\w.-]*\.([cm]?[jt]s|json)|\.mocharc\.(c?js|jsonc?))$`), runnerConfig},
	},
}

// jsSupport reports whether a file in a folder of tests holds none by custom.
func jsSupport(p string) bool {
	return inFolder(p, []string{"support", "helpers", "utils", "mocks", "__mocks__", "node_modules"}) || inFolder(p, recordedFolders)
}
