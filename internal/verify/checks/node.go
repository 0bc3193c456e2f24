package checks

import (
	"encoding/json"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// manifest is the relevant part of a package.json.
type manifest struct {
	Scripts        map[string]string `json:"scripts"`
	PackageManager string            `json:"packageManager"`

	Main    json.RawMessage `json:"main"`
	Module  json.RawMessage `json:"module"`
	Bin     json.RawMessage `json:"bin"`
	Exports json.RawMessage `json:"exports"`
}

// nodeProject is a directory with a package.json, or the root of a checkout
// that has node:test files without one.
type nodeProject struct {
	dir      string
	manifest manifest
	manager  string // npm, pnpm, yarn or bun
}

// nodeEnv keeps npm from contacting the registry and tools from waiting for a terminal. It does not
// set colours, because some tests check them.
var nodeEnv = map[string]string{
	"CI": "1", "NO_UPDATE_NOTIFIER": "1",
	"npm_config_update_notifier": "false", "npm_config_audit": "false", "npm_config_fund": "false",
	// Package managers are already installed, and nothing can be downloaded.
	"COREPACK_ENABLE_NETWORK": "0", "COREPACK_ENABLE_STRICT": "0", "npm_config_manage_package_manager_versions": "false",
	"npm_config_verify_deps_before_run": "false", "YARN_ENABLE_TELEMETRY": "0",
}

// planNode runs the scripts build, test and lint, and node's own test runner.
func planNode(t *checkout, p planning) []Job {
	var jobs []Job
	projects := nodeProjects(t)
	if build := nodeScripts(projects, "build"); len(build) > 0 {
		jobs = append(jobs, simpleJob(contract.CategoryBuild, "node", projects[0].manager+" run build", build...))
	}
	jobs = append(jobs, nodeTests(t, projects, p)...)
	if lint := nodeScripts(projects, "lint"); len(lint) > 0 {
		jobs = append(jobs, simpleJob(contract.CategoryLint, "node", projects[0].manager+" run lint", lint...))
	}
	return jobs
}

func nodeProjects(t *checkout) []nodeProject {
	dirs := t.projects("package.json")
	if len(dirs) == 0 {
		dirs = []string{"."}
	}
	var projects []nodeProject
	for _, dir := range dirs {
		projects = append(projects, nodeProjectAt(t, dir))
	}
	return projects
}

func nodeProjectAt(t *checkout, dir string) nodeProject {
	p := nodeProject{dir: dir}
	// The package manager reports a broken package.json.
	_ = json.Unmarshal([]byte(t.read(path.Join(dir, "package.json"))), &p.manifest)
	p.manager = managerOf(t, dir, p.manifest.PackageManager)
	return p
}

// lockFiles identify the package manager of a project.
var lockFiles = []struct{ name, manager string }{
	{"package-lock.json", "npm"}, {"npm-shrinkwrap.json", "npm"},
	{"pnpm-lock.yaml", "pnpm"}, {"yarn.lock", "yarn"}, {"bun.lock", "bun"}, {"bun.lockb", "bun"},
}

// managerOf returns the package manager of a project: the one it names, otherwise the one whose
// lock file is in the project or in the root, otherwise npm.
func managerOf(t *checkout, dir, named string) string {
	named, _, _ = strings.Cut(named, "@")
	for _, lock := range lockFiles {
		if lock.manager == named {
			return named
		}
	}
	for _, at := range []string{dir, "."} {
		for _, lock := range lockFiles {
			if t.has(path.Join(at, lock.name)) {
				return lock.manager
			}
		}
	}
	return "npm"
}

func nodeScripts(projects []nodeProject, script string) []Invocation {
	var runs []Invocation
	for _, p := range projects {
		if p.manifest.Scripts[script] != "" {
			runs = append(runs, p.script(script))
		}
	}
	return runs
}

// script runs a script of the project with its package manager. All managers except npm pass on the
// arguments after the script name unchanged.
func (p nodeProject) script(name string, args ...string) Invocation {
	command := []string{p.manager, "run", name}
	switch p.manager {
	case "npm":
		command = []string{"npm", "run", "--silent", name}
		if len(args) > 0 {
			args = append([]string{"--"}, args...)
		}
	case "pnpm":
		command = []string{"pnpm", "--silent", "run", name}
	}
	return Invocation{Args: append(command, args...), Dir: p.dir, Env: nodeEnv, Format: output.FormatExitCode}
}

var (
	// npm init writes this script; it means that there are no tests.
	noTestScript = regexp.MustCompile(`no test specified`)
	bareRunner   = regexp.MustCompile(`^\s*node\s+--test\s*$`)
	// Files that node's runner treats as tests if it is given none.
	nodeTestName = regexp.MustCompile(`(^|/)(test|test-[^/]+|[^/]+[._-]test)\.[cm]?js$`)
	nodeSource   = regexp.MustCompile(`\.[cm]?js$`)
	usesNodeTest = regexp.MustCompile(`['"\x60]node:test['"\x60]`)
	// At the beginning of a line, no enclosing code can keep it from running.
	declaresNodeTest = regexp.MustCompile(`(?m)^(?:await\s+|void\s+)?(?:test|it|describe|suite)\s*\(`)
)

// nodeTests plans the test checks: files distributed over shards if node's runner runs them,
// otherwise the script test.
func nodeTests(t *checkout, projects []nodeProject, plan planning) []Job {
	dirs := make([]string, len(projects))
	for n, p := range projects {
		dirs[n] = p.dir
	}
	files := groupByDir(dirs, t.match(func(f string) bool { return isNodeTest(t, f) }))
	var own []string
	var scripts, setup []Invocation
	for _, p := range projects {
		script, build := p.manifest.Scripts["test"], []Invocation(nil)
		if p.testsItsBuild(t) {
			build = p.buildSetup(plan.network)
		}
		switch {
		case script == "" || noTestScript.MatchString(script) || bareRunner.MatchString(script):
			own = append(own, files[p.dir]...)
			setup = append(setup, build...)
		case p.onlyPlaywright("test"):
		default:
			scripts = append(withSetup(scripts, build), p.testScripts(t)...)
		}
	}
	var all [][]Invocation
	if len(own) > 0 {
		for _, shard := range roundRobin(own, plan.shards) {
			all = append(all, slices.Concat(setup, nodeShard(groupByDir(dirs, shard))))
		}
	}
	if len(scripts) > 0 && len(all) == 0 {
		all = [][]Invocation{nil}
	}
	if len(all) == 0 {
		return nil
	}
	all[0] = append(all[0], scripts...)
	return shardJobs("node", "Node tests", all)
}

// onlyPlaywright reports whether a script runs only Playwright, which has its own check.
func (p nodeProject) onlyPlaywright(script string) bool {
	s := runnersOf(p.manifest.Scripts, script)
	return len(s.calls) > 0 && !s.unknown && !slices.ContainsFunc(s.calls, func(c runnerCall) bool { return c.runner != "playwright" })
}

// isNodeTest reports whether node's runner would find a file by its name and the file is
// recognizably written for that runner.
func isNodeTest(t *checkout, f string) bool {
	if !nodeSource.MatchString(f) || inOutput(f) || inFixture(path.Dir(f)) {
		return false
	}
	byName := nodeTestName.MatchString(f)
	inTestDir := strings.Contains("/"+f, "/test/") || strings.Contains("/"+f, "/tests/")
	if !byName && !inTestDir && !strings.Contains(f, ".spec.") {
		return false
	}
	text := t.read(f)
	return !usesPW.MatchString(text) && (byName || usesNodeTest.MatchString(text))
}

func nodeShard(files map[string][]string) []Invocation {
	var runs []Invocation
	for _, dir := range slices.Sorted(maps.Keys(files)) {
		runs = append(runs, nodeTest(dir, files[dir]))
	}
	return runs
}

func nodeTest(dir string, files []string) Invocation {
	args := []string{"node", "--test", "--test-reporter=tap"}
	for _, f := range files {
		args = append(args, "./"+relTo(dir, f))
	}
	run := Invocation{Args: args, Dir: dir, Env: nodeEnv, Format: output.FormatTAP, Coverage: nodeCoverage(dir)}
	run.Audit = func(root *os.Root, _ output.Paths, p *output.Results) { silentFiles(root, files, p) }
	run.RerunFailed = func(failed []output.Case, _ int) Invocation {
		if known := caseFiles(failed, files); len(known) > 0 {
			files = known
		}
		return nodeTest(dir, files)
	}
	run.Only = func(tests []pin.Added) (Invocation, []pin.Added) {
		covered, has := inFiles(tests, files)
		return nodeTest(dir, has), covered
	}
	return run
}

// silentFiles finds files written for node:test that reported no tests, for example because they
// called process.exit. The runner counts such a file as a passed test although nothing in it
// passed. A file that declares tests unconditionally exited early; any other may only exist to be
// imported. Without a list of files, any file in the checkout may have run.
func silentFiles(root *os.Root, files []string, p *output.Results) {
	for n, c := range p.Cases {
		if c.Status != contract.TestPassed || files != nil && !slices.Contains(files, c.Name) {
			continue
		}
		text, _ := output.ReadRegular(root, c.Name, maxSource)
		if !usesNodeTest.Match(text) {
			continue
		}
		p.Cases[n].Status = contract.TestSkipped
		p.Cases[n].Message = "the file's process exited without reporting a test"
		if p.Reported != nil { // the runner counts it as a test that passed
			p.Reported.Passed, p.Reported.Skipped = max(0, p.Reported.Passed-1), p.Reported.Skipped+1
		}
		silent := output.Problem{
			Level: output.Warning, Path: c.Name, Rule: RuleNoTests,
			Message: "the file imports node:test, but its process exited without reporting a test; the file is not counted as passed",
		}
		if declaresNodeTest.Match(text) {
			silent.Level = output.Error
			silent.Message = "the file declares node:test tests, but its process exited with code 0 without reporting any: code under test ended the process early; look for process.exit in the imported and tested code"
		}
		p.Problems = append(p.Problems, silent)
	}
}

// caseFiles returns the files of failed cases, or nil unless all of these files are known to have
// run.
func caseFiles(failed []output.Case, ran []string) []string {
	var files []string
	for _, c := range failed {
		if !slices.Contains(ran, c.File) {
			return nil
		}
		files = append(files, c.File)
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// testScripts runs the script test of a project as the project does. If it runs other scripts, of
// which some run only Playwright, the others run instead of it.
func (p nodeProject) testScripts(t *checkout) []Invocation {
	calls := scriptsCalled(p.manifest.Scripts["test"])
	others := slices.DeleteFunc(slices.Clone(calls), func(c scriptCall) bool { return p.onlyPlaywright(c.script) })
	known := !slices.ContainsFunc(calls, func(c scriptCall) bool { return p.manifest.Scripts[c.script] == "" })
	if !known || len(others) == len(calls) || p.manifest.Scripts["posttest"] != "" {
		return []Invocation{p.testScript(t, scriptCall{script: "test"})}
	}
	var runs []Invocation
	if p.manifest.Scripts["pretest"] != "" {
		before := p.script("pretest")
		before.Setup = true
		runs = append(runs, before)
	}
	for _, c := range others {
		runs = append(runs, p.testScript(t, c))
	}
	return runs
}

// testScript runs a script with tests. If the script starts a single runner that its arguments
// reach, a reporter of that runner prints machine-readable results; otherwise the output is parsed.
func (p nodeProject) testScript(t *checkout, call scriptCall) Invocation {
	run := p.reporting(t, call)
	whole := run
	run.Only = func(tests []pin.Added) (Invocation, []pin.Added) { return whole, inScripts(tests, p.dir) }
	return run
}

func (p nodeProject) reporting(t *checkout, call scriptCall) Invocation {
	found := runnersOf(p.manifest.Scripts, call.script)
	if len(found.calls) != 1 || found.unknown {
		run := p.script(call.script, call.args...)
		run.Format, run.Runner = output.FormatAuto, len(found.calls) > 0
		return run
	}
	c := found.calls[0]
	if c.runner == "node" && !hasOption(c.args, "--test-reporter") {
		// This option reaches the runner anywhere in the script.
		run := p.script(call.script, call.args...)
		run.Format, run.Runner = output.FormatTAP, true
		run.Env = WithEnv(run.Env, map[string]string{"NODE_OPTIONS": "--test-reporter=tap"})
		run.Audit = func(root *os.Root, _ output.Paths, p *output.Results) { silentFiles(root, nil, p) }
		return run
	}
	args, f, report := c.reporter(p.dir, call.script)
	reached := c.last && args != nil
	if !reached {
		args, f, report = nil, output.FormatAuto, ""
	}
	args = slices.Concat(call.args, args)
	for range c.dashes {
		args = append([]string{"--"}, args...)
	}
	run := p.script(call.script, args...)
	run.Format, run.Runner = f, true
	if reached {
		run.Coverage = c.coverage(t, p.dir)
	}
	if report != "" {
		run.Reports, run.OrText = []string{report}, true
	}
	return run
}

// reporter returns the arguments that make a runner print its results in another format, in
// addition to or instead of its own, or nil if it has none.
func (c runnerCall) reporter(dir, script string) (args []string, f output.Format, report string) {
	kind := "node"
	if script != "test" {
		kind += "-" + slug(script)
	}
	report = scratch(kind, dir, 1)
	switch {
	case c.runner == "vitest" && !hasOption(c.args, "--outputFile", "--root", "-r", "--dir"):
		return []string{"--reporter=default", "--reporter=json", "--outputFile.json=" + up(dir, report+".json")}, output.FormatJest, report + ".json"
	case c.runner == "jest" && !hasOption(c.args, "--json", "--outputFile", "--rootDir", "--watch", "--watchAll"):
		return []string{"--json", "--outputFile=" + up(dir, report+".json")}, output.FormatJest, report + ".json"
	case c.runner == "bun" && !hasOption(c.args, "--reporter", "--reporter-outfile"):
		return []string{"--reporter=junit", "--reporter-outfile=" + up(dir, report+".xml")}, output.FormatJUnit, report + ".xml"
	case c.runner == "mocha":
		return []string{"--reporter=tap"}, output.FormatTAP, ""
	case c.runner == "ava" && !hasOption(c.args, "--tap", "-t"):
		return []string{"--tap"}, output.FormatAva, ""
	case c.runner == "tap":
		return []string{"--reporter=tap"}, output.FormatTAP, ""
	}
	return nil, output.FormatAuto, ""
}

// hasOption reports whether arguments contain one of some options, with a value or without.
func hasOption(args []string, options ...string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		a, _, _ = strings.Cut(a, "=")
		a, _, _ = strings.Cut(a, ".")
		return slices.Contains(options, a)
	})
}
