package checks

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// CoverageMode specifies whether tests also measure which lines they execute
// (verification.coverage).
type CoverageMode string

// The values of CoverageMode. Empty means off: the run was created before the setting existed.
const (
	CoverageAuto CoverageMode = "auto" // if the test runner supports it without further installation
	CoverageOff  CoverageMode = "off"
)

// On reports whether coverage is measured.
func (m CoverageMode) On() bool { return m == CoverageAuto }

// Coverage is a way in which a command can report the lines that its tests execute.
type Coverage struct {
	// Probe exits with 0 if this way is possible. Empty: it always is.
	Probe []string
	// With adds the options that write reports into dir, which is relative to the root and exists.
	// Nil: the command itself measures coverage.
	With func(inv Invocation, dir string) Invocation
	// Convert is a shell command that turns what the tests left into reports in dir, with the
	// environment of the tests. Nil: they write reports themselves.
	Convert func(dir string) string
	// Reports are globs of reports that are not in dir, relative to the root.
	Reports []string
	// asks matches code that asks whether coverage is measured.
	asks *regexp.Regexp
}

var (
	goAsksCoverage     = regexp.MustCompile(`\btesting\.CoverMode\(`)
	nodeAsksCoverage   = regexp.MustCompile(`\b__coverage__\b|\bNODE_V8_COVERAGE\b|["'` + "`" + `]--(experimental-test-)?coverage["'` + "`" + `]`)
	pythonAsksCoverage = regexp.MustCompile(`\bsys\.(gettrace|monitoring)\b|\bCOVERAGE_\w+|\bCOV_CORE_\w+|\bpytest_cov\b`)
	codeFile           = regexp.MustCompile(`\.(go|py|[cm]?[jt]sx?)$`)
)

// AskedFor reports whether code in a checkout asks whether coverage is measured, as tests do that
// skip themselves then.
func (c Coverage) AskedFor(root string) bool {
	if c.asks == nil {
		return false
	}
	t, err := openTree(root)
	if err != nil {
		return true
	}
	defer t.close()
	return slices.ContainsFunc(t.files, func(f string) bool { return codeFile.MatchString(f) && c.asks.MatchString(t.read(f)) })
}

// Measured returns the command with the options of a way to measure coverage, limited to a time. The
// command is still shown without them.
func (i Invocation) Measured(way Coverage, dir string, most time.Duration) Invocation {
	if way.With == nil {
		return i
	}
	shown := i.typed
	if len(shown) == 0 {
		shown = i.Args
	}
	i.Args = slices.Clone(i.Args)
	i = way.With(i, dir)
	i.typed, i.Most = shown, most
	return i
}

// CoverageDir returns a new directory for coverage reports, relative to the root.
func CoverageDir() string { return path.Join(output.ScratchDir, "coverage-"+secret()) }

// OwnCoverage returns globs of the reports that the repository's own commands usually write: those
// of a command that runs in dir.
func OwnCoverage(dir string) []string {
	var out []string
	for _, at := range []string{".", dir} {
		for _, name := range []string{
			"lcov.info", "coverage/lcov.info", "coverage.lcov", "coverage.xml", "cobertura.xml", "coverage/cobertura-coverage.xml", "coverage/coverage.xml",
			"coverage.out", "cover.out", "c.out", "coverage.txt", "target/site/jacoco/jacoco.xml", "build/reports/jacoco/test/jacocoTestReport.xml",
		} {
			out = append(out, path.Join(at, name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// maxCrossCovered is the greatest number of test packages of a Go module of which each measures the
// code of all packages. The profile contains that code once for each of them. In a larger module,
// each package measures its own code.
const maxCrossCovered = 30

// CoverOptions are the options of go test that choose which packages of the module are measured.
func (m GoModule) CoverOptions() []string {
	if m.tests <= maxCrossCovered {
		return []string{"-cover", "-coverpkg=" + strings.Join(m.Patterns, ",")}
	}
	return []string{"-cover"}
}

// goCoverage measures coverage with the go tool.
func goCoverage(m GoModule) []Coverage {
	return []Coverage{{asks: goAsksCoverage, With: func(inv Invocation, dir string) Invocation {
		inv.Args = slices.Insert(inv.Args, 2, append(m.CoverOptions(), "-coverprofile="+up(m.Dir, path.Join(dir, "go.out")))...)
		return inv
	}}}
}

// nodeLCOV exits with 0 if node's test runner can write lcov reports.
const nodeLCOV = `process.exit(require("node:test/reporters").lcov ? 0 : 1)`

// nodeCoverage measures coverage with node's test runner.
func nodeCoverage(dir string) []Coverage {
	return []Coverage{{
		Probe: []string{"node", "-e", nodeLCOV}, asks: nodeAsksCoverage,
		With: func(inv Invocation, to string) Invocation {
			inv.Args = slices.Insert(inv.Args, slices.Index(inv.Args, "--test-reporter=tap")+1, "--test-reporter-destination=stdout",
				"--experimental-test-coverage", "--test-reporter=lcov", "--test-reporter-destination="+up(dir, path.Join(to, "lcov.info")))
			return inv
		},
	}}
}

// vitestHas exits with 0 if a coverage provider of vitest is installed where node finds it.
const vitestHas = `try { require.resolve("@vitest/coverage-" + process.argv[1], {paths: [process.cwd()]}) }
catch (e) { process.exit(e.code === "ERR_PACKAGE_PATH_NOT_EXPORTED" ? 0 : 1) }`

// coverage measures coverage with the runner that a script starts, to which the last arguments
// of the script belong. A project that measures coverage in each run keeps its own settings, because
// its thresholds decide.
func (c runnerCall) coverage(t *checkout, dir string) []Coverage {
	if hasOption(c.args, "--coverage", "--collectCoverage", "--collect-coverage") || measuresAlways(t, dir) {
		return nil
	}
	with := func(options ...string) func(Invocation, string) Invocation {
		return func(inv Invocation, to string) Invocation {
			for _, o := range options {
				inv.Args = append(inv.Args, strings.ReplaceAll(o, "DIR", up(dir, to)))
			}
			return inv
		}
	}
	switch c.runner {
	case "jest":
		return []Coverage{{asks: nodeAsksCoverage, With: with("--coverage", "--coverageReporters=lcovonly", "--coverageDirectory=DIR", "--coverageThreshold={}")}}
	case "vitest":
		var ways []Coverage
		for _, provider := range []string{"v8", "istanbul"} {
			ways = append(ways, Coverage{
				Probe: []string{"node", "-e", vitestHas, provider}, asks: nodeAsksCoverage,
				With: with("--coverage.enabled=true", "--coverage.provider="+provider, "--coverage.reporter=lcovonly", "--coverage.reportsDirectory=DIR",
					"--coverage.thresholds.lines=0", "--coverage.thresholds.functions=0", "--coverage.thresholds.branches=0", "--coverage.thresholds.statements=0"),
			})
		}
		return ways
	}
	return nil
}

var (
	runnerConfig  = regexp.MustCompile(`^(package\.json|(jest|vitest|vite)(\.\w+)*\.\w+)$`)
	alwaysCovered = regexp.MustCompile(`collectCoverage["']?\s*:\s*true|coverage["']?\s*:\s*\{[^{}]*enabled["']?\s*:\s*true`)
)

// measuresAlways reports whether the configuration of a test runner in dir, or above it, enables
// coverage.
func measuresAlways(t *checkout, dir string) bool {
	return slices.ContainsFunc(t.files, func(f string) bool {
		return runnerConfig.MatchString(path.Base(f)) && output.Below(dir, path.Dir(f)) && alwaysCovered.MatchString(t.read(f))
	})
}

// hasCoverageAlone exits with 0 if coverage.py is installed, and tests are not distributed over
// processes, which it does not follow without pytest-cov.
const hasCoverageAlone = `import sys
sys.path = [p for p in sys.path if p not in ("", ".")]
import importlib.util as u
sys.exit(u.find_spec("coverage") is None or u.find_spec("xdist") is not None)`

var (
	coverageSource = regexp.MustCompile(`(?m)^\s*source(_pkgs|_dirs)?\s*=`)
	pytestCovers   = regexp.MustCompile(`--cov\b|--cov=`)
	pytestOptions  = []string{"pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini", ".pytest.ini", "pytest.toml"}
)

// pytestCoverage measures coverage with pytest-cov or coverage.py, whichever is installed.
func pytestCoverage(t *checkout) []Coverage {
	has := func(re *regexp.Regexp) func(string) bool {
		return func(f string) bool { return t.has(f) && re.MatchString(t.read(f)) }
	}
	own := slices.ContainsFunc(pytestOptions, has(pytestCovers))
	chosen := slices.ContainsFunc([]string{".coveragerc", "setup.cfg", "tox.ini", "pyproject.toml"}, has(coverageSource))
	plugin := Coverage{
		Probe: []string{"python3", "-c", pythonHas, "pytest_cov"}, asks: pythonAsksCoverage,
		With: func(inv Invocation, dir string) Invocation {
			options := []string{"--cov-report=xml:" + path.Join(dir, "coverage.xml")}
			if !own { // otherwise the project measures in each run, and its threshold decides
				inv.Env = WithEnv(inv.Env, map[string]string{"COVERAGE_FILE": path.Join(dir, "data")})
				from := "--cov=."
				if chosen {
					from = "--cov" // an option follows, not a value
				}
				options = append(options, from, "--cov-fail-under=0")
			}
			inv.Args = slices.Insert(inv.Args, slices.Index(inv.Args, "pytest")+1, options...)
			return inv
		},
	}
	if own {
		return []Coverage{plugin}
	}
	return []Coverage{plugin, coveragePy(chosen)}
}

// coveragePy measures coverage with coverage.py. chosen reports whether the project selects the
// measured files; otherwise those in the working directory are measured, even if no test imports
// them.
func coveragePy(chosen bool) Coverage {
	return Coverage{
		Probe: []string{"python3", "-c", hasCoverageAlone}, asks: pythonAsksCoverage,
		With: func(inv Invocation, dir string) Invocation {
			options := []string{"-m", "coverage", "run"}
			if !chosen {
				options = append(options, "--source=.")
			}
			inv.Env = WithEnv(inv.Env, map[string]string{"COVERAGE_FILE": path.Join(dir, "data")})
			inv.Args = slices.Insert(inv.Args, 1, options...)
			return inv
		},
		Convert: func(dir string) string {
			// A project may make several processes write their own data.
			return "python3 -m coverage combine -q >/dev/null 2>&1; python3 -m coverage xml -i --fail-under=0 -o " + sandbox.Quote(path.Join(dir, "coverage.xml"))
		},
	}
}
