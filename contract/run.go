package contract

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Phase is one of the four phases of a run.
type Phase string

// The phases, in order.
const (
	PhasePlanner  Phase = "planner"
	PhaseBuilder  Phase = "builder"
	PhaseTester   Phase = "tester"
	PhaseReleaser Phase = "releaser"
)

// Phases returns the phases in the order in which a run passes through them.
func Phases() []Phase { return []Phase{PhasePlanner, PhaseBuilder, PhaseTester, PhaseReleaser} }

// Running returns the status of a run whose phase is running, such as planner_running.
func (p Phase) Running() Status { return Status(string(p) + "_running") }

// Error returns the status of a run whose phase has just failed, such as planner_error.
func (p Phase) Error() Status { return Status(string(p) + "_error") }

// Completed returns the status of a run whose phase succeeded: planner_completed
// and so on, done for the releaser.
func (p Phase) Completed() Status {
	if p == PhaseReleaser {
		return StatusDone
	}
	return Status(string(p) + "_completed")
}

// Valid reports whether p is one of the four phases.
func (p Phase) Valid() bool {
	switch p {
	case PhasePlanner, PhaseBuilder, PhaseTester, PhaseReleaser:
		return true
	}
	return false
}

// Agent is the name of an agent.
type Agent string

// The agents.
const (
	AgentPlanner  Agent = "planner"
	AgentBuilder  Agent = "builder"
	AgentTester   Agent = "tester"
	AgentReleaser Agent = "releaser"
	AgentAnalyzer Agent = "analyzer"
	AgentRepair   Agent = "repair"

	// AgentIndexer computes embeddings, and orders what searches found. It is not one of Agents: it
	// carries out no phase, and only the models of brain.embeddings and brain.rerank serve it.
	AgentIndexer Agent = "indexer"
)

// AgentOf returns the agent that carries out a phase.
func AgentOf(p Phase) Agent { return Agent(p) }

// Status is a state of the run lifecycle.
type Status string

// Statuses that belong to no phase. Phase.Running, Phase.Error and Phase.Completed return the
// statuses of a phase.
const (
	StatusPending            Status = "pending"
	StatusSelfHeal           Status = "self_heal"
	StatusPaused             Status = "paused"
	StatusWaitingForApproval Status = "waiting_for_approval"
	StatusWaitingForInput    Status = "waiting_for_input" // of a person, to a question of the planner
	StatusDone               Status = "done"
	StatusFailed             Status = "failed"
	StatusCancelled          Status = "cancelled"
)

// Statuses returns every status of the lifecycle.
func Statuses() []Status {
	all := []Status{StatusPending}
	for _, p := range Phases() {
		all = append(all, p.Running(), p.Error())
		if p != PhaseReleaser {
			all = append(all, p.Completed())
		}
	}
	return append(all, StatusSelfHeal, StatusPaused, StatusWaitingForApproval, StatusWaitingForInput, StatusDone, StatusFailed, StatusCancelled)
}

// Terminal reports whether a run in this status has ended.
func (s Status) Terminal() bool {
	return s == StatusDone || s == StatusFailed || s == StatusCancelled
}

// WaitsForPerson reports whether a run in this status waits for the answer of a person.
func (s Status) WaitsForPerson() bool {
	return s == StatusWaitingForApproval || s == StatusWaitingForInput
}

// ModelChoice names the model for a phase or call. Provider and Model are names in the worker's
// configuration; keys and addresses are never sent.
type ModelChoice struct {
	Provider    string   `json:"provider"`
	Model       string   `json:"model"`
	Temperature *float64 `json:"temperature,omitempty"`
	// Timeout is the limit of a single call if the provider has its own; 0: the run's
	// Settings.ModelTimeout.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Effort is how much the model reasons before it responds; empty: the provider's default. Models
	// without this setting ignore it.
	Effort Effort `json:"effort,omitempty"`
}

// Effort is an amount of reasoning.
type Effort string

// Amounts of reasoning. Each provider translates them to its own setting.
const (
	EffortLow    Effort = "low"
	EffortMedium Effort = "medium"
	EffortHigh   Effort = "high"
)

// Efforts returns all amounts of reasoning, the smallest first.
func Efforts() []Effort { return []Effort{EffortLow, EffortMedium, EffortHigh} }

// More returns the next larger amount of reasoning, and whether there is one. Without a setting,
// providers reason a medium amount.
func (e Effort) More() (Effort, bool) {
	switch e {
	case EffortLow:
		return EffortMedium, true
	case EffortHigh:
		return e, false
	case EffortMedium:
	}
	return EffortHigh, true
}

// Less returns the next smaller amount of reasoning, and whether there is one.
func (e Effort) Less() (Effort, bool) {
	switch e {
	case EffortHigh:
		return EffortMedium, true
	case EffortLow:
		return e, false
	case EffortMedium:
	}
	return EffortLow, true
}

// StepBudget limits one agent loop. Zero means no limit of that kind.
type StepBudget struct {
	Turns      int           `json:"turns"`
	Tokens     int64         `json:"tokens"`
	MicroUSD   int64         `json:"micro_usd"` // millionths of a US dollar
	Time       time.Duration `json:"time"`
	LoopLimit  int           `json:"loop_limit"`  // identical (tool, arguments, result) before the loop is broken
	ErrorLimit int           `json:"error_limit"` // consecutive unusable model responses before the step fails
}

// RunBudget limits a whole run. Zero means no limit of that kind.
type RunBudget struct {
	Tokens   int64                 `json:"tokens"`
	MicroUSD int64                 `json:"micro_usd"`
	Time     time.Duration         `json:"time"`
	Agents   map[Agent]AgentBudget `json:"agents,omitempty"` // of single agents, within the run's
	// Attempts is the group of attempts whose calls together have the same limits of tokens and money;
	// 0: none.
	Attempts int64 `json:"attempts,omitempty"`
	// ChangeSet limits all runs of a change set together; nil: the run belongs to none.
	ChangeSet *ChangeSetBudget `json:"change_set,omitempty"`
}

// AgentBudget limits the model calls of one agent in a run. Zero means no limit of that kind.
type AgentBudget struct {
	Tokens   int64 `json:"tokens,omitempty"`
	MicroUSD int64 `json:"micro_usd,omitempty"`
}

// Thresholds limit a run's findings. More than MaxMajor major findings fail the run; more than
// MaxMedium medium findings cause a warning.
type Thresholds struct {
	MaxMajor  int `json:"max_major"`
	MaxMedium int `json:"max_medium"`
}

// ReleaseSettings are the settings of a run's release.
type ReleaseSettings struct {
	Branch      string `json:"branch"`                 // rgpt/run-42
	Push        bool   `json:"push"`                   // push to Remote as well
	Remote      string `json:"remote,omitempty"`       // name or URL of the remote
	AuthorName  string `json:"author_name,omitempty"`  // of the commits
	AuthorEmail string `json:"author_email,omitempty"` // of the commits
	// Protected are patterns of files that are pushed only after a named person has
	// approved the release. Empty: none.
	Protected []string `json:"protected,omitempty"`
	// Stay is how long the run watches its branch after the release; 0: it does not. MaxRepairs
	// limits the repairs after releases of the branch, across runs.
	Stay       time.Duration `json:"stay,omitempty"`
	MaxRepairs int           `json:"max_repairs,omitempty"`
	// PullRequest describes the pull request that the release opens after the push; nil: none.
	PullRequest *PullRequestSettings `json:"pull_request,omitempty"`
}

// Settings are the inputs of a run's decisions. They are resolved once, when the run is created,
// and frozen: a deployment or an edited file never changes a running run.
type Settings struct {
	Repo             Repo                  `json:"repo"`
	Models           map[Agent]ModelChoice `json:"models"`
	Providers        []string              `json:"providers,omitempty"`       // names of providers that the run's models may be switched to
	Fallbacks        []ModelChoice         `json:"fallbacks,omitempty"`       // models to use while another is out, and that a heal may change to, in order
	Routing          *Routing              `json:"routing,omitempty"`         // nil: every call uses its agent's model while that can make it
	Cache            *ResponseCache        `json:"cache,omitempty"`           // nil: every request is sent to its model
	MaxRetries       int                   `json:"max_retries"`               // heals of a phase; 0: none
	InterventionWait time.Duration         `json:"intervention_wait"`         // for a person's help; no answer in time means no
	QuotaWait        time.Duration         `json:"quota_wait"`                // for the window of a provider's limit
	Parallel         int                   `json:"parallel"`                  // steps at the same time
	ChecksTogether   int                   `json:"checks_together,omitempty"` // most checks of a stage that one activity carries out; 0 or 1: each is an activity of its own
	StepBudget       StepBudget            `json:"step_budget"`
	Agents           AgentLimits           `json:"agents"`
	RunBudget        RunBudget             `json:"run_budget"`
	Thresholds       Thresholds            `json:"thresholds"`
	StableRetests    int                   `json:"stable_retests,omitempty"` // number of times that passed tests run again before the tester is done
	Release          ReleaseSettings       `json:"release"`
	PlanOnly         bool                  `json:"plan_only,omitempty"`
	PrepareOnly      bool                  `json:"prepare_only,omitempty"` // end with the environment and the baseline; a setup that fails ends the run without asking a person
	ApprovePlan      bool                  `json:"approve_plan,omitempty"`
	ApproveRelease   bool                  `json:"approve_release,omitempty"`
	ApprovalWait     time.Duration         `json:"approval_wait"` // no answer in time means no
	// Reminders are those of questions to people; empty: one, after half of the time for an answer.
	Reminders      []Reminder    `json:"reminders,omitempty"`
	PlanGiven      bool          `json:"plan_given,omitempty"`
	CommandTimeout time.Duration `json:"command_timeout"` // longest command that an agent may run
	VerifyTimeout  time.Duration `json:"verify_timeout"`  // longest check of the verification
	// FinishRefusals is how often failed checks go back to an agent that wants to finish; 0: they are
	// not run before it finishes.
	FinishRefusals int                   `json:"finish_refusals,omitempty"`
	ModelTimeout   time.Duration         `json:"model_timeout"`             // longest single model call
	Fork           *Fork                 `json:"fork,omitempty"`            // of an old run
	Issue          *Issue                `json:"issue,omitempty"`           // that the run is about; nil: none
	Pictures       []Picture             `json:"pictures,omitempty"`        // that belong to the goal
	RepairPictures int                   `json:"repair_pictures,omitempty"` // screenshots of failed tests that the Repair agent gets
	Attempt        *Attempt              `json:"attempt,omitempty"`         // one of several at the same goal; nil: the only one
	ChangeSet      *ChangeSetMember      `json:"change_set,omitempty"`      // one of several runs that are released together; nil: none
	FollowUp       *FollowUp             `json:"follow_up,omitempty"`       // of an old run, on its branch
	Planner        *PlannerSettings      `json:"planner,omitempty"`         // nil: the planner makes its plan in one turn, without tools
	PlanBy         string                `json:"plan_by,omitempty"`         // PlanByDeliberation; empty: the planner
	Environment    *EnvironmentSettings  `json:"environment,omitempty"`     // nil: no environment is set up, and no baseline runs
	Deliberation   *DeliberationSettings `json:"deliberation,omitempty"`    // set: a deliberation may plan the run, for example if the planner finds the goal too complex
	Gate           *GateSettings         `json:"gate,omitempty"`            // nil: no policy gate judges the run's changes
	CreatedBy      string                `json:"created_by,omitempty"`      // who created the run: a person, or a client such as ByAPI; empty: unknown
	Authors        []string              `json:"authors,omitempty"`         // the people who created the runs whose work this one continues
}

// ResponseCache is how a run uses the responses to identical requests of earlier runs of its project.
// Only requests at temperature 0 do, and only in the first attempt of a phase or step.
type ResponseCache struct {
	Retention time.Duration `json:"retention"` // how old a response may be
}

// Pushes reports whether a release goes beyond the repository on the worker's host: because it is
// pushed, or because the run works on a URL.
func Pushes(repo Repo, release ReleaseSettings) bool {
	return release.Push || !strings.HasPrefix(repo.URL, "/")
}

// PlanByDeliberation is the PlanBy of runs that ALPHA and BETA plan.
const PlanByDeliberation = "deliberation"

// Repo is a repository at a commit.
type Repo struct {
	URL    string `json:"url"`    // absolute path on the worker's host, or a URL that git can fetch
	Base   string `json:"base"`   // full commit id
	Tree   string `json:"tree"`   // full tree id of Base
	Branch string `json:"branch"` // the name that Base was resolved from, for people
}

// The logic of a run's workflow is part of its input, because a version marker would cost events. Each includes
// the earlier ones.
const (
	// LogicLean is the logic of runs that write fewer events: they prepare with one activity, whose events are
	// written when the planner begins, update Temporal's search attributes only when they change, and remove
	// their directories by a local activity.
	LogicLean = 1 + iota
	// LogicSteps is the logic of runs that carry out their steps as parts of their own workflow, as long as its
	// history has room. A child workflow for each step costs about half of what Temporal does for a run.
	LogicSteps
	// LogicLocalSetup is the logic of runs that look for the environment of their base commit with a local activity
	// first, and need no version marker to judge changes of their labels at once.
	LogicLocalSetup
)

// RunInput starts a run's workflow. It does not include the goal: texts stay in the database, and
// histories contain only keys.
type RunInput struct {
	RunID    int64    `json:"run_id"`
	Tenant   string   `json:"tenant"`
	Project  string   `json:"project"`
	PlanID   int64    `json:"plan_id,omitempty"` // of the plan supplied with the run, if Settings.PlanGiven
	Settings Settings `json:"settings"`
	Logic    int      `json:"logic,omitempty"` // LogicLean or later; 0: earlier

	// Continued is the state of a run whose workflow continued as new; empty at its start. Only the
	// run's workflow reads it.
	Continued json.RawMessage `json:"continued,omitempty"`
}

// RunResult is the result of a run's workflow.
type RunResult struct {
	RunID   int64    `json:"runId"`
	Status  Status   `json:"status"`
	Branch  string   `json:"branch,omitempty"`
	Commit  string   `json:"commit,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
}

// StepStatus is the state of one step of the plan.
type StepStatus string

// The step statuses.
const (
	StepPending   StepStatus = "pending"
	StepRunning   StepStatus = "running"
	StepCompleted StepStatus = "completed"
	StepFailed    StepStatus = "failed"
	StepCancelled StepStatus = "cancelled"
)

// RunView is the result of a run's state query.
type RunView struct {
	RunID          int64                 `json:"runId"`
	Phase          Phase                 `json:"phase"`
	Status         Status                `json:"status"`
	PausedFrom     Status                `json:"paused_from,omitempty"`
	WaitingFor     string                `json:"waiting_for,omitempty"` // why a run waits, by name
	ApprovalID     string                `json:"approval_id,omitempty"` // of the open approval
	PlanID         int64                 `json:"plan_id,omitempty"`     // of the current plan
	RetryCount     int                   `json:"retry_count"`
	MaxRetries     int                   `json:"max_retries"`
	LastHealAction string                `json:"last_heal_action,omitempty"`
	Models         map[Agent]ModelChoice `json:"models"`
	Steps          []StepView            `json:"steps,omitempty"`
	Failure        *Failure              `json:"failure,omitempty"`
	Branch         string                `json:"branch,omitempty"`
	Commit         string                `json:"commit,omitempty"`
	Usage          Usage                 `json:"usage"`
	Staying        *BranchWatch          `json:"staying,omitempty"`
}

// StepView is one step in a RunView.
type StepView struct {
	ID           string     `json:"id"`
	Name         string     `json:"name"`
	Dependencies []string   `json:"dependencies,omitempty"`
	Status       StepStatus `json:"status"`
	Attempt      int        `json:"attempt,omitempty"`
	Turns        int        `json:"turns,omitempty"`
}

// TranscriptKey locates a stored conversation: the database has its messages under (ExecutionID,
// turn), with turns from 0, the opening, to Turns. For a running step that has a workflow of its own, the
// run knows only Workflow; the transcript query of that workflow returns the other fields.
type TranscriptKey struct {
	Phase       Phase  `json:"phase"`
	Step        string `json:"step,omitempty"`
	Agent       Agent  `json:"agent"`
	Attempt     int    `json:"attempt,omitempty"`
	ExecutionID int64  `json:"execution_id,omitempty"`
	Turns       int    `json:"turns"`
	Workflow    string `json:"workflow"` // id of the conversation's workflow
}

// Directives are a run's current instructions for its running steps. The directives with the
// highest Seq apply, regardless of the order of arrival.
type Directives struct {
	Seq    int64       `json:"seq"` // counted by the run from 1
	Paused bool        `json:"paused,omitempty"`
	Model  ModelChoice `json:"model"`
}

// Usage is the paid model usage. Prompt tokens include those that the provider read from its cache
// and those that it wrote to it; completion tokens include those of reasoning.
type Usage struct {
	Calls            int   `json:"calls"`
	FromCache        int   `json:"from_cache,omitempty"` // calls that the response to an earlier, identical one answered
	PromptTokens     int64 `json:"prompt_tokens"`
	CachedTokens     int64 `json:"cached_tokens,omitempty"`      // read from the provider's cache
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty"` // written to it, if that has its own price
	CompletionTokens int64 `json:"completion_tokens"`
	ReasoningTokens  int64 `json:"reasoning_tokens,omitempty"`
	MicroUSD         int64 `json:"micro_usd"`
	EstimatedPrice   bool  `json:"estimated_price,omitempty"` // some of it is of models without a known price
}

// Add returns the sum of two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Calls:            u.Calls + v.Calls,
		FromCache:        u.FromCache + v.FromCache,
		PromptTokens:     u.PromptTokens + v.PromptTokens,
		CachedTokens:     u.CachedTokens + v.CachedTokens,
		CacheWriteTokens: u.CacheWriteTokens + v.CacheWriteTokens,
		CompletionTokens: u.CompletionTokens + v.CompletionTokens,
		ReasoningTokens:  u.ReasoningTokens + v.ReasoningTokens,
		MicroUSD:         u.MicroUSD + v.MicroUSD,
		EstimatedPrice:   u.EstimatedPrice || v.EstimatedPrice,
	}
}

// Tokens returns prompt and completion tokens together.
func (u Usage) Tokens() int64 { return u.PromptTokens + u.CompletionTokens }

// Command is the argument of every update and signal of a run. ID makes it idempotent: a command
// that was already applied is acknowledged again and changes nothing. By is the sender.
type Command struct {
	ID         string       `json:"id"`
	By         string       `json:"by"`
	Reason     string       `json:"reason,omitempty"`
	ApprovalID string       `json:"approval_id,omitempty"` // approve, reject: the approval concerned; empty: the open one
	Subject    string       `json:"subject,omitempty"`     // approve, reject: what the sender saw; empty: not compared
	Agent      Agent        `json:"agent,omitempty"`       // switch_model: the agent concerned; empty: all agents
	Model      *ModelChoice `json:"model,omitempty"`       // switch_model
	PlanID     int64        `json:"plan_id,omitempty"`     // approve: the stored plan that a person edited, to be used instead
	Action     HealAction   `json:"action,omitempty"`      // heal: the action to take; empty: the next action in the table
	Answer     string       `json:"answer,omitempty"`      // answer: the number or the text of an option
	Text       string       `json:"text,omitempty"`        // tell: the message to the agents
	Step       string       `json:"step,omitempty"`        // tell: the only step whose agents get the message; empty: all agents
}

// RunMessage is a message from a person to the agents of a run, as the event EventMessageAdded
// carries it.
type RunMessage struct {
	Text string `json:"text"`
	By   string `json:"by,omitempty"`
	Step string `json:"step,omitempty"` // the only step whose agents get it; empty: all agents
}

// The sender names that this program uses for commands of people who gave no name.
const (
	ByAPI         = "api"
	ByDashboard   = "dashboard"
	ByCommandLine = "the command line"
	ByUnnamed     = "unnamed" // as the ledger names a sender without any name
)

// BySystem is the sender of commands that the program itself decided on, and ByForge of results of
// checks that a forge reports.
const (
	BySystem = "the system"
	ByForge  = "the forge"
)

// byTrigger is the beginning of the names of triggers that create runs and cancel them.
const byTrigger = "trigger "

// ByTrigger returns the sender of what a trigger of the configuration does.
func ByTrigger(name string) string { return byTrigger + name }

// Nameless reports whether a command came without the name of a person.
func Nameless(by string) bool {
	by = strings.ToLower(strings.TrimSpace(by))
	return slices.Contains([]string{"", ByAPI, ByDashboard, ByCommandLine, ByUnnamed, BySystem, ByForge}, by) || strings.HasPrefix(by, byTrigger)
}

// SamePerson reports whether two names are those of the same person. Names are compared without regard
// to case and surrounding spaces; the unnamed are nobody in particular.
func SamePerson(a, b string) bool {
	return !Nameless(a) && !Nameless(b) && strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b))
}

// AuthorsBefore returns the people who created a run with these settings, or the runs whose work it continues.
func (s Settings) AuthorsBefore() []string {
	out := s.Authors
	if !Nameless(s.CreatedBy) {
		out = append(slices.Clone(out), s.CreatedBy)
	}
	return out
}

// Ack answers an update.
type Ack struct {
	Applied bool   `json:"applied"` // false: the command had already been applied
	Status  Status `json:"status"`
	Message string `json:"message"`
}

// UsesModel reports whether a phase uses a model. The tester and the releaser only run commands.
func (p Phase) UsesModel() bool { return p == PhasePlanner || p == PhaseBuilder }
