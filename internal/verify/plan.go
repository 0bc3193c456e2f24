package verify

import (
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/pin"
)

// Pipeline is what the verification of a checkout consists of.
type Pipeline struct {
	// Stages lists the checks: those of a stage may run side by side, a stage
	// starts when the one before has ended.
	Stages [][]contract.Check
	jobs   map[string]job
}

// Command is what a check runs, as a person would type it: one line for each
// command. It is empty for a check that only reports.
func (p Pipeline) Command(checkID string) string {
	var all []string
	for _, run := range p.jobs[checkID].runs {
		all = append(all, run.String())
	}
	return strings.Join(all, "\n")
}

// job is how a check is carried out.
type job struct {
	check    contract.Check
	runs     []invocation       // one after the other
	known    []contract.Finding // what planning found already
	severity contract.Severity  // of errors; empty: the category's default
	timeout  time.Duration      // 0: Env.Limits
}

// invocation is one command of a check.
type invocation struct {
	args    []string // either args
	shell   string   // or shell
	typed   []string // what a person would type instead, where args are more roundabout
	dir     string   // working directory, slash-separated, relative to the root
	env     map[string]string
	format  Format
	reports []string // globs of the reports it writes, relative to the root
	network []string // hosts that it may reach

	setup    bool // makes what the next commands need; where it fails they do not run
	advisory bool // its exit code says nothing
	// runner says that it starts a test runner, so that what is red and names no
	// test is no test itself.
	runner bool
	// orText lets what is printed count where no report was written.
	orText bool
	// printed reads the runner's own account of its tests out of what it prints,
	// where its report counts otherwise.
	printed func(stdout, stderr []byte) *contract.TestSummary
	probe   []string    // when this ends with 0 the invocation runs, else instead
	instead *invocation // nil: nothing

	// source is a folder of Python packages; see run.withSource.
	source string
	goDirs map[string]string // Go modules: path → directory
	// canary adds to the command a test of a random name that runs last; see canary.go.
	// nil: its runner has no place for one.
	canary func(root *os.Root, inv invocation, secret string) (invocation, error)
	// ended holds the results against what shows that the tests ran to their end; nil:
	// not done.
	ended func(e *execution, s site)
	// hidden is a test of go test that is not to be shown.
	hidden string
	// audit holds the results against the sources; nil: not done.
	audit func(root *os.Root, s site, p *parsed)
	// again narrows the command to failed cases; nil runs all of it again.
	again func(failed []testCase) invocation
	// only narrows the command to some tests, and says which of them it runs; nil
	// runs all of it for all of them.
	only func(tests []pin.Added) (invocation, []pin.Added)
}

// String is the command as a person would type it.
func (i invocation) String() string {
	text := i.shell
	switch {
	case len(i.typed) > 0:
		text = quoted(i.typed)
	case text == "":
		text = quoted(i.args)
	}
	if i.dir != "" && i.dir != "." {
		text = "(cd " + quote(i.dir) + " && " + text + ")"
	}
	return text
}

func quoted(args []string) string {
	parts := make([]string, len(args))
	for n, a := range args {
		parts[n] = quote(a)
	}
	return strings.Join(parts, " ")
}

var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// quote makes one word of s for a POSIX shell.
func quote(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// scratchDir is where detected commands write their reports: inside the
// checkout, as nothing else outlives the sandbox. The name begins with a dot
// so that linters and test runners leave it alone.
const scratchDir = ".rgpt-verify"

// scratch is a name of one project's own in scratchDir.
func scratch(kind, dir string, shard int) string {
	where := slug(dir)
	if where == "" {
		where = "root"
	}
	return path.Join(scratchDir, fmt.Sprintf("%s-%s-%d", kind, where, shard))
}

// ecosystem finds what there is to do for one family of tools. It looks at
// files only; nothing of the checkout is executed to plan.
type ecosystem func(t *tree, p planning) []job

// planning is what ecosystems need to know of the settings.
type planning struct {
	shards  int
	network []string // verification.build.network
}

var ecosystems = []ecosystem{planGo, planNode, planPlaywright, planPython, planRust, planJava}

// Plan lists the checks of a checkout. The same files and settings give the
// same plan on every host, so that a check planned on one runs on another.
func Plan(root string, s Settings) (Pipeline, error) {
	if err := s.check(); err != nil {
		return Pipeline{}, err
	}
	t, err := openTree(root)
	if err != nil {
		return Pipeline{}, fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "the checkout cannot be read")
	}
	defer t.close()
	found := detect(t, s)
	p := Pipeline{jobs: map[string]job{}}
	for _, c := range contract.Categories() {
		p.add(stage(c, s, found[c])...)
	}
	return p, nil
}

func (p *Pipeline) add(jobs ...job) {
	var checks []contract.Check
	for _, j := range jobs {
		p.jobs[j.check.ID] = j
		checks = append(checks, j.check)
	}
	if len(checks) > 0 {
		p.Stages = append(p.Stages, checks)
	}
}

// detect asks every ecosystem, and then CMake, Automake and Make, in this order, for
// the stages that nothing before knows.
func detect(t *tree, s Settings) map[contract.Category][]job {
	found := map[contract.Category][]job{}
	if !s.AutoDetect {
		return found
	}
	p := planning{shards: max(1, s.Shards), network: s.Build.Network}
	for _, plan := range ecosystems {
		for _, j := range plan(t, p) {
			found[j.check.Category] = append(found[j.check.Category], j)
		}
	}
	for _, j := range append(planC(t), planMake(t)...) {
		if len(found[j.check.Category]) == 0 {
			found[j.check.Category] = []job{j}
		}
	}
	return found
}

// stage is the list of jobs of a category: what is configured, else what was
// detected.
func stage(c contract.Category, s Settings, found []job) []job {
	if c == contract.CategoryCustom {
		return customJobs(s.Custom)
	}
	set := s.stage(c)
	if set.Enabled == SwitchOff {
		return nil
	}
	if set.Command != "" {
		return configuredJobs(c, set, s.Shards)
	}
	for i := range found {
		found[i].severity = set.Severity
		allowNetwork(found[i].runs, set.Network)
	}
	if len(found) == 0 {
		return nothingToRun(c, set.Enabled, s.RequireTests)
	}
	return found
}

// allowNetwork lets commands reach more hosts.
func allowNetwork(runs []invocation, hosts []string) {
	for n := range runs {
		runs[n].network = union(runs[n].network, hosts)
	}
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// nothingToRun makes the absence of a stage visible where it matters.
func nothingToRun(c contract.Category, enabled Switch, requireTests bool) []job {
	j := job{check: contract.Check{ID: string(c) + "-none", Category: c, Name: "nothing to " + verb[c]}}
	switch {
	case c == contract.CategoryTest:
		j.known = []contract.Finding{noTests("no tests were found", contract.SeverityMinor, requireTests || enabled == SwitchOn)}
	case enabled == SwitchOn:
		j.known = []contract.Finding{{
			Severity: contract.SeverityMajor, Category: c,
			Message: fmt.Sprintf("verification.%s is switched on, but nothing is configured or detected: set verification.%s.command", c, c),
		}}
	default:
		return nil
	}
	return []job{j}
}

var verb = map[contract.Category]string{
	contract.CategoryBuild: "build", contract.CategoryTest: "test", contract.CategoryLint: "lint",
	contract.CategorySecurity: "scan",
}

func (s Settings) stage(c contract.Category) StageSettings {
	switch c {
	case contract.CategoryBuild:
		return s.Build
	case contract.CategoryTest:
		return s.Test
	case contract.CategoryLint:
		return s.Lint
	default:
		return s.Security
	}
}

// check refuses settings that would be read differently than meant.
func (s Settings) check() error {
	for _, c := range contract.Categories()[:4] {
		set := s.stage(c)
		key := "verification." + string(c)
		if !slices.Contains([]Switch{"", SwitchAuto, SwitchOn, SwitchOff}, set.Enabled) {
			return badSetting("%s.enabled is %q: use auto, true or false", key, set.Enabled)
		}
		if err := checkCommand(key, set.Format, set.Severity, set.Report); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for n, c := range s.Custom {
		key := fmt.Sprintf("verification.custom[%d]", n)
		switch {
		case c.Command == "":
			return badSetting("%s.command is missing", key)
		case slug(c.Name) == "":
			return badSetting("%s.name is missing", key)
		case seen[slug(c.Name)]:
			return badSetting("%s.name %q is used twice", key, c.Name)
		}
		seen[slug(c.Name)] = true
		if err := checkCommand(key, c.Format, c.Severity, c.Report); err != nil {
			return err
		}
	}
	return nil
}

var formats = []Format{"", FormatAuto, FormatGoTest, FormatJUnit, FormatSARIF, FormatTAP, FormatPlaywright, FormatExitCode}

func checkCommand(key string, f Format, sev contract.Severity, report string) error {
	switch {
	case !slices.Contains(formats, f):
		return badSetting("%s.format is %q: use one of auto, go-test-json, junit, sarif, tap, playwright, exit-code", key, f)
	case !slices.Contains([]contract.Severity{"", contract.SeverityMajor, contract.SeverityMedium, contract.SeverityMinor}, sev):
		return badSetting("%s.severity is %q: use major, medium or minor", key, sev)
	case report != "" && checkGlob(report) != nil:
		return badSetting("%s.report: %.200q %v", key, report, checkGlob(report))
	}
	return nil
}

func badSetting(format string, args ...any) error {
	return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, format, args...)
}

// shardJobs numbers the shards of one kind of tests: test-go-1, test-go-2.
func shardJobs(kind, title string, shards [][]invocation) []job {
	jobs := make([]job, len(shards))
	for n, runs := range shards {
		c := contract.Check{ID: fmt.Sprintf("test-%s-%d", kind, n+1), Category: contract.CategoryTest, Name: title}
		if len(shards) > 1 {
			c.Shard, c.Shards = n+1, len(shards)
			c.Name = fmt.Sprintf("%s, shard %d of %d", title, n+1, len(shards))
		}
		jobs[n] = job{check: c, runs: runs}
	}
	return jobs
}

func simpleJob(c contract.Category, kind, title string, runs ...invocation) job {
	return job{check: contract.Check{ID: string(c) + "-" + kind, Category: c, Name: title}, runs: runs}
}

var notSlug = regexp.MustCompile(`[^a-z0-9]+`)

// slug makes a check id of a name.
func slug(s string) string {
	return strings.Trim(bound(notSlug.ReplaceAllString(strings.ToLower(s), "-"), 40), "-")
}

func withEnv(base map[string]string, more map[string]string) map[string]string {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, more)
	return out
}

// groupByDir splits files among the projects they belong to; a file belongs to
// the innermost.
func groupByDir(dirs, files []string) map[string][]string {
	groups := map[string][]string{}
	for _, f := range files {
		owner, best := "", -1
		for _, d := range dirs {
			if below(f, d) && len(d) > best {
				owner, best = d, len(d)
			}
		}
		if best >= 0 {
			groups[owner] = append(groups[owner], f)
		}
	}
	return groups
}
