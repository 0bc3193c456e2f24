package contract

import "time"

// Activities that prepare a run before anything is paid for. They run on the tester's queue, like
// the project's checks.
const (
	ActivityEnvironment = "rgpt.tester.Environment"
	ActivityBaseline    = "rgpt.tester.Baseline"
	ActivityProposal    = "rgpt.tester.Proposal"
	ActivityJudgeSetup  = "rgpt.tester.JudgeSetup"
)

// AgentEnvironment finds out how to set up a repository if its files do not specify this, or if the
// specified setup fails. It proposes commands; the baseline decides.
const AgentEnvironment Agent = "environment"

// StepEnvironment names the executions of the environment agent, as a step's id names executions of
// the builder.
const StepEnvironment = "environment"

// SetupTask is the environment agent's task: the reason why the repository cannot be set up, or why
// its checks cannot run.
type SetupTask struct {
	Problem string `json:"problem"`
	Output  string `json:"output,omitempty"` // the end of the failed command's output
}

// ProposalInput is the input for getting the setup that an execution of the environment agent
// proposed last, for its run to try.
type ProposalInput struct {
	Execution ExecutionRef `json:"execution"`
}

// ProposalResult is a proposed setup; its id is 0 if none was proposed.
type ProposalResult struct {
	Setup int64 `json:"setup,omitempty"`
}

// JudgeSetupInput is the verdict on a proposed setup: if the baseline confirmed it, it is used for
// its repository from now on; otherwise it is revoked.
type JudgeSetupInput struct {
	RunID  int64  `json:"run_id"`
	Setup  int64  `json:"setup"`
	Proven bool   `json:"proven,omitempty"`
	Why    string `json:"why,omitempty"` // it did not work
}

// JudgeSetupResult has the reason why a setup is used only in its run although the baseline could
// run. It is empty if the setup is used for its repository, or was revoked.
type JudgeSetupResult struct {
	Unproven string `json:"unproven,omitempty"`
}

// Events of a run's environment and baseline.
const (
	EventEnvironmentStarted EventType = "environment.started"
	EventEnvironmentReady   EventType = "environment.ready"
	EventEnvironmentError   EventType = "environment.error"
	EventBaselineStarted    EventType = "baseline.started"
	EventBaselineReady      EventType = "baseline.ready"
	EventSetupProposed      EventType = "environment.proposed" // by the environment agent
	EventSetupJudged        EventType = "environment.judged"   // by the baseline
)

// EnvironmentSettings are the settings of a run's environment and baseline. They are frozen with
// the run; a run without them has neither.
type EnvironmentSettings struct {
	Timeout    time.Duration `json:"timeout"`               // longest set-up
	Baseline   bool          `json:"baseline,omitempty"`    // run the project's checks on the base commit first
	AskIfRed   bool          `json:"ask_if_red,omitempty"`  // a person decides whether to continue from a base commit that fails its checks
	AgentTurns int           `json:"agent_turns,omitempty"` // turns of the environment agent; 0: there is none
}

// SetupTimeout returns how long a command or check may wait for its environment, on top
// of its own time; 0 if there is none.
func (s Settings) SetupTimeout() time.Duration {
	if s.Environment == nil {
		return 0
	}
	return s.Environment.Timeout
}

// EnvironmentInput is the input for finding out what environment a workspace needs, and creating it
// unless it exists.
type EnvironmentInput struct {
	RunID     int64         `json:"run_id"`
	Workspace Workspace     `json:"workspace"`
	Timeout   time.Duration `json:"timeout"` // of the set-up
	// Baseline also asks for the checks of the base commit that have no result yet.
	Baseline bool `json:"baseline,omitempty"`
	// LocalOnly looks only for an environment that is on this host, in a small repository.
	LocalOnly bool `json:"local_only,omitempty"`
}

// EnvironmentResult is an environment that exists, or the reason why it does not. A setup that
// fails is a result, not an error of the activity.
type EnvironmentResult struct {
	Cold       bool     `json:"cold,omitempty"`   // it would take long on this host; repeat without LocalOnly
	Digest     string   `json:"digest,omitempty"` // empty: the repository needs none
	Kept       bool     `json:"kept,omitempty"`   // it existed already
	Bytes      int64    `json:"bytes,omitempty"`  // on disk, unpacked
	Files      int64    `json:"files,omitempty"`
	DurationMS int64    `json:"duration_ms"`       // of setup or restore, including waiting
	Summary    string   `json:"summary,omitempty"` // what was set up: "go, node (pnpm)"
	Missing    []string `json:"missing,omitempty"` // tool chains that the repository requires and the worker lacks
	Failure    *Failure `json:"failure,omitempty"`
	Advice     string   `json:"advice,omitempty"` // with Failure: what a person can do about it
	// Baseline is what Baseline of the input asked for, without Failure.
	Baseline *BaselineResult `json:"baseline,omitempty"`
}

// BaselineInput is the input for listing the checks of a project that have no result for the base
// commit yet or, with Done, for getting the results of all checks.
type BaselineInput struct {
	RunID       int64     `json:"run_id"`
	Workspace   Workspace `json:"workspace"`
	Environment string    `json:"environment,omitempty"` // its digest
	Done        bool      `json:"done,omitempty"`
}

// BaselineResult is the result of the checks on the base commit. Stages are the checks still to be
// run, empty when all have a result.
type BaselineResult struct {
	Key         string      `json:"key"`
	Stages      [][]Check   `json:"stages,omitempty"`
	Summary     TestSummary `json:"summary"`
	Red         []string    `json:"red,omitempty"`         // names of the checks that failed
	Unavailable []string    `json:"unavailable,omitempty"` // checks that could not start, with the reason
	Unjudged    []string    `json:"unjudged,omitempty"`    // why scans were skipped
	Advice      string      `json:"advice,omitempty"`      // with Unavailable: what a person can do about it
	DurationMS  int64       `json:"duration_ms"`           // of all checks together
}

// StepBaseline names the directories of a baseline in a run's directory.
const StepBaseline = "baseline"

// BaselineExecution identifies a run's baseline in place of an execution: it has no row, and
// belongs to no phase.
func BaselineExecution(runID int64) ExecutionRef {
	return ExecutionRef{RunID: runID, Phase: PhaseTester, Step: StepBaseline, Agent: AgentTester, Attempt: 1}
}
