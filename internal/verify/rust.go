package verify

import "github.com/rocketgpt/orchestrator/contract"

// planRust builds and tests crates. What they need lies in cargo's cache or a vendor
// folder: cargo does not try the network unless the command may use it.
func planRust(t *tree, p planning) []job {
	var build, test []invocation
	for _, dir := range t.projects("Cargo.toml") {
		build = append(build, cargo(dir, p.network, FormatExitCode, "build", "--all-targets"))
		run := cargo(dir, p.network, formatCargo, "test", "--no-fail-fast")
		run.ended = cargoFinished
		test = append(test, run)
	}
	if len(build) == 0 {
		return nil
	}
	return append([]job{simpleJob(contract.CategoryBuild, "rust", "cargo build", build...)},
		shardJobs("rust", "cargo test", [][]invocation{test})...)
}

func cargo(dir string, network []string, f Format, args ...string) invocation {
	if len(network) == 0 {
		args = append(args, "--offline")
	}
	return invocation{
		args: append([]string{"cargo"}, args...), dir: dir, format: f, network: network,
		env: map[string]string{"CARGO_TERM_COLOR": "never"},
	}
}
