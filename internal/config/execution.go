package config

import "time"

// Execution says how runs are carried out and what they may use up.
type Execution struct {
	ConcurrentRuns int           `yaml:"concurrent_runs" validate:"min=0,max=100000" doc:"Runs that are at work at the same time, over all workers. More wait for their turn, in the order in which they were made; runs that wait for people do not count. 0 is no limit."`
	ParallelSteps  int           `yaml:"parallel_steps" repo:"lower" validate:"min=1,max=64" doc:"Steps of one run that may be worked on at the same time."`
	MaxRetries     int           `yaml:"max_retries" repo:"lower" validate:"min=0,max=20" doc:"How often self-heal may start a phase again before it asks a person. 0: a run fails at its first failure."`
	StableRetests  int           `yaml:"stable_retests" repo:"raise" validate:"min=0,max=20" doc:"How often green tests run again, from the start and without a second try for what fails, before the tester is done. One red re-test fails it."`
	MaxGoalBytes   Size          `yaml:"max_goal_bytes" repo:"lower" validate:"min=1024,max=1048576" doc:"Longest title and description of a goal together."`
	CommandTimeout time.Duration `yaml:"command_timeout" repo:"lower" validate:"min=1s,max=24h" doc:"Longest time that one command of an agent may take."`
	Step           StepLimits    `yaml:"step" repo:"limit" doc:"What the agent of one step may use up. 0 is no limit."`
	Agent          AgentLimits   `yaml:"agent" doc:"What an agent of a run may do wrong. With more of it, it is revoked: another one goes on with a written handoff. For deliberations see there."`
	Run            RunLimits     `yaml:"run" repo:"limit" doc:"What a whole run may use up. 0 is no limit."`
	Sandbox        Sandbox       `yaml:"sandbox" doc:"How commands of models and repositories are confined."`
	Approval       Approval      `yaml:"approval" doc:"Questions to people."`
	Intervention   Intervention  `yaml:"intervention" doc:"Requests for a person's help, when self-heal has nothing left to try."`
	QuotaWait      time.Duration `yaml:"quota_wait" repo:"lower" validate:"min=1s,max=720h" doc:"How long a run waits for the window of a provider's limit, where no other provider can take over and the provider does not say how long. A person can refuse."`
	ApprovePlan    bool          `yaml:"approve_plan" repo:"stricter" doc:"A person approves each plan before it is built."`
	ApproveRelease bool          `yaml:"approve_release" repo:"stricter" doc:"A person approves each release."`
}

// AgentLimits are how many mistakes an agent may make.
type AgentLimits struct {
	Errors     int `yaml:"errors" repo:"lower" validate:"min=0,max=1000" doc:"Failures that are its own."`
	Repeats    int `yaml:"repeats" repo:"lower" validate:"min=0,max=1000" doc:"The same failure again."`
	Violations int `yaml:"violations" repo:"lower" validate:"min=0,max=1000" doc:"Actions outside its allowed tools or paths, in one attempt at a step."`
}

// StepLimits restrict the agent loop of one step. 0 means no limit.
type StepLimits struct {
	Turns      int           `yaml:"turns" validate:"min=0,max=10000" doc:"Model calls."`
	Tokens     int64         `yaml:"tokens" validate:"min=0" doc:"Prompt and completion tokens together."`
	CostUSD    MicroUSD      `yaml:"cost_usd" validate:"min=0" doc:"Money for model calls."`
	Time       time.Duration `yaml:"time" validate:"min=0" doc:"Wall time."`
	LoopLimit  int           `yaml:"loop_limit" validate:"min=0,max=1000" doc:"Identical tool calls with identical results before the agent is told to stop repeating itself."`
	ErrorLimit int           `yaml:"error_limit" validate:"min=0,max=1000" doc:"Unusable model answers in a row before the step fails."`
}

// RunLimits restrict a whole run. 0 means no limit.
type RunLimits struct {
	Tokens  int64         `yaml:"tokens" validate:"min=0" doc:"Prompt and completion tokens together."`
	CostUSD MicroUSD      `yaml:"cost_usd" validate:"min=0" doc:"Money for model calls."`
	Time    time.Duration `yaml:"time" validate:"min=0" doc:"Wall time, with the waiting for people."`
}

// Sandbox says how commands are confined.
type Sandbox struct {
	Runner          string        `yaml:"runner" validate:"oneof=process" doc:"What confines commands: process uses namespaces, Landlock and seccomp of this host."`
	AllowUnisolated bool          `yaml:"allow_unisolated" doc:"Run commands although this host lacks a feature that isolation needs. Only for hosts that hold nothing of value."`
	Network         []string      `yaml:"network" validate:"max=200,dive,hostpattern" doc:"Hosts that commands of agents and all checks may reach, through the worker's proxy: a name, or *.example.com for all names below it, with a port where it is neither 443 nor 80." example:"[packages.example.com, \"*.example.com\"]"`
	Memory          Size          `yaml:"memory" validate:"min=16777216" doc:"Memory of all processes of a command together."`
	Processes       int           `yaml:"processes" validate:"min=8,max=100000" doc:"Processes and threads of a command at the same time."`
	CPUTime         time.Duration `yaml:"cpu_time" validate:"min=1s" doc:"Processor time of all processes of a command together."`
	FileSize        Size          `yaml:"file_size" validate:"min=1048576" doc:"Largest file that a command may write."`
	Disk            Size          `yaml:"disk" validate:"min=1048576" doc:"Disk space for what a command writes in the workspace."`
	Output          Size          `yaml:"output" validate:"min=1024,max=1073741824" doc:"What is kept of each of a command's two output streams."`
	ReadOnly        []string      `yaml:"read_only" validate:"dive,abspath" doc:"More folders of the host that commands may read, such as a tool chain." example:"[/opt/toolchain]"`

	CacheAge  time.Duration `yaml:"cache_age" validate:"min=1h" doc:"Build caches that no command used for this long are removed."`
	CacheSize Size          `yaml:"cache_size" validate:"min=16777216" doc:"Disk space for the build caches of this host; the longest unused are removed first, and none that is in use."`
}

// Approval is about questions to people.
type Approval struct {
	Wait time.Duration `yaml:"wait" repo:"lower" validate:"min=1s,max=8760h" doc:"How long a run waits for an answer, with a reminder after half of it. No answer is a no."`
}

// Intervention is about requests for a person's help.
type Intervention struct {
	Wait time.Duration `yaml:"wait" repo:"lower" validate:"min=1s,max=8760h" doc:"How long a run waits for help, with a reminder after half of it. No answer is a no: the run fails."`
}

// Findings are thresholds.
type Findings struct {
	MaxMajor  int `yaml:"max_major" repo:"lower" validate:"min=0,max=1000000" doc:"More major findings than this fail the run."`
	MaxMedium int `yaml:"max_medium" repo:"lower" validate:"min=0,max=1000000" doc:"More medium findings than this warn."`
}

// Git says how work is committed and where it is pushed.
type Git struct {
	BranchPrefix  string        `yaml:"branch_prefix" repo:"yes" validate:"refprefix" doc:"Beginning of release branches; the run's id follows."`
	Push          bool          `yaml:"push" doc:"Push release branches to the remote."`
	Remote        string        `yaml:"remote" secret:"true" doc:"Name or URL of the remote to push to. Empty: where the repository came from."`
	AuthorName    string        `yaml:"author_name" repo:"yes" validate:"required,person" doc:"Author and committer of commits."`
	AuthorEmail   string        `yaml:"author_email" repo:"yes" validate:"required,address" doc:"E-mail address of the author."`
	MaxFiles      int64         `yaml:"max_files" validate:"min=1,max=100000000" doc:"Files that a repository may have at the commit a run starts from."`
	MaxSize       Size          `yaml:"max_size" validate:"min=1048576" doc:"What may be fetched of a repository, and what its files may take up at the commit a run starts from."`
	LinkedFolders []string      `yaml:"linked_folders" validate:"max=100,dive,required" doc:"Folders of this host in which repositories may have data besides in themselves: objects that they borrow (git clone --reference), git directories of their own (git init --separate-git-dir)." example:"[/srv/git]"`
	Protected     []string      `yaml:"protected" validate:"max=100,dive,glob" doc:"Files that decide what runs with the rights of others once they are pushed, such as those of CI. A release that changes one is pushed only when a person has approved it, by name. Capital and small letters are the same." example:"[\".github/**\", deploy/**]"`
	Stay          time.Duration `yaml:"stay" repo:"lower" validate:"min=0,max=720h" doc:"How long a run stays with its branch after the release, to fix what a failing check or a review comment reports (rgpt run check). 0: the run ends with the release."`
	MaxRepairs    int           `yaml:"max_repairs" repo:"lower" validate:"min=0,max=100" doc:"Repairs after a release that a branch may get, across all runs; then a person is asked."`
}
