package verify

import (
	"regexp"

	"github.com/rocketgpt/orchestrator/contract"
)

var makeTarget = regexp.MustCompile(`(?m)^(build|test|lint)\s*::?(?:[^=]|$)`)

// planMake offers the targets build, test and lint; they are taken for stages
// that nothing else is known for.
func planMake(t *tree) []job {
	for _, f := range []string{"GNUmakefile", "makefile", "Makefile"} {
		if !t.has(f) {
			continue
		}
		var jobs []job
		found := map[string]bool{}
		for _, m := range makeTarget.FindAllStringSubmatch(t.read(f), -1) {
			found[m[1]] = true
		}
		for _, c := range []contract.Category{contract.CategoryBuild, contract.CategoryTest, contract.CategoryLint} {
			if !found[string(c)] {
				continue
			}
			run := invocation{args: []string{"make", string(c)}, format: FormatAuto}
			if c == contract.CategoryTest {
				jobs = append(jobs, shardJobs("make", "make test", [][]invocation{{run}})...)
			} else {
				jobs = append(jobs, simpleJob(c, "make", "make "+string(c), run))
			}
		}
		return jobs
	}
	return nil
}
