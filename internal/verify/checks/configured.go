package checks

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// configuredJobs returns the checks of a stage with a user-defined command. Tests are sharded if
// the command uses its shard number.
func configuredJobs(c contract.Category, set StageSettings, shards int) []Job {
	if c != contract.CategoryTest || !knowsShards(set.Command) {
		shards = 1
	}
	shards = max(1, min(shards, maxShards))
	runs := make([][]Invocation, shards)
	for n := range runs {
		runs[n] = []Invocation{configured(set.Command, set.Format, set.Report, set.Network, n+1, shards)}
	}
	if c == contract.CategoryTest {
		jobs := shardJobs("configured", "configured tests", runs)
		for n := range jobs {
			jobs[n].Severity = set.Severity
		}
		return jobs
	}
	j := simpleJob(c, "configured", "configured "+string(c), runs[0]...)
	j.Severity = set.Severity
	return []Job{j}
}

func knowsShards(command string) bool {
	return strings.Contains(command, "{{shard}}") || strings.Contains(command, "RGPT_SHARD")
}

func configured(command string, f output.Format, report string, network []string, shard, shards int) Invocation {
	i, n := strconv.Itoa(shard), strconv.Itoa(shards)
	run := Invocation{
		Shell:   strings.NewReplacer("{{shard}}", i, "{{shards}}", n).Replace(command),
		Env:     map[string]string{"RGPT_SHARD": i, "RGPT_SHARDS": n},
		Format:  f,
		Network: network,
	}
	if report != "" {
		run.Reports = []string{strings.NewReplacer("{{shard}}", i, "{{shards}}", n).Replace(report)}
	}
	return run
}

func customJobs(custom []Custom) []Job {
	var jobs []Job
	for _, c := range custom {
		j := simpleJob(contract.CategoryCustom, slug(c.Name), output.Name(c.Name),
			configured(c.Command, c.Format, c.Report, c.Network, 1, 1))
		j.Severity, j.Timeout = c.Severity, c.Timeout
		jobs = append(jobs, j)
	}
	return jobs
}

// RuleNoTests marks the finding that no test ran.
const RuleNoTests = "no-tests"

// NoTests returns the finding for a check that ran no tests: major if tests are required, otherwise
// of the given severity.
func NoTests(what string, severity contract.Severity, required bool) contract.Finding {
	f := contract.Finding{Severity: severity, Category: contract.CategoryTest, Message: what, Rule: RuleNoTests}
	if required {
		f.Severity = contract.SeverityMajor
		f.Message = fmt.Sprintf("%s, and tests are required (verification.require_tests)", what)
	}
	return f
}
