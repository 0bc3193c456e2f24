package checks

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

var makeTarget = regexp.MustCompile(`(?m)^(build|all|test|check|lint)\s*::?(?:[^=]|$)`)

// planMake uses the targets of a Makefile: build or all, test or check, and lint. Like planC, it is
// used only for stages that nothing else covers: a target that just starts an ecosystem's tests
// would run them twice.
func planMake(t *checkout) []Job {
	for _, f := range []string{"GNUmakefile", "makefile", "Makefile"} {
		if !t.has(f) {
			continue
		}
		found := map[string]bool{}
		for _, m := range makeTarget.FindAllStringSubmatch(t.read(f), -1) {
			found[m[1]] = true
		}
		var jobs []Job
		for _, stage := range []struct {
			category contract.Category
			targets  []string
		}{{contract.CategoryBuild, []string{"build", "all"}}, {contract.CategoryTest, []string{"test", "check"}}, {contract.CategoryLint, []string{"lint"}}} {
			for _, target := range stage.targets {
				if found[target] {
					jobs = append(jobs, makeJob(stage.category, target))
					break
				}
			}
		}
		return jobs
	}
	return nil
}

func makeJob(c contract.Category, target string) Job {
	run := Invocation{Args: []string{"make", target}, Format: output.FormatAuto}
	if c == contract.CategoryTest {
		return shardJobs("make", "make "+target, [][]Invocation{{run}})[0]
	}
	return simpleJob(c, "make", "make "+target, run)
}

var (
	cmakeTests   = regexp.MustCompile(`(?im)^\s*(?:enable_testing|add_test|include\s*\(\s*CTest)\b`)
	automakeInit = regexp.MustCompile(`\bAM_INIT_AUTOMAKE\b`)
)

// planC finds the tests of a C or C++ project: CMake's tests, otherwise Automake's check target.
// Each check has its own checkout, so each configures and builds separately.
func planC(t *checkout) []Job {
	switch {
	case t.has("CMakeLists.txt"):
		return planCMake(t)
	case t.has("configure") || t.has("configure.ac") && automakeInit.MatchString(t.read("configure.ac")):
		return planAutotools(t)
	}
	return nil
}

func planCMake(t *checkout) []Job {
	tested := len(t.match(func(f string) bool {
		return (path.Base(f) == "CMakeLists.txt" || strings.HasSuffix(f, ".cmake")) && !inFixture(path.Dir(f)) && cmakeTests.MatchString(t.read(f))
	})) > 0
	dir := scratch("cmake", "", 1)
	configure := Invocation{Args: []string{"cmake", "-S", ".", "-B", dir, "-DCMAKE_BUILD_TYPE=Debug"}, Format: output.FormatExitCode, Setup: true}
	build := Invocation{Args: []string{"cmake", "--build", dir, "--parallel", "2"}, Format: output.FormatExitCode, Setup: true}
	jobs := []Job{simpleJob(contract.CategoryBuild, "cmake", "CMake build", configure, build)}
	if tested {
		report := scratch("ctest", "", 1) + ".xml"
		test := Invocation{
			Args: []string{"ctest", "--test-dir", dir, "--output-on-failure", "--no-tests=ignore", "--output-junit", "../" + path.Base(report)},
			Env:  map[string]string{"CTEST_PARALLEL_LEVEL": "1"}, Format: output.FormatJUnit, Reports: []string{report}, OrText: true, Runner: true,
		}
		jobs = append(jobs, shardJobs("cmake", "ctest", [][]Invocation{{configure, build, test}})...)
	}
	return jobs
}

func planAutotools(t *checkout) []Job {
	var setup []Invocation
	if !t.has("configure") {
		setup = append(setup, Invocation{Args: []string{"autoreconf", "--install"}, Format: output.FormatExitCode, Setup: true})
	}
	setup = append(setup, Invocation{Args: []string{"sh", "./configure"}, Format: output.FormatExitCode, Setup: true})
	build := slices.Concat(setup, []Invocation{{Args: []string{"make"}, Format: output.FormatExitCode, Setup: true}})
	test := slices.Concat(build, []Invocation{{Args: []string{"make", "check"}, Format: output.FormatAuto}})
	return append([]Job{simpleJob(contract.CategoryBuild, "autotools", "configure and make", build...)},
		shardJobs("autotools", "make check", [][]Invocation{test})...)
}
