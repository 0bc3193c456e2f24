package config

import "time"

// Verification configures how a change is built, tested and checked.
type Verification struct {
	AutoDetect    bool          `yaml:"auto_detect" repo:"yes" doc:"Use the repository's files to detect commands for checks that have none configured."`
	Shards        int           `yaml:"shards" repo:"yes" validate:"min=1,max=32" doc:"Number of parallel parts to split tests into, where possible. Those of Playwright are balanced by the durations of earlier runs."`
	Timeout       time.Duration `yaml:"timeout" repo:"lower" validate:"min=1s,max=24h" doc:"Maximum duration of one check."`
	RerunFailed   int           `yaml:"rerun_failed" repo:"yes" validate:"min=0,max=10" doc:"Maximum number of times that failed tests are rerun to distinguish flaky tests from broken ones."`
	Recordings    string        `yaml:"recordings" repo:"yes" validate:"oneof=rerun always off" doc:"When trace and video of Playwright tests are recorded, which takes time and can disturb tests. rerun: when failed tests are rerun; with rerun_failed: 0, like always. always: from the first run on. off: only as the repository's own configuration says. Failed tests always leave a screenshot."`
	RequireTests  bool          `yaml:"require_tests" repo:"stricter" doc:"Fail a change if no tests are found."`
	PinnedTests   string        `yaml:"pinned_tests" repo:"tighten" validate:"oneof=enforce report off" doc:"How deleted, skipped, emptied or weakened tests are reported. enforce: as major findings. report: as medium findings (intended for goals that change tests). off: not at all."`
	Baseline      string        `yaml:"baseline" repo:"tighten" validate:"oneof=on off" doc:"Also run the checks on the base commit, to distinguish existing failures from failures that the change causes."`
	BaselineRed   string        `yaml:"baseline_red" repo:"tighten" validate:"oneof=continue ask" doc:"Action if a run's base commit already fails checks: continue, or ask a person."`
	ProveNewTests string        `yaml:"prove_new_tests" repo:"tighten" validate:"oneof=enforce warn off" doc:"How a new test that also passes without the change is reported. enforce: as a major finding. warn: as a medium finding. off: new tests are not run without the change."`
	Flaky         Flaky         `yaml:"flaky" doc:"The history of tests over runs, and the quarantine of flaky ones."`
	Coverage      string        `yaml:"coverage" repo:"yes" validate:"oneof=auto off" doc:"Whether tests also measure which lines they execute. auto: if the test runner supports it without further installation; tests then take longer, in Python about twice as long. off: not at all. Coverage is reported, and never makes a check fail."`
	Build         Check         `yaml:"build" repo:"yes" doc:"The check that builds the project."`
	Test          Check         `yaml:"test" repo:"yes" doc:"The check that runs the tests."`
	Lint          Check         `yaml:"lint" repo:"yes" doc:"The check that runs the linters."`
	Security      Check         `yaml:"security" repo:"yes" doc:"The checks that scan for vulnerabilities and secrets. If enabled is true, a check whose scanner is not installed fails instead of being skipped."`
	Databases     Databases     `yaml:"databases" doc:"Copies of vulnerability databases on the workers, for scanners without access to the original ones."`
	Custom        []CustomCheck `yaml:"custom" repo:"yes" validate:"max=50,dive" doc:"Additional checks. These run after all other checks, in the order listed." example:"[{name: licences, command: ./scripts/licences.sh}]"`
}

// Check configures one kind of check.
type Check struct {
	Enabled  Toggle   `yaml:"enabled" validate:"oneof=auto true false" doc:"auto: run the check if it is configured or detected. true: fail if there is no command to run. false: skip it."`
	Command  string   `yaml:"command" doc:"Shell command. Empty: detected from the repository's files."`
	Format   string   `yaml:"format" validate:"oneof=auto go-test-json junit sarif tap playwright exit-code" doc:"Format of the command's report."`
	Report   string   `yaml:"report" validate:"omitempty,relpath" doc:"Glob for the report files that the command writes. Empty: the command's output is the report."`
	Severity string   `yaml:"severity" validate:"oneof=major medium minor" doc:"Severity of findings for which the report specifies none."`
	Network  []string `yaml:"network" repo:"network" validate:"max=200,dive,hostpattern" doc:"Hosts that the command may reach, in addition to those in execution.sandbox.network."`
}

// Flaky configures the history of tests over runs, and the quarantine of flaky ones. A repository may
// not change it: otherwise, a change could decide which of its failures count.
type Flaky struct {
	Window          time.Duration `yaml:"window" validate:"min=24h,max=8760h" doc:"A test is flaky if it both passed and failed at the same state of the code, environment and tools within this time."`
	History         time.Duration `yaml:"history" validate:"min=24h,max=17520h" doc:"How long the history of a test that no longer runs is kept, and the outcomes at each state of the code."`
	Quarantine      string        `yaml:"quarantine" validate:"oneof=off suggest auto" doc:"How flaky tests are quarantined. off: not at all; existing entries have no effect. suggest: by people; rgpt flaky suggests tests. auto: also by RocketGPT."`
	QuarantineAfter int           `yaml:"quarantine_after" validate:"min=1,max=100" doc:"Number of states of the code at which a test must have been flaky before it is suggested or, if each was in a run of its own, quarantined automatically. One can be caused by an overloaded host."`
	QuarantineFor   time.Duration `yaml:"quarantine_for" validate:"min=1h,max=8760h" doc:"How long a test is quarantined unless the request specifies it."`
	QuarantineMax   time.Duration `yaml:"quarantine_max" validate:"min=1h,max=8760h" doc:"Maximum duration of a quarantine. It can be renewed."`
	MaxQuarantined  int           `yaml:"max_quarantined" validate:"min=1,max=1000" doc:"Maximum number of quarantined tests per repository."`
	ReadyAfter      int           `yaml:"ready_after" validate:"min=1,max=10000" doc:"Number of times in a row that a quarantined test must pass before it is reported as ready for removal."`
}

// Databases are directories on the workers with copies of vulnerability databases.
type Databases struct {
	Go   string `yaml:"go" validate:"omitempty,abspath" doc:"Directory on the workers with a copy of vuln.go.dev, for govulncheck. Empty: govulncheck needs access to vuln.go.dev."`
	OSV  string `yaml:"osv" validate:"omitempty,abspath" doc:"Directory on the workers with copies of OSV's databases (osv-scanner/npm/all.zip, ...), for osv-scanner. Empty: osv-scanner needs access to api.osv.dev."`
	Rust string `yaml:"rust" validate:"omitempty,abspath" doc:"Directory on the workers with a clone of RustSec's advisory-db, for cargo audit. Empty: cargo audit needs access to github.com."`
}

// CustomCheck configures a check that a project adds.
type CustomCheck struct {
	Name     string        `yaml:"name" validate:"required,name" doc:"Check name, as shown in findings."`
	Command  string        `yaml:"command" validate:"required" doc:"Shell command."`
	Format   string        `yaml:"format" default:"exit-code" validate:"oneof=auto go-test-json junit sarif tap playwright exit-code" doc:"Format of the command's report."`
	Report   string        `yaml:"report" validate:"omitempty,relpath" doc:"Glob for the report files that the command writes. Empty: the command's output is the report."`
	Severity string        `yaml:"severity" default:"major" validate:"oneof=major medium minor" doc:"Severity of findings for which the report specifies none."`
	Timeout  time.Duration `yaml:"timeout" repo:"timeout" validate:"min=0,max=24h" doc:"Maximum duration of the check. 0: use verification.timeout."`
	Network  []string      `yaml:"network" repo:"network" validate:"max=200,dive,hostpattern" doc:"Hosts that the command may reach, in addition to those in execution.sandbox.network."`
}

// Toggle is auto, true or false.
type Toggle string

// The values of a toggle.
const (
	Auto Toggle = "auto"
	On   Toggle = "true"
	Off  Toggle = "false"
)
