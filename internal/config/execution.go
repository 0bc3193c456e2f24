package config

import (
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/internal/glob"
)

// Execution configures the limits of runs, their approvals and their isolation.
type Execution struct {
	ConcurrentRuns int                    `yaml:"concurrent_runs" validate:"min=0,max=100000" doc:"Maximum number of runs in progress at the same time, across all workers. Additional runs are queued in order of creation. Runs waiting for a person do not count. 0: no limit."`
	ParallelSteps  int                    `yaml:"parallel_steps" repo:"lower" validate:"min=1,max=64" doc:"Maximum number of steps that a run builds at the same time."`
	ChecksTogether int                    `yaml:"checks_together" validate:"min=1,max=32" doc:"Maximum number of checks of a stage that run in parallel on one worker, as one activity. A lower number lets more workers share the checks of a run, but each activity costs Temporal CPU time."`
	MaxRetries     int                    `yaml:"max_retries" repo:"lower" validate:"min=0,max=20" doc:"Maximum number of times that self-heal restarts a phase before it asks a person for help. 0: the first failure ends the run."`
	StableRetests  int                    `yaml:"stable_retests" repo:"raise" validate:"min=0,max=20" doc:"Number of times that a passing test run is repeated in full before the tester finishes. Failed tests are not rerun during a repetition: a single failure fails the phase."`
	MaxGoalBytes   Size                   `yaml:"max_goal_bytes" repo:"lower" validate:"min=1024,max=1048576" doc:"Maximum combined length of a goal's title and description."`
	Pictures       Pictures               `yaml:"pictures" doc:"Pictures that models get: those of a goal, and screenshots of failed tests."`
	CommandTimeout time.Duration          `yaml:"command_timeout" repo:"lower" validate:"min=1s,max=24h" doc:"Maximum duration of one agent command."`
	Planner        PlannerLimits          `yaml:"planner" doc:"The planner, which reads the repository before it plans."`
	Step           StepLimits             `yaml:"step" repo:"limit" doc:"Limits on a step's agent. 0: no limit."`
	Agent          AgentLimits            `yaml:"agent" doc:"Error limits for a run's agents. An agent that exceeds one is revoked, and another continues from a written handoff. The deliberation section has its own limits."`
	Run            RunLimits              `yaml:"run" repo:"limit" doc:"Limits on a whole run. 0: no limit."`
	Agents         map[string]AgentBudget `yaml:"agents" validate:"dive,keys,oneof=planner builder tester releaser analyzer repair alpha beta gamma indexer judge reviewer,endkeys" doc:"Limits on the model calls of single agents within a run, by agent as in models.phases. indexer: calls for embeddings, which no run makes yet. judge: the call that chooses among attempts. reviewer: the calls that review the change before its release (gate.review)." example:"{builder: {tokens: 2000000, cost_usd: 10}}"`
	Attempts       Attempts               `yaml:"attempts" doc:"Several independent attempts at the same goal, of which the best one is released."`
	Sandbox        Sandbox                `yaml:"sandbox" doc:"Isolation and limits for commands that agents run or that repositories define."`
	Approval       Approval               `yaml:"approval" doc:"Human approvals."`
	Intervention   Intervention           `yaml:"intervention" doc:"Requests for human help when self-heal has no actions left to try."`
	QuotaWait      time.Duration          `yaml:"quota_wait" repo:"lower" validate:"min=1s,max=720h" doc:"How long a run waits for a provider's usage limit to reset if the provider does not specify a time and no other provider can take over. A person can choose not to wait."`
	ApprovePlan    bool                   `yaml:"approve_plan" repo:"stricter" doc:"Require a person's approval of each plan before it is built."`
	ApproveRelease bool                   `yaml:"approve_release" repo:"stricter" doc:"Require a person's approval of each release."`
}

// Pictures limits the pictures that models get.
type Pictures struct {
	Max     int  `yaml:"max" validate:"min=0,max=20" doc:"Maximum number of pictures of a goal. 0: none are accepted."`
	MaxSize Size `yaml:"max_size" validate:"min=1024,max=20971520" doc:"Maximum size of one picture. Providers have limits of their own, often 5 MiB."`
	Repair  int  `yaml:"repair" repo:"lower" validate:"min=0,max=20" doc:"Maximum number of screenshots of failed tests that the Repair agent gets, if its model can see pictures. 0: none."`
}

// AgentLimits limit the errors of an agent.
type AgentLimits struct {
	Errors     int `yaml:"errors" repo:"lower" validate:"min=0,max=1000" doc:"Maximum number of errors that an agent may cause. An agent that exceeds this limit is revoked. Failures caused by machines, configuration or people do not count."`
	Repeats    int `yaml:"repeats" repo:"lower" validate:"min=0,max=1000" doc:"Maximum number of times that an agent may repeat the same error. An agent that exceeds this limit is revoked."`
	Violations int `yaml:"violations" repo:"lower" validate:"min=0,max=1000" doc:"Maximum number of times that an agent may try to use a forbidden tool or path during one attempt at a step. An agent that exceeds this limit is revoked."`
}

// PlannerLimits restrict the planner.
type PlannerLimits struct {
	Turns            int           `yaml:"turns" repo:"lower" validate:"min=1,max=200" doc:"Maximum number of model calls in which the planner reads the repository and makes its plan. In the last one it must submit the plan. 1: it plans without reading."`
	Tokens           int64         `yaml:"tokens" repo:"limit" validate:"min=0" doc:"Maximum number of prompt and completion tokens for one plan. 0: no limit."`
	CostUSD          MicroUSD      `yaml:"cost_usd" repo:"limit" validate:"min=0" doc:"Maximum cost of the model calls for one plan, in US dollars. 0: no limit."`
	Critique         string        `yaml:"critique" repo:"yes" validate:"oneof=off auto on" doc:"Whether the planner reviews its plan once more in one additional model call. auto: if an automatic check finds something, or the planner rates the complexity at 0.5 or more."`
	Question         bool          `yaml:"question" repo:"yes" doc:"Whether the planner may ask a person one question per run if the goal can mean different things. The run then waits with the status waiting_for_input."`
	Edits            Size          `yaml:"edits" repo:"lower" validate:"min=0,max=262144" doc:"Maximum size of the edits with which a planner may make a small change itself. They are made before the agent of the plan's only step begins, the project's checks run, and no further model call is made if they pass. 0: the planner never edits."`
	QuestionDeadline time.Duration `yaml:"question_deadline" repo:"lower" validate:"min=1s,max=720h" doc:"How long the run waits for the answer to the planner's question. After that, the default that the planner named applies."`
}

// StepLimits restrict the agent loop of one step. 0 means no limit.
type StepLimits struct {
	Turns      int           `yaml:"turns" validate:"min=0,max=10000" doc:"Maximum number of model calls in one step. 0: no limit."`
	Tokens     int64         `yaml:"tokens" validate:"min=0" doc:"Maximum number of prompt and completion tokens in one step. 0: no limit."`
	CostUSD    MicroUSD      `yaml:"cost_usd" validate:"min=0" doc:"Maximum cost of one step's model calls, in US dollars. 0: no limit."`
	Time       time.Duration `yaml:"time" validate:"min=0" doc:"Maximum wall-clock time of one step. 0: no limit."`
	LoopLimit  int           `yaml:"loop_limit" validate:"min=0,max=1000" doc:"Number of identical tool calls with identical results after which the agent is asked to stop repeating itself. 0: no limit."`
	ErrorLimit int           `yaml:"error_limit" validate:"min=0,max=1000" doc:"Number of consecutive unusable model responses after which the step fails. 0: no limit."`

	CompactAt float64 `yaml:"compact_at" repo:"yes" validate:"min=0,max=0.95" doc:"Part of a model's context window that a conversation may fill before its older tool results are replaced by references, and later by a summary. Agents can read all of it again. 0: never; a conversation that becomes too long is healed. Has no effect on models whose context window is not in the catalogue."`

	FinishChecks   bool `yaml:"finish_checks" repo:"yes" doc:"Run the project's checks before an agent may finish the work whose result will be tested next: the last step of a plan, or a repair. What fails, and did not fail before the change, goes back to the agent. The tester does not repeat these checks for the same files."`
	FinishRefusals int  `yaml:"finish_refusals" repo:"lower" validate:"min=1,max=10" doc:"Maximum number of times that failed checks go back to an agent that wants to finish. After that, the tester decides."`
}

// RunLimits restrict a whole run. 0 means no limit.
type RunLimits struct {
	Tokens  int64         `yaml:"tokens" validate:"min=0" doc:"Maximum number of prompt and completion tokens in a whole run. 0: no limit."`
	CostUSD MicroUSD      `yaml:"cost_usd" validate:"min=0" doc:"Maximum cost of a run's model calls, in US dollars. 0: no limit."`
	Time    time.Duration `yaml:"time" validate:"min=0" doc:"Maximum wall-clock time of a run, including time spent waiting for people. 0: no limit."`
}

// Attempts are the settings of several attempts at the same goal.
type Attempts struct {
	Count       int      `yaml:"count" validate:"min=1,max=16" doc:"Number of attempts at each goal, unless a request specifies another (rgpt run create --attempts). The limits in execution.run apply to all attempts together."`
	Max         int      `yaml:"max" validate:"min=1,max=16" doc:"Maximum number of attempts that a request may specify."`
	Models      []string `yaml:"models" validate:"max=16" doc:"Models of the attempts in their order, as provider/model, each for all agents of an attempt. If there are fewer models than attempts, they repeat. Empty: as configured, for all attempts." example:"[openai/gpt-5, anthropic/claude-sonnet-5]"`
	Judge       string   `yaml:"judge" validate:"required,max=300" doc:"Model that chooses among attempts that have the same findings and about equally large changes, as provider/model. planner: the planner's model. none: no model, the smallest change wins."`
	SizeMargin  float64  `yaml:"size_margin" repo:"yes" validate:"min=0,max=10" doc:"By which part of the smallest change another one may be larger and still count as equally large. A difference of 5 lines never counts. 0.25: up to 25 % more."`
	StopAtFirst bool     `yaml:"stop_at_first" repo:"yes" doc:"Choose as soon as an attempt has passed its verification without major or medium findings, and stop the others. This costs less, but does not compare all attempts."`
}

// AgentBudget restricts the model calls of one agent in a run. 0 means no limit.
type AgentBudget struct {
	Tokens  int64    `yaml:"tokens" validate:"min=0" doc:"Maximum number of the agent's prompt and completion tokens in a run. 0: no limit."`
	CostUSD MicroUSD `yaml:"cost_usd" validate:"min=0" doc:"Maximum cost of the agent's model calls in a run, in US dollars. 0: no limit."`
}

// Sandbox configures how commands are confined.
type Sandbox struct {
	Runner          string        `yaml:"runner" validate:"oneof=process docker" doc:"Command isolation. process: namespaces, Landlock and seccomp on this host. docker: a container for each command." example:"docker"`
	Docker          Docker        `yaml:"docker"`
	AllowUnisolated bool          `yaml:"allow_unisolated" doc:"Run commands even if this host lacks a feature that isolation requires. Use this only on hosts that contain nothing of value."`
	Network         []string      `yaml:"network" validate:"max=200,dive,hostpattern" doc:"Hosts that agent commands and all checks may reach through the worker's proxy. Each entry is a host name, or *.example.com for all subdomains, followed by the port unless it is 443 or 80." example:"[packages.example.com, \"*.example.com\"]"`
	Memory          Size          `yaml:"memory" validate:"min=16777216" doc:"Maximum combined memory of a command's processes."`
	Processes       int           `yaml:"processes" validate:"min=8,max=100000" doc:"Maximum number of concurrent processes and threads per command."`
	CPUTime         time.Duration `yaml:"cpu_time" validate:"min=1s" doc:"Maximum combined CPU time of a command's processes."`
	FileSize        Size          `yaml:"file_size" validate:"min=1048576" doc:"Maximum size of a file that a command writes."`
	Disk            Size          `yaml:"disk" validate:"min=1048576" doc:"Maximum disk space that a command may use in the workspace."`
	Output          Size          `yaml:"output" validate:"min=1024,max=1073741824" doc:"Maximum size of a command's stored standard output; the same limit applies separately to its standard error."`
	ReadOnly        []string      `yaml:"read_only" validate:"dive,abspath" doc:"Additional host directories that commands may read, such as toolchain directories." example:"[/opt/toolchain]"`

	CacheAge  time.Duration `yaml:"cache_age" validate:"min=1h" doc:"Build caches that have not been used for this long are removed."`
	CacheSize Size          `yaml:"cache_size" validate:"min=16777216" doc:"Maximum disk space for this host's build caches. The least recently used caches are removed first; caches in use are kept."`
}

// The values of execution.sandbox.runner.
const (
	RunnerProcess = "process"
	RunnerDocker  = "docker"
)

// Docker configures the containers of the docker runner.
type Docker struct {
	Image  string   `yaml:"image" validate:"max=500" doc:"Image in which commands run, unless the environment section chooses another. It must contain the toolchains that your projects need." example:"registry.example.com/toolchains:2026-11"`
	Images []string `yaml:"images" validate:"max=200,dive,imageglob" doc:"Patterns for the images that repositories and requests may choose with environment.image, and that Dockerfiles may use. A pattern's * matches any characters but a slash." example:"[\"node:*\", registry.example.com/ci/**]"`
	Host   string   `yaml:"host" validate:"max=500" doc:"Address of the Docker engine, which must run on the worker's host. Default: DOCKER_HOST, the current Docker context, or the usual sockets." example:"unix:///run/docker.sock"`
	CPUs   float64  `yaml:"cpus" validate:"min=0,max=1024" doc:"Number of processors that one container may use at once. 0: no limit."`
	Warm   int      `yaml:"warm" validate:"min=0,max=32" doc:"Number of containers that are created in advance for each kind of command, so that commands start faster."`

	Pull        string        `yaml:"pull" validate:"oneof=never missing" doc:"never: images must be present on the Docker host. missing: the engine pulls images that are allowed but missing, without credentials."`
	PullTimeout time.Duration `yaml:"pull_timeout" validate:"min=1s,max=24h" doc:"Maximum duration of a pull."`
	Build       Build         `yaml:"build" doc:"Images that are built from the Dockerfiles of repositories."`
}

// The values of execution.sandbox.docker.pull.
const (
	PullNever   = "never"
	PullMissing = "missing"
)

// Build configures the builds of images.
type Build struct {
	Enabled     bool          `yaml:"enabled" doc:"Build the image of environment.dockerfile, or of a dev container, if it uses only allowed images. The Docker engine executes the RUN instructions of such a Dockerfile as root in its own containers, outside the sandbox."`
	Timeout     time.Duration `yaml:"timeout" validate:"min=1s,max=24h" doc:"Maximum duration of a build."`
	ContextSize Size          `yaml:"context_size" validate:"min=1024" doc:"Maximum total size of the files that a build may copy. It also has at most 100,000 files."`
	Network     string        `yaml:"network" validate:"oneof=none bridge host" doc:"Network of RUN instructions. none: no network. bridge, host: the engine's network without the worker's proxy, so that RUN instructions may reach all that the Docker host can reach."`
	Memory      Size          `yaml:"memory" validate:"min=16777216" doc:"Maximum memory of a RUN instruction."`
	Log         Size          `yaml:"log" validate:"min=1024,max=1048576" doc:"Maximum size of the end of a failed build's output that its error contains."`
	Age         time.Duration `yaml:"age" validate:"min=1h" doc:"Built images that have not been used for this long are removed, unless a container uses them or they have another name."`
}

// IsImage reports whether a text has the form of an image's name.
func IsImage(name string) bool { return len(name) <= maxImage && imagePattern.MatchString(name) }

const maxImage = 500

// AllowsImage reports whether repositories and requests may choose an image.
func (c *Config) AllowsImage(name string) bool {
	return slices.ContainsFunc(c.Execution.Sandbox.Docker.Images, func(pattern string) bool { return glob.Match(pattern, name) })
}

// Approval configures approvals by people.
type Approval struct {
	Wait time.Duration `yaml:"wait" repo:"lower" validate:"min=1s,max=8760h" doc:"How long a run waits for approval before the request counts as rejected."`
	// Reminders are also those of requests for help and of the questions of planners.
	Reminders []Reminder `yaml:"reminders" validate:"max=20,dive" doc:"Reminders of everything that runs ask people: approvals, requests for help and questions of planners. Without entries, there is one halfway through the time for an answer. A reminder whose time is not within that time is skipped." example:"[{after: 4h, to: [page]}, {before: 2h, to: [\"webhook:managers\"], escalate: true}]"`
}

// Reminder is one of the reminders of a question to a person.
type Reminder struct {
	After    time.Duration `yaml:"after" validate:"min=0,max=8760h" doc:"Time of the reminder, since the question was asked. Either this or before is set."`
	Before   time.Duration `yaml:"before" validate:"min=0,max=8760h" doc:"Time of the reminder, before the deadline of the question."`
	To       []string      `yaml:"to" validate:"max=20,dive,receiver" doc:"Receivers. page: the run's page, which shows every reminder anyway. webhook:NAME: the webhook with this name, whatever events it is registered for (rgpt webhook add --name). channel:NAME: the channel with this name (notifications), whatever it is notified of." example:"[page, \"webhook:managers\"]"`
	Escalate bool          `yaml:"escalate" doc:"The reminder is an escalation: its event is approval.escalated, intervention.escalated or input.escalated instead of .reminded."`
}

// Intervention configures requests for a person's help.
type Intervention struct {
	Wait time.Duration `yaml:"wait" repo:"lower" validate:"min=1s,max=8760h" doc:"How long a run waits for help before it fails. Reminders are those of execution.approval.reminders."`
}

// Findings are thresholds.
type Findings struct {
	MaxMajor  int `yaml:"max_major" repo:"lower" validate:"min=0,max=1000000" doc:"Maximum number of major findings. A run that exceeds this limit fails."`
	MaxMedium int `yaml:"max_medium" repo:"lower" validate:"min=0,max=1000000" doc:"Maximum number of medium findings. A run that exceeds this limit gets a warning."`
}

// How far a release goes (git.release).
const (
	ReleaseBranch      = "branch"
	ReleasePush        = "push"
	ReleasePullRequest = "pull_request"
)

// Git configures how changes are committed and where they are pushed.
type Git struct {
	BranchPrefix  string        `yaml:"branch_prefix" repo:"yes" validate:"refprefix" doc:"Prefix of release branch names. The run's ID follows it."`
	Release       string        `yaml:"release" validate:"oneof=branch push pull_request" doc:"How far a release goes. branch: a branch in the repository; if the repository is given by its URL, that is a push. push: the branch is pushed to the remote. pull_request: it is pushed, and a pull request is opened for it on one of the forges."`
	PullRequest   PullRequest   `yaml:"pull_request" doc:"The pull requests of releases."`
	ChangeSet     ChangeSet     `yaml:"change_set" doc:"Change sets: runs that change several repositories for one goal and are released together. Only the operator's configuration has them."`
	Remote        string        `yaml:"remote" secret:"true" doc:"Name or URL of the remote to push to. Empty: the remote that the repository was cloned from."`
	AuthorName    string        `yaml:"author_name" repo:"yes" validate:"required,person" doc:"Author and committer name for commits."`
	AuthorEmail   string        `yaml:"author_email" repo:"yes" validate:"required,address" doc:"Author and committer e-mail address for commits."`
	MaxFiles      int64         `yaml:"max_files" validate:"min=1,max=100000000" doc:"Maximum number of files in a repository at a run's base commit."`
	MaxSize       Size          `yaml:"max_size" validate:"min=1048576" doc:"Maximum download size of a repository, and maximum total size of its files at a run's base commit."`
	LinkedFolders []string      `yaml:"linked_folders" validate:"max=100,dive,required" doc:"Directories on this host in which repositories may store data outside their own directories: borrowed objects (git clone --reference) and separate git directories (git init --separate-git-dir)." example:"[/srv/git]"`
	Protected     []string      `yaml:"protected" validate:"max=100,dive,glob" doc:"Patterns for files, such as CI configuration, that determine what runs with other people's permissions after a push. A release that changes such a file is pushed only after a named person approves it. Case is ignored." example:"[\".github/**\", deploy/**]"`
	Stay          time.Duration `yaml:"stay" repo:"lower" validate:"min=0,max=720h" doc:"How long a run continues to watch its branch after the release, to fix problems reported by failing checks or review comments (rgpt run check). 0: the run ends with the release."`
	MaxRepairs    int           `yaml:"max_repairs" repo:"lower" validate:"min=0,max=100" doc:"Maximum number of repairs to a branch after the release, across all runs. If more repairs are needed, a person is asked."`
}

// PullRequest configures the pull requests of releases.
type PullRequest struct {
	Base         string   `yaml:"base" validate:"max=200" doc:"Branch into which pull requests are to be merged. Empty: the branch that the run started from."`
	Draft        string   `yaml:"draft" validate:"oneof=gate always never" doc:"Which pull requests are drafts. gate: those of releases for which the policy gate demanded an approval."`
	Labels       []string `yaml:"labels" validate:"max=20,dive,required,max=50" doc:"Labels of pull requests. The gate's decision is added to them as another label." example:"[rgpt, automated]"`
	Reviewers    []string `yaml:"reviewers" validate:"max=20,dive,required,max=100" doc:"People to be asked for a review, and teams as organisation/team." example:"[ada, acme/core]"`
	CodeOwners   bool     `yaml:"code_owners" doc:"Also ask the owners of the changed files, according to the CODEOWNERS file of the base commit."`
	Statuses     bool     `yaml:"statuses" doc:"Report the result of each check and of the policy gate as a status of the released commit."`
	Comments     bool     `yaml:"comments" doc:"Add the open findings of the reviewer (gate.review) as comments on the lines that they concern."`
	CloseIssue   bool     `yaml:"close_issue" doc:"For a run that is about an issue (rgpt run create --issue): the pull request closes the issue when it is merged."`
	CommentIssue bool     `yaml:"comment_issue" doc:"For a run that is about an issue: once it has opened its pull request, comment on the issue with its address."`
	Mention      string   `yaml:"mention" validate:"required,max=100,mention" doc:"What a comment in the conversation of a pull request must contain so that a run that watches its branch (git.stay) carries it out. Comments on lines, and texts of reviews that do not approve, need not contain it." example:"\"@acme-bot\""`
	Ignore       []string `yaml:"ignore" validate:"max=100,dive,required,max=100,login" doc:"Accounts whose comments do not count, such as those of programs that the forge does not mark as bots. * stands for any characters; case is ignored." example:"[dependabot, \"*-bot\"]"`
	Commenters   string   `yaml:"commenters" validate:"oneof=read write admin" doc:"Permission that people must have for the repository so that a run carries out their comments."`
	Merge        Merge    `yaml:"merge" doc:"How pull requests are merged by a merge queue."`

	Update         string        `yaml:"update" validate:"oneof=off merge rebase" doc:"How a run that watches the branch of its pull request (git.stay) brings commits of the base into it. off: it does not. merge: by a merge commit. rebase: the commits of the run are put on top of the base, unless other people or runs have commits on the branch, or that conflicts; then the base is merged. If the merge conflicts, the Repair agent resolves it."`
	UpdateWhen     string        `yaml:"update_when" validate:"oneof=conflict behind" doc:"When the base is brought into the branch. conflict: if both conflict, or if the forge demands that the branch has the newest commit of the base and says so (GitHub, GitLab). behind: whenever the base has newer commits."`
	UpdateInterval time.Duration `yaml:"update_interval" validate:"min=1s,max=24h" doc:"Minimum time between two updates of a branch from its base."`
	MaxUpdates     int           `yaml:"max_updates" validate:"min=1,max=1000" doc:"Maximum number of updates of a branch from its base by a run. Updates with conflicts that an agent resolves also count as repairs (git.max_repairs)."`
}

// UpdateOff is the value of PullRequest.Update for runs that do not update their branches.
const UpdateOff = "off"

// ChangeSet configures runs that change several repositories and are released together.
type ChangeSet struct {
	Max        int           `yaml:"max" validate:"min=2,max=20" doc:"Maximum number of repositories that a request may specify."`
	Incomplete string        `yaml:"incomplete" validate:"oneof=draft release hold" doc:"What happens to the runs that are ready for their release if others have ended without it, or were not ready in time (wait). draft: they are released, and their pull requests are drafts. release: they are released. hold: they wait until a person releases or stops the set (rgpt set release, rgpt set stop). Their pull requests name what is missing."`
	Wait       time.Duration `yaml:"wait" validate:"min=1m,max=720h" doc:"How long the first run that is ready waits for the others."`
	Follow     time.Duration `yaml:"follow" validate:"min=0,max=8760h" doc:"How long after the release the pull requests of a set are looked at, so that each of them shows what became of the others. 0: only until all are open."`
}

// The values of Merge.When.
const (
	MergeNever    = "never"
	MergeApproved = "approved"
)

// Merge configures how merge queues merge pull requests. Only the operator's configuration has it.
type Merge struct {
	When          string        `yaml:"when" validate:"oneof=never approved" doc:"When a pull request of a run is added to the merge queue of its base. never: only by a person (rgpt queue add). approved: while the run watches its branch (git.stay), as soon as the policy gate allows the release, and approvals, labels and checks are as required here. A person must have approved the release, or the pull request (approvals), unless the gate allows a merge without one (gate.labels.automerge). Only the commit that the run released last is added and merged. If it is on top of commits of people or of an earlier run, which the gate did not judge, it is added only with approvals of at least 1."`
	Method        string        `yaml:"method" validate:"oneof=merge squash rebase" doc:"How the forge merges a pull request."`
	DeleteBranch  bool          `yaml:"delete_branch" doc:"Delete the branch of a pull request of a run after it was merged, unless it has newer commits. Other branches are kept."`
	Approvals     int           `yaml:"approvals" validate:"min=0,max=100" doc:"Minimum number of people who must have approved the newest commit of a pull request, in addition to what the forge itself requires."`
	Labels        []string      `yaml:"labels" validate:"max=20,dive,required,max=50" doc:"Labels that a pull request must have." example:"[ready]"`
	BlockedLabels []string      `yaml:"blocked_labels" validate:"max=20,dive,required,max=50" doc:"Labels that a pull request must not have." example:"[do-not-merge]"`
	RemoveLabels  bool          `yaml:"remove_labels" doc:"Remove the required labels (labels) from a pull request that a merge queue returns."`
	Checks        []string      `yaml:"checks" validate:"max=50,dive,required,max=200" doc:"Names of checks or statuses that must succeed on what is to be merged, in addition to those that the forge requires." example:"[ci/test]"`
	Batch         int           `yaml:"batch" validate:"min=1,max=30" doc:"Maximum number of pull requests that a merge queue tests together."`
	CheckTime     time.Duration `yaml:"check_time" validate:"min=10s,max=24h" doc:"How long the checks of pull requests may take. After that, they count as failed."`
	CheckPoll     time.Duration `yaml:"check_poll" validate:"min=100ms,max=10m" doc:"How often a merge queue asks the forge for the results of checks."`
	Prefix        string        `yaml:"queue_prefix" validate:"required,refprefix" doc:"Prefix of the branches that merge queues create to test pull requests together. The checks must also run for these branches."`
}
