package verify

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
)

// manifest is what matters of a package.json.
type manifest struct {
	Scripts         map[string]string `json:"scripts"`
	Dependencies    map[string]string `json:"dependencies"`
	DevDependencies map[string]string `json:"devDependencies"`
}

// nodeProject is a directory with a package.json, or the root of a checkout
// that has node:test files without one.
type nodeProject struct {
	dir      string
	manifest manifest
	install  *invocation // brings the dependencies; nil: none missing
	blocked  bool        // dependencies are missing and the network is not allowed
}

// nodeEnv keeps npm from asking the registry about itself and tools from
// waiting for a terminal.
var nodeEnv = map[string]string{
	"CI": "1", "NO_COLOR": "1", "NO_UPDATE_NOTIFIER": "1",
	"npm_config_update_notifier": "false", "npm_config_audit": "false", "npm_config_fund": "false",
}

// planNode runs the scripts build, test and lint, and node's own test runner.
func planNode(t *tree, p planning) []job {
	var jobs []job
	projects := nodeProjects(t, p.network)
	jobs = append(jobs, nodeBuild(projects)...)
	jobs = append(jobs, nodeTests(t, projects, p.shards)...)
	if lint := nodeScripts(projects, "lint"); len(lint) > 0 {
		jobs = append(jobs, simpleJob(contract.CategoryLint, "node", "npm run lint", lint...))
	}
	return jobs
}

func nodeProjects(t *tree, network []string) []nodeProject {
	dirs := t.projects("package.json")
	if len(dirs) == 0 {
		dirs = []string{"."}
	}
	var projects []nodeProject
	for _, dir := range dirs {
		p := nodeProject{dir: dir}
		// A broken package.json is for npm to complain about.
		_ = json.Unmarshal([]byte(t.read(path.Join(dir, "package.json"))), &p.manifest)
		p.needs(t, network)
		projects = append(projects, p)
	}
	return projects
}

// lockFiles and the command that installs by them, npm's first.
var lockFiles = []struct {
	name    string
	command []string
}{
	{"package-lock.json", []string{"npm", "ci", "--prefer-offline"}},
	{"npm-shrinkwrap.json", []string{"npm", "ci", "--prefer-offline"}},
	{"pnpm-lock.yaml", []string{"pnpm", "install", "--frozen-lockfile", "--prefer-offline"}},
	{"yarn.lock", []string{"yarn", "install", "--frozen-lockfile"}},
}

// needs finds out whether dependencies are missing.
func (p *nodeProject) needs(t *tree, network []string) {
	wanted := len(p.manifest.Dependencies) + len(p.manifest.DevDependencies)
	if wanted == 0 || t.exists(path.Join(p.dir, "node_modules")) {
		return
	}
	for _, lock := range lockFiles {
		if !t.has(path.Join(p.dir, lock.name)) {
			continue
		}
		if len(network) == 0 {
			p.blocked = true
			return
		}
		p.install = &invocation{args: lock.command, dir: p.dir, env: nodeEnv, format: FormatExitCode, network: network, prepare: true}
		return
	}
}

// prepared puts the installation before a project's command: each check may
// have a checkout of its own.
func (p nodeProject) prepared(runs ...invocation) []invocation {
	if p.install == nil {
		return runs
	}
	return append([]invocation{*p.install}, runs...)
}

// nodeBuild runs the script build, and tells about dependencies that may not
// be fetched. The finding is medium: the tests say whether it matters.
func nodeBuild(projects []nodeProject) []job {
	j := simpleJob(contract.CategoryBuild, "node", "npm run build")
	for _, p := range projects {
		if p.blocked {
			j.known = append(j.known, contract.Finding{
				Severity: contract.SeverityMedium, Category: contract.CategoryBuild, Rule: ruleDependencies,
				Location: path.Join(p.dir, "package.json"),
				Message:  "dependencies are not installed and the network is not allowed: set verification.build.network to the hosts that have them, such as [registry.npmjs.org], or give installed packages to the worker",
			})
		}
		if p.manifest.Scripts["build"] != "" {
			j.runs = append(j.runs, p.prepared(p.script("build"))...)
		} else {
			j.runs = append(j.runs, p.prepared()...)
		}
	}
	if len(j.runs)+len(j.known) == 0 {
		return nil
	}
	if len(j.runs) == 0 {
		j.check.Name = "Node dependencies"
	}
	return []job{j}
}

// ruleDependencies marks the finding that packages are missing.
const ruleDependencies = "dependencies"

// withPackages is the job where the worker gives installed packages: nothing
// is missing and nothing is to be installed.
func (j job) withPackages() job {
	j.known = slices.DeleteFunc(j.known, func(f contract.Finding) bool { return f.Rule == ruleDependencies })
	j.runs = slices.DeleteFunc(j.runs, func(i invocation) bool { return i.prepare })
	return j
}

func nodeScripts(projects []nodeProject, script string) []invocation {
	var runs []invocation
	for _, p := range projects {
		if p.manifest.Scripts[script] != "" {
			runs = append(runs, p.prepared(p.script(script))...)
		}
	}
	return runs
}

func (p nodeProject) script(name string, args ...string) invocation {
	command := []string{"npm", "run", "--silent", name}
	if len(args) > 0 {
		command = append(append(command, "--"), args...)
	}
	return invocation{args: command, dir: p.dir, env: nodeEnv, format: FormatExitCode}
}

var (
	// npm init writes this script; it means that there are none.
	noTestScript = regexp.MustCompile(`no test specified`)
	bareRunner   = regexp.MustCompile(`^\s*node\s+--test\s*$`)
	nodeRunner   = regexp.MustCompile(`\bnode\b[^|;&]*\s--test(\s|$)`)
	// What node's runner takes for tests when it is given no files.
	nodeTestName = regexp.MustCompile(`(^|/)(test|test-[^/]+|[^/]+[._-]test)\.[cm]?js$`)
	nodeSource   = regexp.MustCompile(`\.[cm]?js$`)
	usesNodeTest = regexp.MustCompile(`['"\x60]node:test['"\x60]`)
	usesPW       = regexp.MustCompile(`['"\x60]@playwright/test['"\x60]`)
)

// nodeTests makes the test checks: files dealt to shards where node's runner
// runs them, the script test where something else does.
func nodeTests(t *tree, projects []nodeProject, shards int) []job {
	dirs := make([]string, len(projects))
	for n, p := range projects {
		dirs[n] = p.dir
	}
	files := groupByDir(dirs, t.match(func(f string) bool { return isNodeTest(t, f) }))
	var own []string
	var scripts []invocation
	for _, p := range projects {
		script := p.manifest.Scripts["test"]
		switch {
		case script == "" || noTestScript.MatchString(script) || bareRunner.MatchString(script):
			own = append(own, files[p.dir]...)
		case usesPlaywrightOnly(script):
		default:
			scripts = append(scripts, p.prepared(p.testScript(script))...)
		}
	}
	var all [][]invocation
	if len(own) > 0 {
		for _, shard := range roundRobin(own, shards) {
			all = append(all, nodeShard(projects, groupByDir(dirs, shard)))
		}
	}
	if len(scripts) > 0 && len(all) == 0 {
		all = [][]invocation{nil}
	}
	if len(all) == 0 {
		return nil
	}
	all[0] = append(all[0], scripts...)
	return shardJobs("node", "Node tests", all)
}

func usesPlaywrightOnly(script string) bool {
	return strings.Contains(script, "playwright test")
}

// isNodeTest: what node's runner would find by name, and what says that it is
// written for it.
func isNodeTest(t *tree, f string) bool {
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

func nodeShard(projects []nodeProject, files map[string][]string) []invocation {
	var runs []invocation
	for _, dir := range slices.Sorted(maps.Keys(files)) {
		n := slices.IndexFunc(projects, func(p nodeProject) bool { return p.dir == dir })
		runs = append(runs, projects[n].prepared(nodeTest(dir, files[dir]))...)
	}
	return runs
}

func nodeTest(dir string, files []string) invocation {
	args := []string{"node", "--test", "--test-reporter=tap"}
	for _, f := range files {
		args = append(args, "./"+relTo(dir, f))
	}
	run := invocation{args: args, dir: dir, env: nodeEnv, format: FormatTAP}
	run.audit = func(root *os.Root, _ site, p *parsed) { silentFiles(root, files, p) }
	run.again = func(failed []testCase) invocation {
		if known := caseFiles(failed, files); len(known) > 0 {
			files = known
		}
		return nodeTest(dir, files)
	}
	run.only = func(tests []pin.Added) (invocation, []pin.Added) {
		covered, has := inFiles(tests, files)
		return nodeTest(dir, has), covered
	}
	return run
}

// silentFiles finds files that were written for node:test and reported no test
// of theirs, as when they leave by process.exit. The runner calls such a file a
// passed test; nothing in it has passed.
func silentFiles(root *os.Root, files []string, p *parsed) {
	for n, c := range p.cases {
		if c.Status != contract.TestPassed || !slices.Contains(files, c.Name) {
			continue
		}
		text, _ := readRegular(root, c.Name, maxSource)
		if !usesNodeTest.Match(text) {
			continue
		}
		p.cases[n].Status = contract.TestSkipped
		p.cases[n].Message = "the file ended without reporting a test"
		p.problems = append(p.problems, problem{
			level: levelWarning, path: c.Name, rule: ruleNoTests,
			message: "the file imports node:test and ended without reporting a test; it is not counted as passed",
		})
	}
}

// caseFiles are the files of failed cases, nil unless all are known to be
// among those that ran.
func caseFiles(failed []testCase, ran []string) []string {
	var files []string
	for _, c := range failed {
		if !slices.Contains(ran, c.file) {
			return nil
		}
		files = append(files, c.file)
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// testScript runs the script test of a project so that its results can be
// read: by a reporter of the runner that it names, else by what it prints.
func (p nodeProject) testScript(script string) invocation {
	run := p.reporting(script)
	whole := run
	run.only = func(tests []pin.Added) (invocation, []pin.Added) { return whole, inScripts(tests, p.dir) }
	return run
}

func (p nodeProject) reporting(script string) invocation {
	report := scratch("npm", p.dir, 1) + ".xml"
	switch {
	case nodeRunner.MatchString(script):
		run := p.script("test")
		run.format = FormatTAP
		run.env = withEnv(run.env, map[string]string{"NODE_OPTIONS": "--test-reporter=tap"})
		return run
	case strings.HasPrefix(strings.TrimSpace(script), "vitest"):
		run := p.script("test", "--run", "--reporter=default", "--reporter=junit", "--outputFile.junit="+up(p.dir, report))
		run.format, run.reports = FormatJUnit, []string{report}
		return run
	case strings.HasPrefix(strings.TrimSpace(script), "mocha"):
		run := p.script("test", "--reporter=tap")
		run.format = FormatTAP
		return run
	}
	run := p.script("test")
	run.format = FormatAuto
	return run
}
