package config

import "time"

// Verification says how a change is built, tested and checked.
type Verification struct {
	AutoDetect    bool          `yaml:"auto_detect" repo:"yes" doc:"Find out from the repository's files what to run where no command is given."`
	Shards        int           `yaml:"shards" repo:"yes" validate:"min=1,max=32" doc:"Parts into which tests are split that can be, to run side by side."`
	Timeout       time.Duration `yaml:"timeout" repo:"lower" validate:"min=1s,max=24h" doc:"Longest time that one check may take."`
	RerunFailed   int           `yaml:"rerun_failed" repo:"yes" validate:"min=0,max=10" doc:"How often failed tests run again to tell flaky ones from broken ones."`
	RequireTests  bool          `yaml:"require_tests" repo:"stricter" doc:"A change for which no test was found to run is a failure."`
	PinnedTests   string        `yaml:"pinned_tests" repo:"tighten" validate:"oneof=enforce report off" doc:"What deleted, skipped, emptied or weakened tests count as: enforce makes them major findings, report medium ones, for goals that are about the tests themselves; off does not look."`
	Baseline      string        `yaml:"baseline" repo:"tighten" validate:"oneof=on off" doc:"Run the checks on the base commit, too, to tell failures that were already there from those that the change causes."`
	BaselineRed   string        `yaml:"baseline_red" repo:"tighten" validate:"oneof=continue ask" doc:"What a run does when its base commit already fails checks: continue, or ask a person."`
	ProveNewTests string        `yaml:"prove_new_tests" repo:"tighten" validate:"oneof=enforce warn off" doc:"What a new test counts as that does not fail without the change it came with: enforce makes it a major finding, warn a medium one; off does not run new tests without their change."`
	Build         Check         `yaml:"build" repo:"yes" doc:"Builds the project."`
	Test          Check         `yaml:"test" repo:"yes" doc:"Runs its tests."`
	Lint          Check         `yaml:"lint" repo:"yes" doc:"Runs its linters."`
	Security      Check         `yaml:"security" repo:"yes" doc:"Looks for vulnerabilities."`
	Custom        []CustomCheck `yaml:"custom" repo:"yes" validate:"max=50,dive" doc:"More checks, which run last and in this order." example:"[{name: licences, command: ./scripts/licences.sh}]"`
}

// Check is one kind of check.
type Check struct {
	Enabled  Toggle   `yaml:"enabled" validate:"oneof=auto true false" doc:"auto runs it when it is configured or detected; true makes it a failure when there is nothing to run."`
	Command  string   `yaml:"command" doc:"Shell command. Empty: what the repository's files suggest."`
	Format   string   `yaml:"format" validate:"oneof=auto go-test-json junit sarif tap playwright exit-code" doc:"Format of what the command reports."`
	Report   string   `yaml:"report" validate:"omitempty,relpath" doc:"Glob of the report files that the command writes. Empty: the report is its output."`
	Severity string   `yaml:"severity" validate:"oneof=major medium minor" doc:"Severity of findings to which the report gives none."`
	Network  []string `yaml:"network" repo:"network" validate:"max=200,dive,hostpattern" doc:"Hosts that the command may reach, besides those of execution.sandbox.network."`
}

// CustomCheck is a check that a project adds.
type CustomCheck struct {
	Name     string        `yaml:"name" validate:"required,name" doc:"What it is called in findings."`
	Command  string        `yaml:"command" validate:"required" doc:"Shell command."`
	Format   string        `yaml:"format" default:"exit-code" validate:"oneof=auto go-test-json junit sarif tap playwright exit-code" doc:"Format of what the command reports."`
	Report   string        `yaml:"report" validate:"omitempty,relpath" doc:"Glob of the report files that the command writes. Empty: the report is its output."`
	Severity string        `yaml:"severity" default:"major" validate:"oneof=major medium minor" doc:"Severity of findings to which the report gives none."`
	Timeout  time.Duration `yaml:"timeout" repo:"timeout" validate:"min=0,max=24h" doc:"Longest time it may take. 0: verification.timeout."`
	Network  []string      `yaml:"network" repo:"network" validate:"max=200,dive,hostpattern" doc:"Hosts that the command may reach, besides those of execution.sandbox.network."`
}

// Toggle is auto, true or false.
type Toggle string

// The positions of a toggle.
const (
	Auto Toggle = "auto"
	On   Toggle = "true"
	Off  Toggle = "false"
)
