// Package checks plans the checks of a checkout: what to build, test, lint and scan,
// based on the settings and on the files of each language and tool.
//
// Planning reads files and executes nothing. The same files and settings give the same
// plan on every host.
package checks

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// Pipeline is the list of checks that verify a checkout.
type Pipeline struct {
	// Stages lists the checks. Checks of the same stage may run in parallel; a stage starts when
	// the previous one has finished.
	Stages [][]contract.Check
	jobs   map[string]Job
}

// Job returns the job of a check.
func (p Pipeline) Job(checkID string) (Job, bool) {
	j, ok := p.jobs[checkID]
	return j, ok
}

// Command returns the commands of a check as a person would type them, one per line. It is empty
// for a check that only reports findings.
func (p Pipeline) Command(checkID string) string {
	var all []string
	for _, run := range p.jobs[checkID].Invocations {
		all = append(all, run.String())
	}
	return strings.Join(all, "\n")
}

// scratch returns a path in ScratchDir for one project.
func scratch(kind, dir string, shard int) string {
	where := cmp.Or(slug(dir), "root")
	return path.Join(output.ScratchDir, fmt.Sprintf("%s-%s-%d", kind, where, shard))
}

// planner plans the jobs of one family of tools.
type planner func(t *checkout, p planning) []Job

// planning is the part of the settings that planners need.
type planning struct {
	shards    int
	network   []string // verification.build.network
	databases Databases
	durations Durations
	recording recording
}

var planners = []planner{planGo, planNode, planPlaywright, planPython, planRust, planJava, planSecurity}

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
	p := Pipeline{jobs: map[string]Job{}}
	for _, c := range contract.Categories() {
		p.add(stage(c, s, found[c])...)
	}
	return p, nil
}

func (p *Pipeline) add(jobs ...Job) {
	var checks []contract.Check
	for _, j := range jobs {
		p.jobs[j.Check.ID] = j
		checks = append(checks, j.Check)
	}
	if len(checks) > 0 {
		p.Stages = append(p.Stages, checks)
	}
}

// detect runs every planner and then tries CMake, Automake and Make, in this order, for the stages
// that are still empty.
func detect(t *checkout, s Settings) map[contract.Category][]Job {
	found := map[contract.Category][]Job{}
	if !s.AutoDetect {
		return found
	}
	p := planning{shards: max(1, s.Shards), network: s.Build.Network, databases: s.Databases, durations: s.Durations, recording: s.recording()}
	for _, plan := range planners {
		for _, j := range plan(t, p) {
			found[j.Check.Category] = append(found[j.Check.Category], j)
		}
	}
	for _, j := range append(planC(t), planMake(t)...) {
		if len(found[j.Check.Category]) == 0 {
			found[j.Check.Category] = []Job{j}
		}
	}
	return found
}

// stage returns the jobs of a category: the configured ones, otherwise the detected ones.
func stage(c contract.Category, s Settings, found []Job) []Job {
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
		found[i].Severity = set.Severity
		found[i].Required = set.Enabled == SwitchOn
		addNetwork(found[i].Invocations, set.Network)
	}
	if len(found) == 0 {
		return nothingToRun(c, set.Enabled, s.RequireTests)
	}
	return found
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// nothingToRun reports an empty stage if it matters.
func nothingToRun(c contract.Category, enabled Switch, requireTests bool) []Job {
	j := Job{Check: contract.Check{ID: string(c) + "-none", Category: c, Name: "nothing to " + verb[c]}}
	switch {
	case c == contract.CategoryTest:
		j.Known = []contract.Finding{NoTests("no tests were found", contract.SeverityMinor, requireTests || enabled == SwitchOn)}
	case enabled == SwitchOn:
		j.Known = []contract.Finding{{
			Severity: contract.SeverityMajor, Category: c,
			Message: fmt.Sprintf("verification.%s is enabled, but no command is configured or detected: set verification.%s.command", c, c),
		}}
	default:
		return nil
	}
	return []Job{j}
}

var verb = map[contract.Category]string{
	contract.CategoryBuild: "build", contract.CategoryTest: "test", contract.CategoryLint: "lint",
	contract.CategorySecurity: "scan",
}

// shardJobs numbers the shards of one kind of tests: test-go-1, test-go-2.
func shardJobs(kind, title string, shards [][]Invocation) []Job {
	jobs := make([]Job, len(shards))
	for n, runs := range shards {
		c := contract.Check{ID: fmt.Sprintf("test-%s-%d", kind, n+1), Category: contract.CategoryTest, Name: title}
		if len(shards) > 1 {
			c.Shard, c.Shards = n+1, len(shards)
			c.Name = fmt.Sprintf("%s, shard %d of %d", title, n+1, len(shards))
		}
		jobs[n] = Job{Check: c, Invocations: runs}
	}
	return jobs
}

func simpleJob(c contract.Category, kind, title string, runs ...Invocation) Job {
	return Job{Check: contract.Check{ID: string(c) + "-" + kind, Category: c, Name: title}, Invocations: runs}
}

var notSlug = regexp.MustCompile(`[^a-z0-9]+`)

// slug turns a name into a check id.
func slug(s string) string {
	return strings.Trim(output.Bound(notSlug.ReplaceAllString(strings.ToLower(s), "-"), 40), "-")
}

// groupByDir groups files by project; a file belongs to the innermost one.
func groupByDir(dirs, files []string) map[string][]string {
	groups := map[string][]string{}
	for _, f := range files {
		owner, best := "", -1
		for _, d := range dirs {
			if output.Below(f, d) && len(d) > best {
				owner, best = d, len(d)
			}
		}
		if best >= 0 {
			groups[owner] = append(groups[owner], f)
		}
	}
	return groups
}

// TestRuns returns the commands of all test checks.
func (p Pipeline) TestRuns() []Invocation {
	var runs []Invocation
	for _, stage := range p.Stages {
		for _, c := range stage {
			if j := p.jobs[c.ID]; c.Category == contract.CategoryTest {
				runs = append(runs, j.Invocations...)
			}
		}
	}
	return runs
}
