package fault_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/fault"
)

// The texts are those of npm 10, pnpm 9, yarn 1.22 and 4.18, bun 1.4, Python 3.11,
// pytest 9, cargo 1.95, Maven 3.8 and Go 1.26 in projects in which nothing was
// installed.
func TestAToolThatMissesItsInstallationSaysWhat(t *testing.T) {
	t.Parallel()
	for text, what := range map[string]string{
		"sh: 1: vitest: not found\n": "vitest",
		"yarn run v1.22.22\n$ vitest run\n/bin/sh: 1: vitest: not found\nerror Command failed with exit code 127.\n":                             "vitest",
		"$ vitest run\n/usr/bin/bash: line 1: vitest: command not found\nerror: script \"test\" exited with code 127\n":                          "vitest",
		"env: ‘pnpm’: No such file or directory\n":                                                                                               "pnpm",
		" WARN   Local package.json exists, but node_modules missing, did you mean to install?\n":                                                "node_modules",
		"Internal Error: x@workspace:.: This package doesn't seem to be present in your lockfile; run \"yarn install\" to update the lockfile\n": "the installation of this package",
		"/usr/bin/python3: No module named pytest\n":                                                                                             "pytest",
		"ERROR: usage: python -m pytest [options]\npython -m pytest: error: unrecognized arguments: --cov=x\n  inifile: None\n":                  "--cov",
		"ERROR: Error importing plugin \"xdist\": No module named 'xdist'\n":                                                                     "xdist",
		"ERROR: Missing required plugins: pytest-nope\n":                                                                                         "pytest-nope",
		"go: downloading github.com/nope/nope v1.0.0\na.go:2:8: module lookup disabled by GOPROXY=off\n":                                         "a module in Go's module cache",
		"error: no matching package named `rand` found\nlocation searched: crates.io index\nrequired by package `x v0.1.0 (/workspace)`\nAs a reminder, you're using offline mode (--offline) which can sometimes cause surprising resolution failures\n":                                                                                  "rand",
		"[ERROR] Plugin org.apache.maven.plugins:maven-resources-plugin:2.6 or one of its dependencies could not be resolved: Cannot access central (https://repo.maven.apache.org/maven2) in offline mode and the artifact org.apache.maven.plugins:maven-resources-plugin:jar:2.6 has not been downloaded from it before. -> [Help 1]\n": "org.apache.maven.plugins:maven-resources-plugin:jar:2.6",
	} {
		line, got, ok := fault.Unprepared(fault.Output{ExitCode: 1, Text: text})
		require.True(t, ok, text)
		require.Equal(t, what, got, text)
		require.NotEmpty(t, line)
		require.NotContains(t, line, "\n")
	}
}

func TestCodeThatAsksForWhatNobodyDeclaredIsNotUnprepared(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"calc/more.go:3:8: no required module provides package github.com/stretchr/testify/require; to add it:\n",
		"Traceback (most recent call last):\n  File \"/workspace/a.py\", line 1, in <module>\nModuleNotFoundError: No module named 'mine'\n",
		"Error: Cannot find module './helper'\nRequire stack:\n- /workspace/a.js\n",
		"error[E0432]: unresolved import `rand`\n",
		"a.test.js:3: expected 404, not found\n",
		"", strings.Repeat("not found ", 100_000),
	} {
		_, _, ok := fault.Unprepared(fault.Output{ExitCode: 1, Text: text})
		require.False(t, ok, fault.Clip(text, 100))
	}
}
