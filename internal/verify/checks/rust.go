package checks

import (
	"regexp"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// planRust builds and tests crates. Their dependencies are in cargo's cache or a vendor directory:
// cargo does not try the network unless the command may use it.
func planRust(t *checkout, p planning) []Job {
	var build, test []Invocation
	for _, dir := range t.projects("Cargo.toml") {
		build = append(build, cargo(dir, p.network, output.FormatExitCode, "build", "--all-targets"))
		run := cargo(dir, p.network, output.FormatCargo, "test", "--no-fail-fast")
		run.Ended = cargoFinished
		test = append(test, run)
	}
	if len(build) == 0 {
		return nil
	}
	return append([]Job{simpleJob(contract.CategoryBuild, "rust", "cargo build", build...)},
		shardJobs("rust", "cargo test", [][]Invocation{test})...)
}

func cargo(dir string, network []string, f output.Format, args ...string) Invocation {
	if len(network) == 0 {
		args = append(args, "--offline")
	}
	return Invocation{
		Args: append([]string{"cargo"}, args...), Dir: dir, Format: f, Network: network,
		Env: map[string]string{"CARGO_TERM_COLOR": "never"},
	}
}

var (
	cargoBegun = regexp.MustCompile(`(?m)^running (\d+) tests?\r?$`)
	cargoEnded = regexp.MustCompile(`(?m)^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored; (\d+) measured;`)
)

// cargoFinished compares the number of tests that cargo's test programs announce with the number in
// their summaries: a program that a test terminated has no summary.
func cargoFinished(f *Finished, _ output.Paths) {
	if !f.Result.OK() || f.Result.StdoutTruncated {
		return
	}
	begun, ended := 0, 0
	for _, m := range cargoBegun.FindAllSubmatch(f.Result.Stdout, -1) {
		begun += output.Number(string(m[1]))
	}
	for _, m := range cargoEnded.FindAllSubmatch(f.Result.Stdout, -1) {
		for _, n := range m[1:] {
			ended += output.Number(string(n))
		}
	}
	if begun > ended {
		f.DropUnseen(output.Error, "", unseenMessage(f, "a test program announced more tests than its summary reports", "std::process::exit"), anyCase)
	}
}
