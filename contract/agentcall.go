package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// PlanInput is the input for one turn of planning: a model call and its read-only tool calls. The
// plan that it ends with is checked and stored.
type PlanInput struct {
	Execution ExecutionRef  `json:"execution"`
	Repo      Repo          `json:"repo"`
	Model     ModelChoice   `json:"model"`
	Budget    RunBudget     `json:"budget"`
	Timeout   time.Duration `json:"timeout"`
	Branch    string        `json:"branch,omitempty"` // that the run will release; empty: none
	Lessons   Lessons       `json:"lessons,omitzero"`

	Consensus *DeliberationResult `json:"consensus,omitempty"` // of a deliberation about the run: the plan must be made from it
	Fallbacks []ModelChoice       `json:"fallbacks,omitempty"` // models to use while Model is out, in order

	Planner    *PlannerSettings `json:"planner,omitempty"`    // nil: the plan is made in one turn, without tools
	State      PlanState        `json:"state,omitzero"`       // after the previous turn
	Violations int              `json:"violations,omitempty"` // forbidden actions that are tolerated
	// DeliberateOver is the complexity above which a deliberation replaces the plan; 0: none does.
	DeliberateOver float64 `json:"deliberate_over,omitempty"`
	// Input is the run's question that was answered: the one that State names, or that of an earlier
	// attempt; nil: none.
	Input *PlannerInput `json:"input,omitempty"`
}

// PlanResult is the plan without its long texts; those stay in the database.
type PlanResult struct {
	ID    int64 `json:"id"`   // of the plan's row, which never changes
	Plan  Plan  `json:"plan"` // names, dependencies, levels; no descriptions
	Usage Usage `json:"usage"`

	Review *PlanReview `json:"review,omitempty"` // nil: a person made the plan

	Ask *PlannerQuestion `json:"ask,omitempty"` // with More: what a person must answer first

	More  bool      `json:"more,omitempty"` // the planner needs another turn
	State PlanState `json:"state,omitzero"` // for the next turn
}

// AdoptPlanInput is the input for checking and loading a stored plan that a person supplied or
// edited.
type AdoptPlanInput struct {
	RunID  int64 `json:"run_id"`
	PlanID int64 `json:"plan_id"`
}

// Skeleton returns the plan without its long texts, small enough for histories.
//
// Dependencies that follow from others are omitted: they are redundant, and make up most of a plan
// in which each step names all steps before it.
func (p Plan) Skeleton() Plan {
	needs := p.reduced()
	out := Plan{ComplexityScore: p.ComplexityScore}
	for _, s := range p.Steps {
		out.Steps = append(out.Steps, Step{
			ID: s.ID, Name: clip(s.Name), Dependencies: needs[s.ID],
			EstimatedComplexity: s.EstimatedComplexity, RiskLevel: s.RiskLevel,
		})
	}
	return out
}

// TurnCallLimit is the maximum number of tool calls in one turn.
const TurnCallLimit = 64

// StepInput starts an agent loop, such as a step of a plan. Needs are the changes of all steps that it
// depends on, in plan order; together they lead from the base to the step's starting point.
type StepInput struct {
	RunID        int64             `json:"run_id"`
	Step         string            `json:"step"`
	PlanID       int64             `json:"plan_id"` // of the plan that the step belongs to
	Agent        Agent             `json:"agent"`
	Phase        Phase             `json:"phase"`
	Workspace    Workspace         `json:"workspace"`
	Needs        []Change          `json:"needs,omitempty"`
	Model        ModelChoice       `json:"model"`
	Settings     LoopSettings      `json:"settings"`
	State        *LoopState        `json:"state,omitempty"` // set when the loop continues in another history
	Lessons      Lessons           `json:"lessons,omitzero"`
	Heal         *HealTask         `json:"heal,omitempty"` // set for the Repair agent
	Conversation *ConversationFork `json:"talk,omitempty"` // set for the step that a fork continues
	Resume       *ResumePoint      `json:"go_on,omitempty"`
	Worker       string            `json:"worker,omitempty"` // for the step; empty: any worker of the role
	Setup        *SetupTask        `json:"setup,omitempty"`  // of the environment agent
	Planner      Credit            `json:"planner,omitzero"` // for a change that the plan contains; Step is empty
	Base         Workspace         `json:"base,omitzero"`    // with which tests are compared; empty: the run's base commit
}

// Digest identifies what the loop works with.
func (in StepInput) Digest() (string, error) {
	raw, err := json.Marshal(in)
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), err
}

// LoopSettings are the limits of an agent loop.
type LoopSettings struct {
	Budget         StepBudget    `json:"budget"`
	RunBudget      RunBudget     `json:"run_budget"`
	ModelTimeout   time.Duration `json:"model_timeout"`
	CommandTimeout time.Duration `json:"command_timeout"`
	VerifyTimeout  time.Duration `json:"verify_timeout,omitempty"`  // of a check, in strict mode
	SetupTimeout   time.Duration `json:"setup_timeout,omitempty"`   // of an environment that a command must wait for
	ChecksTogether int           `json:"checks_together,omitempty"` // as in Settings
	Agents         AgentLimits   `json:"agents"`
	Fallbacks      []ModelChoice `json:"fallbacks,omitempty"` // models to use while the agent's is out, in order
	// FinishRefusals is how often failed checks go back to the agent when it wants to finish. 0: they
	// are not run then, as in all loops that began before there was this setting.
	FinishRefusals int `json:"finish_refusals,omitempty"`
	// HoldFinish lets an agent that wants to finish beside a call that failed see that first. Loops that
	// began before there was this setting do not have it.
	HoldFinish bool `json:"hold_finish,omitempty"`
	// Gate has the policy gate judge the change before it is applied. Loops that began before there was
	// this setting do not have it.
	Gate bool `json:"gate,omitempty"`
}

// LoopState is the state that an agent loop keeps from turn to turn.
type LoopState struct {
	Execution     ExecutionRef   `json:"execution"`
	Prompt        string         `json:"prompt"` // version of the prompt
	Model         ModelChoice    `json:"model"`
	Turn          int            `json:"turn"` // model calls made
	Workspace     Workspace      `json:"workspace"`
	From          Workspace      `json:"from"`
	Usage         Usage          `json:"usage"`
	Repeats       map[string]int `json:"repeats,omitempty"` // loop detection: fingerprint → count
	BadAnswers    int            `json:"bad_answers,omitempty"`
	Violations    int            `json:"violations,omitempty"` // actions outside the allowed tools or paths
	Records       int64          `json:"records"`
	DirectivesSeq int64          `json:"orders,omitempty"` // Seq of the last ones applied
	Paused        bool           `json:"paused,omitempty"`
	Started       time.Time      `json:"started"`
	// Refused is how often failed checks have gone back to the agent, and RefusedTree the files that
	// failed last.
	Refused     int    `json:"refused,omitempty"`
	RefusedTree string `json:"refused_tree,omitempty"`
	HeldTree    string `json:"held_tree,omitempty"` // the files with which it wanted to finish beside a failed call
	// Reminded says that the agent has been asked once for the answers that it left out.
	Reminded bool `json:"reminded,omitempty"`

	Planned bool `json:"planned,omitempty"` // the plan contains the first turn, which needs no model call

	Said string `json:"said,omitempty"` // with which the agent finished last, shortened
	Lost string `json:"lost,omitempty"` // the chosen worker, if it did not accept the step
}

// StepResult is the result of an agent loop. A failed step is a result with a failure, not an
// error.
type StepResult struct {
	Change      Change    `json:"change"`
	Credit      Credit    `json:"credit"`
	Usage       Usage     `json:"usage"`
	ExecutionID int64     `json:"execution_id"`
	Turns       int       `json:"turns"`
	Attempt     int       `json:"attempt"`
	Failure     *Failure  `json:"failure,omitempty"`
	Conflict    *Conflict `json:"conflict,omitempty"` // between the changes that the step starts from; Change.From has the part that could be merged
	Lost        string    `json:"lost,omitempty"`     // the chosen worker, if it did not accept the step
	Said        string    `json:"said,omitempty"`     // what the agent says it did, shortened
}

// OpenStepInput is the input for recording the beginning of a step, and creating its starting
// workspace and conversation. Record begins the execution; a repeat finds the same one.
type OpenStepInput struct {
	Record       Record            `json:"record"`
	PlanID       int64             `json:"plan_id"`
	Workspace    Workspace         `json:"workspace"`
	Needs        []Change          `json:"needs,omitempty"`
	LocalOnly    bool              `json:"quick,omitempty"` // return Cold instead of fetching or indexing the repository
	Lessons      Lessons           `json:"lessons,omitzero"`
	Heal         *HealTask         `json:"heal,omitempty"`
	Conversation *ConversationFork `json:"talk,omitempty"`
	Resume       *ResumePoint      `json:"go_on,omitempty"`
	Setup        *SetupTask        `json:"setup,omitempty"` // of the environment agent
}

// OpenStepResult is the starting point of a step.
type OpenStepResult struct {
	Execution ExecutionRef `json:"execution"`
	Cold      bool         `json:"cold,omitempty"` // the repository is not on this host or not indexed yet; repeat without LocalOnly
	Workspace Workspace    `json:"workspace"`
	Prompt    string       `json:"prompt"` // version of the prompt
	Conflict  *Conflict    `json:"conflict,omitempty"`
	At        Workspace    `json:"at,omitzero"`       // where a resumed step continues; Workspace is where it began
	Planned   bool         `json:"planned,omitempty"` // the plan contains the first turn, which needs no model call
}

// IntegrateInput is the input for merging all changes, in order.
type IntegrateInput struct {
	RunID     int64     `json:"run_id"`
	Workspace Workspace `json:"workspace"`
	Changes   []Change  `json:"changes"`
	LocalOnly bool      `json:"quick,omitempty"` // return Cold instead of fetching or indexing the repository
}

// IntegrateResult is the workspace with all changes, and the workspace after each of
// them (Stages), from which the release's commits are made.
type IntegrateResult struct {
	Cold      bool        `json:"cold,omitempty"` // the repository is not on this host or not indexed yet; repeat without LocalOnly
	Workspace Workspace   `json:"workspace"`
	Stages    []Workspace `json:"stages"`
	Conflict  *Conflict   `json:"conflict,omitempty"`
}

// ThinkInput is the input for a model call, the next turn of a conversation. The execution
// identifies the conversation; the response is stored under (execution, turn), and a call that
// finds it there costs nothing.
type ThinkInput struct {
	Execution ExecutionRef  `json:"execution"`
	Turn      int           `json:"turn"` // from 1
	Model     ModelChoice   `json:"model"`
	Budget    RunBudget     `json:"budget"`
	Timeout   time.Duration `json:"timeout"`
	Schema    bool          `json:"schema,omitempty"`    // send the strict forms of the tools' schemas
	Left      *StepLeft     `json:"left,omitempty"`      // nil: the step has no limits of its own
	Brief     *Brief        `json:"brief,omitempty"`     // set for a member of a deliberation: it has moves instead of tools
	Fallbacks []ModelChoice `json:"fallbacks,omitempty"` // models to use while Model is out, in order
	Tools     *TurnTools    `json:"tools,omitempty"`     // nil: its tool calls are left to the workflow
	Planned   bool          `json:"planned,omitempty"`   // the plan contains this turn: no model is asked
	Answer    []string      `json:"answer,omitempty"`    // ids of a review's findings that a summary must answer
	Further   *FurtherTurns `json:"further,omitempty"`   // turns that the activity may make, too; nil: none. It needs Tools
}

// FurtherTurns is what an activity may make besides its first turn, while the next one only follows from the
// last: the worker's time for it (worker.turns_time) and the step's limits permitting.
type FurtherTurns struct {
	Turns int           `json:"turns"`          // at most
	Time  time.Duration `json:"time,omitempty"` // after which none begins; 0: no limit of the step
}

// MaxFurtherTurns is the largest FurtherTurns.Turns of a step without a limit of turns.
const MaxFurtherTurns = 32

// TurnTools is the input for the tool calls of a turn, which its model call's activity carries out too.
type TurnTools struct {
	Workspace Workspace     `json:"workspace"`
	From      Workspace     `json:"from"` // where the agent began, slim
	Timeout   time.Duration `json:"timeout"`
	// Long is the time that a call which may take long needs at most; 0: such calls are left to the workflow.
	Long time.Duration `json:"long,omitempty"`
	// FinishApart leaves a call that finishes the work to the workflow, which runs checks before.
	FinishApart bool `json:"finish_apart,omitempty"`
	// FinishHere carries out such a call nevertheless, once all others of its turn have succeeded, unless the
	// agent must see something before: no checks are left to run.
	FinishHere bool `json:"finish_here,omitempty"`
}

// StepLeft is the remaining budget of a step: a call is not made if its request already exceeds it.
// 0 means no limit.
type StepLeft struct {
	Tokens   int64 `json:"tokens,omitempty"`
	MicroUSD int64 `json:"micro_usd,omitempty"`
}

// Brief is the input for a turn of a deliberation's member, with the limits of its response.
type Brief struct {
	PipelineID   int64  `json:"pipeline_id"`
	Member       Member `json:"member"`
	Turn         Turn   `json:"turn"`
	MovesPerTurn int    `json:"moves_per_turn"`
	TextLimit    int    `json:"text_limit"`

	Parent string `json:"parent,omitempty"` // the deliberation's workflow, which gets the moves; empty: none
	Token  string `json:"token,omitempty"`  // identifies the member
}

// Moves returns the member's moves from the result of its model call.
func (b Brief) Moves(e ExecutionRef, r ThinkResult) Moves {
	m := Moves{
		Token: b.Token, Member: b.Member, Turn: b.Turn.Number, ExecutionID: e.ID, Attempt: e.Attempt, Moves: r.Moves, Usage: r.Usage,
	}
	if r.Bad == "" {
		return m
	}
	m.Moves, m.Bad = nil, &Failure{Class: ClassLLM, Code: r.Code, Message: "the model's response could not be used: " + r.Bad}
	if r.Code == "" {
		m.Bad.Code = CodeInvalidOutput
	}
	return m
}

// ThinkResult is the model's next action, without its texts.
type ThinkResult struct {
	Calls   []ToolCallRef `json:"calls,omitempty"`
	Finish  bool          `json:"finish"`            // the model reports that it is done
	Summary string        `json:"summary,omitempty"` // of finish, shortened
	Blocked string        `json:"blocked,omitempty"` // of finish, shortened: why the work cannot continue
	// Unanswered are the findings of ThinkInput.Answer that the summary does not answer.
	Unanswered []string   `json:"unanswered,omitempty"`
	Unread     bool       `json:"unread,omitempty"` // with Finish: people wrote meanwhile; it finishes only if it has no further turn
	Bad        string     `json:"bad,omitempty"`    // why the response could not be used; shown to the model
	Usage      Usage      `json:"usage"`
	Moves      []Move     `json:"moves,omitempty"` // of a member of a deliberation
	Code       Code       `json:"code,omitempty"`  // of Bad, for a member of a deliberation
	MovesSent  bool       `json:"told,omitempty"`  // the moves were sent to the deliberation and are omitted here
	Done       []DoneCall `json:"done,omitempty"`  // the tool calls that are already carried out, in their order
	// Further are the results of the turns that followed in the same activity, in order.
	Further []ThinkResult `json:"further,omitempty"`
	Failure *Failure      `json:"failure,omitempty"` // of one of Further, then the last: why its turn failed
	// Wait is how long to wait before the turn after those of Further, which failed and may be retried.
	Wait time.Duration `json:"wait,omitempty"`
}

// DoneCall is a tool call that the activity of its model call has carried out.
type DoneCall struct {
	Index   int         `json:"index"` // of the call in the turn
	Outcome ToolOutcome `json:"outcome"`
	Failure *Failure    `json:"failure,omitempty"` // final: the call could not be carried out, and has no outcome
}

// ToolCallRef identifies one tool call of a turn. Arguments stay in the transcript.
type ToolCallRef struct {
	Index    int    `json:"index"` // position within the turn, from 0
	Tool     string `json:"tool"`
	ReadOnly bool   `json:"read_only,omitempty"` // does not change the workspace, may run in parallel
	Long     bool   `json:"long,omitempty"`      // may take more than 2 s
}

// maxParallelReads is how many read-only tool calls run at the same time.
const maxParallelReads = 8

// SideBySide returns how many of the first calls run at the same time: adjacent ones that only read. It
// is at least 1; calls must not be empty.
func SideBySide(calls []ToolCallRef) int {
	n := 1
	for calls[0].ReadOnly && n < min(len(calls), maxParallelReads) && calls[n].ReadOnly {
		n++
	}
	return n
}

// ToolInput is the input for one tool call.
type ToolInput struct {
	LocalOnly bool         `json:"quick,omitempty"` // return Cold instead of fetching or indexing the repository
	Execution ExecutionRef `json:"execution"`
	Turn      int          `json:"turn"`
	Index     int          `json:"index"`
	Workspace Workspace    `json:"workspace"`
	From      Workspace    `json:"from,omitzero"` // where the agent began, slim
	// Failed are the checks of the execution that failed, for a call to finish: it is refused, and
	// they are its result.
	Failed []string `json:"failed,omitempty"`
	Undone bool     `json:"undone,omitempty"` // another call of the turn failed, so a call to finish is refused
	// Unanswered are the ids of findings that a call to finish does not answer, so it is refused.
	Unanswered []string      `json:"unanswered,omitempty"`
	Timeout    time.Duration `json:"timeout"`
}

// ToolOutcome is the outcome of a tool call. Its output for the model is stored in the transcript.
type ToolOutcome struct {
	Cold        bool      `json:"cold,omitempty"` // the repository is not on this host or not indexed yet; repeat without LocalOnly
	Workspace   Workspace `json:"workspace"`
	OK          bool      `json:"ok"`
	Code        Code      `json:"code,omitempty"` // when not OK: why, for programs
	Fingerprint string    `json:"fingerprint"`    // of tool, arguments and result
}

// TestPlanInput is the input for listing the checks of a workspace's verification.
type TestPlanInput struct {
	Execution ExecutionRef `json:"execution"`
	Workspace Workspace    `json:"workspace"`
	LocalOnly bool         `json:"quick,omitempty"` // return Cold instead of fetching the repository or laying out a large one
	Base      Workspace    `json:"base,omitzero"`   // with which its tests are compared, slim; empty: the run's base commit
}

// Check is one command of the verification.
type Check struct {
	ID       string   `json:"id"` // build-go, test-go-1
	Category Category `json:"category"`
	Name     string   `json:"name"`
	Shard    int      `json:"shard,omitempty"`   // from 1
	Shards   int      `json:"shards,omitempty"`  // how many there are
	Retest   int      `json:"retest,omitempty"`  // from 1: a repetition, to see whether the check passes every time
	Retests  int      `json:"retests,omitempty"` // how many there are

	// Instead lists checks that ran tests on the base commit and no longer exist. This check
	// replaces them: it must run their tests.
	Instead []string `json:"instead,omitempty"`
}

// CheckPinnedTests is the id of the check that compares a change's tests with those of
// its base. It runs no command.
const CheckPinnedTests = "pinned-tests"

// CheckNewTests is the id of the check that runs a change's new tests without the rest
// of the change: they must fail there.
const CheckNewTests = "new-tests"

// AsRetest returns the check as one of several re-tests, with its own id: test-go-1~2 is the second
// run of test-go-1.
func (c Check) AsRetest(retest, retests int) Check {
	c.ID = fmt.Sprintf("%s~%d", c.Original().ID, retest+1)
	c.Retest, c.Retests = retest, retests
	return c
}

// Original returns the check that a re-test repeats, or the check itself.
func (c Check) Original() Check {
	if c.Retest > 0 {
		c.ID = strings.TrimSuffix(c.ID, fmt.Sprintf("~%d", c.Retest+1))
		c.Retest, c.Retests = 0, 0
	}
	return c
}

// Kind returns the ID of a check without its re-test and shard, which do not belong to the identity of
// a test: test-go for test-go-2.
func (c Check) Kind() string {
	id := c.Original().ID
	if kind, shard, ok := cutLast(id, "-"); ok && c.Category == CategoryTest && shard != "" && strings.Trim(shard, "0123456789") == "" {
		return kind
	}
	return id
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// TestPlanResult lists the checks by stage: checks of the same stage may run in parallel; a stage
// starts when the previous one has ended.
type TestPlanResult struct {
	Cold   bool          `json:"cold,omitempty"` // it would take long on this host; repeat without LocalOnly
	Stages [][]Check     `json:"stages"`
	Done   []CheckResult `json:"done,omitempty"` // checks that needed no command and are already stored
	// Quarantined is the number of quarantined tests of the project when the plan was made. They are
	// stored with the execution, whose checks all use this list.
	Quarantined int `json:"quarantined,omitempty"`
}

// VerifyInput is the input for running one check on a clean checkout.
type VerifyInput struct {
	Execution ExecutionRef  `json:"execution"`
	Workspace Workspace     `json:"workspace"`
	Check     Check         `json:"check"`
	Timeout   time.Duration `json:"timeout"`
	// Baseline is the key of the baseline that the check is part of; empty: it is
	// part of Execution, and compared with the run's baseline.
	Baseline string    `json:"baseline,omitempty"`
	Base     Workspace `json:"base,omitzero"` // with which tests are compared, slim; empty: the run's base commit
	// Others are further checks of the stage, which the activity carries out in parallel. A repeated activity
	// carries out only Check: if a check takes its worker down, its own activity fails, and not that of another.
	Others []Check `json:"others,omitempty"`
}

// VerifyResult is the result of an activity that carries out checks.
type VerifyResult struct {
	CheckResult // of VerifyInput.Check; empty: it could not be carried out, but others could
	// Others are the results of those of VerifyInput.Others that were carried out.
	Others []CheckResult `json:"others,omitempty"`
}

// CheckResult is the outcome of one check, without its texts. A failed check is a
// result, not an error.
type CheckResult struct {
	Check      Check       `json:"check"`
	OK         bool        `json:"ok"`
	Summary    TestSummary `json:"summary"`
	Major      int         `json:"major"`
	Medium     int         `json:"medium"`
	Minor      int         `json:"minor"`
	DurationMS int64       `json:"duration_ms"`
	Code       Code        `json:"code,omitempty"`    // why a check failed or was skipped, for programs
	Message    string      `json:"message,omitempty"` // the most informative line of a failed or skipped check
	// Known is the number of findings that the base commit has as well. The counts above do not
	// include them.
	Known int `json:"known,omitempty"`
	// Unnamed: some or all of its tests are commands that do not report individual tests.
	Unnamed bool `json:"unnamed,omitempty"`
	// KnownOnly: it failed, but only in the same way as on the base commit. It counts as
	// passed, and OK is set.
	KnownOnly bool `json:"known_only,omitempty"`
	// Skipped: it could not judge the commit, because its program is not installed or its database
	// cannot be reached; Code and Message contain the reason. It has neither passed nor failed. OK is
	// set, because it does not stop a run.
	Skipped bool `json:"skipped,omitempty"`
	// LeftOut is the number of files that the check created and that were not stored, because of a
	// limit or an error. The run's files list them, with the reasons.
	LeftOut int `json:"left_out,omitempty"`
	// OnlyTests: it failed, and the failed test cases that it lists by name are the only reason. No
	// command crashed, did not compile, or failed without an explanation.
	OnlyTests bool `json:"only_tests,omitempty"`
	// Warning describes quarantined tests that need attention. It does not make the check fail.
	Warning string `json:"warning,omitempty"`
	// Coverage reports which lines its tests executed; nil if that is unknown.
	Coverage *Coverage `json:"coverage,omitempty"`
	// Tree identifies the files that it judged, if it ran for an agent and may also count for the
	// tester.
	Tree string `json:"tree,omitempty"`
}

// Counts reports whether the tests of a check are counted. The tests of a passed re-test have
// already been counted.
func (r CheckResult) Counts() bool { return r.Check.Retest == 0 || !r.OK }

// TestReportInput is the input for the report on an execution's stored checks.
type TestReportInput struct {
	Execution  ExecutionRef `json:"execution"`
	Thresholds Thresholds   `json:"thresholds"`
}

// TestReportResult is the result of a verification. Failure is set when the run must not continue.
type TestReportResult struct {
	Summary TestSummary `json:"summary"`
	Major   int         `json:"major"`
	Medium  int         `json:"medium"`
	Minor   int         `json:"minor"`
	Warning string      `json:"warning,omitempty"` // a problem that does not stop the run
	Failure *Failure    `json:"failure,omitempty"`
}

// ReleaseInput is the input for creating the branch, the report and the zip.
type ReleaseInput struct {
	Execution ExecutionRef    `json:"execution"`
	Repo      Repo            `json:"repo"`
	PlanID    int64           `json:"plan_id"`
	Workspace Workspace       `json:"workspace"` // what was verified
	Credits   []Credit        `json:"credits"`   // for each stage
	Stages    []Workspace     `json:"stages"`    // after each change, slim
	Release   ReleaseSettings `json:"release"`
	// ApprovedBy is the person who approved this very tree; empty: nobody was asked.
	ApprovedBy string `json:"approved_by,omitempty"`
	// Gate is the subject of the gate's verdict about this release; empty: the run has no gate.
	Gate string `json:"gate,omitempty"`
	// Authors are the people who created the run, or steered or edited its change.
	Authors []string `json:"authors,omitempty"`
	// Onto is the commit of people, or with the base of the pull request, on which the stages are based; nil:
	// the base commit.
	Onto *BranchPoint `json:"onto,omitempty"`
	// Merged is the content of the base that was brought into the branch last, slim; empty: the base commit
	// of the run.
	Merged Workspace `json:"merged,omitzero"`
	// Replaces is the commit at which the branch must be, with Onto.
	Replaces string `json:"replaces,omitempty"`
}

// ProtectedInput is the input for finding changed files that need an approval, in a workspace and
// in the stages that led to it: each stage is a commit of the branch.
type ProtectedInput struct {
	Workspace Workspace   `json:"workspace"`
	Stages    []Workspace `json:"stages"` // slim
	Patterns  []string    `json:"patterns"`
	From      Workspace   `json:"from,omitzero"` // where the run's changes begin, slim; empty: the base commit
}

// ProtectedFiles are changed files that need an approval: the first paths in order, and
// the total number.
type ProtectedFiles struct {
	Paths []string `json:"paths,omitempty"`
	Total int      `json:"total"`
}

// Summary lists the files for people: the first few, and the number of further ones.
func (p ProtectedFiles) Summary() string {
	words := strings.Join(p.Paths, ", ")
	if more := p.Total - len(p.Paths); more > 0 {
		words += fmt.Sprintf(" and %d more", more)
	}
	return words
}

// ReleaseResult describes the release.
type ReleaseResult struct {
	Branch  string   `json:"branch"`
	Commit  string   `json:"commit"`
	Pushed  bool     `json:"pushed"`
	Failure *Failure `json:"failure,omitempty"`
}
