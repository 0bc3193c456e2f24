package verify

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

func TestCProjectsAreTestedByWhatTheyAreBuiltWith(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  [][]string
	}{
		"CMake":                 {map[string]string{"CMakeLists.txt": "enable_testing()\nadd_test(NAME a COMMAND a)\n", "Makefile": "test:\n\ttrue\n"}, [][]string{{"build-cmake"}, {"test-cmake-1"}}},
		"CMake without tests":   {map[string]string{"CMakeLists.txt": "project(x)\n", "Makefile": "check:\n\ttrue\n"}, [][]string{{"build-cmake"}, {"test-make-1"}}},
		"configure":             {map[string]string{"configure": "#!/bin/sh\n"}, [][]string{{"build-autotools"}, {"test-autotools-1"}}},
		"Automake":              {map[string]string{"configure.ac": "AM_INIT_AUTOMAKE\n", "Makefile.am": ""}, [][]string{{"build-autotools"}, {"test-autotools-1"}}},
		"Make":                  {map[string]string{"Makefile": "all: x\ncheck:\n\ttrue\n"}, [][]string{{"build-make"}, {"test-make-1"}}},
		"a wrapper of go test":  {map[string]string{"Makefile": "test:\n\tgo test ./...\n", "go.mod": "module m\n", "a_test.go": "package m\nfunc TestA(t *testing.T) {}\n"}, [][]string{{"build-go"}, {"test-go-1"}, {"lint-go"}}},
		"a wrapper of pytest":   {map[string]string{"Makefile": "test:\n\tpytest\n", "test_a.py": "def test_a(): pass\n"}, [][]string{{"test-python-1"}, {"lint-python"}}},
		"a script beside Maven": {map[string]string{"Makefile": "test:\n\tmvn test\n", "pom.xml": ""}, [][]string{{"build-java"}, {"test-java-1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, ids(plan(t, checkout(t, c.files), detected())))
		})
	}
}

func TestCTestSaysWhichProgramsFailed(t *testing.T) {
	t.Parallel()
	needs(t, "cmake")
	needs(t, "gcc")
	root := checkout(t, map[string]string{
		"CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(x C)\nenable_testing()\nadd_executable(good good.c)\nadd_executable(bad bad.c)\nadd_test(NAME good COMMAND good)\nadd_test(NAME bad COMMAND bad)\n",
		"good.c":         "int main(void) { return 0; }\n", "bad.c": "int main(void) { return 1; }\n",
	})
	o := runCheck(t, root, "test-cmake-1", detected())
	require.Equal(t, contract.CodeTestsFailed, o.Code, "%s", o.Log)
	require.Equal(t, contract.TestSummary{Passed: 1, Failed: 1}, withoutTime(o.Summary), "%s", o.Log)
	require.Equal(t, contract.TestFailed, caseNamed(t, o, "bad").Status)

	root = checkout(t, map[string]string{"CMakeLists.txt": "enable_testing()\nthis is not CMake\n"})
	o = runCheck(t, root, "test-cmake-1", detected())
	require.False(t, o.OK)
	require.Zero(t, o.Summary.Passed+o.Summary.Failed, "what cannot be configured has no tests")
}
