package verify

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// configuredJobs are the checks of a stage whose command the user gave. Tests
// are sharded when the command asks which shard it is.
func configuredJobs(c contract.Category, set StageSettings, shards int) []job {
	if c != contract.CategoryTest || !knowsShards(set.Command) {
		shards = 1
	}
	shards = max(1, min(shards, maxShards))
	runs := make([][]invocation, shards)
	for n := range runs {
		runs[n] = []invocation{configured(set.Command, set.Format, set.Report, set.Network, n+1, shards)}
	}
	if c == contract.CategoryTest {
		jobs := shardJobs("configured", "configured tests", runs)
		for n := range jobs {
			jobs[n].severity = set.Severity
		}
		return jobs
	}
	j := simpleJob(c, "configured", "configured "+string(c), runs[0]...)
	j.severity = set.Severity
	return []job{j}
}

func knowsShards(command string) bool {
	return strings.Contains(command, "{{shard}}") || strings.Contains(command, "RGPT_SHARD")
}

func configured(command string, f Format, report string, network []string, shard, shards int) invocation {
	i, n := strconv.Itoa(shard), strconv.Itoa(shards)
	run := invocation{
		shell:   strings.NewReplacer("{{shard}}", i, "{{shards}}", n).Replace(command),
		env:     map[string]string{"RGPT_SHARD": i, "RGPT_SHARDS": n},
		format:  f,
		network: network,
	}
	if report != "" {
		run.reports = []string{strings.NewReplacer("{{shard}}", i, "{{shards}}", n).Replace(report)}
	}
	return run
}

func customJobs(custom []Custom) []job {
	var jobs []job
	for _, c := range custom {
		j := simpleJob(contract.CategoryCustom, slug(c.Name), name(c.Name),
			configured(c.Command, c.Format, c.Report, c.Network, 1, 1))
		j.severity, j.timeout = c.Severity, c.Timeout
		jobs = append(jobs, j)
	}
	return jobs
}

// ruleNoTests marks the finding that no test ran.
const ruleNoTests = "no-tests"

// noTests is the finding about a check that ran nothing: major where tests are
// required, else of the given severity.
func noTests(what string, severity contract.Severity, required bool) contract.Finding {
	f := contract.Finding{Severity: severity, Category: contract.CategoryTest, Message: what, Rule: ruleNoTests}
	if required {
		f.Severity = contract.SeverityMajor
		f.Message = fmt.Sprintf("%s, and tests are required (verification.require_tests)", what)
	}
	return f
}
