package contract

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Member is a member of a deliberation. The workflow that made the model call sets the author of a
// text, never the model's response.
type Member string

// The members: ALPHA does research, analysis and proposals; BETA synthesis, evaluation
// and solutions; GAMMA mediates when a condition calls for it.
const (
	Alpha Member = "ALPHA"
	Beta  Member = "BETA"
	Gamma Member = "GAMMA"
)

// Members returns the members in the order in which they are listed.
func Members() []Member { return []Member{Alpha, Beta, Gamma} }

// The agents of the members, as models, prompts and scenarios name them.
const (
	AgentAlpha Agent = "alpha"
	AgentBeta  Agent = "beta"
	AgentGamma Agent = "gamma"
)

// Agents returns all agents in the order in which they are listed: the agents of runs, then the
// members of deliberations.
func Agents() []Agent {
	return []Agent{
		AgentPlanner, AgentBuilder, AgentTester, AgentReleaser, AgentAnalyzer, AgentRepair, AgentAlpha, AgentBeta, AgentGamma,
	}
}

// Agent returns the agent that is this member.
func (m Member) Agent() Agent { return Agent(strings.ToLower(string(m))) }

// Valid reports whether m is one of the members.
func (m Member) Valid() bool { return slices.Contains(Members(), m) }

// PipelineStatus is the state of a pipeline.
type PipelineStatus string

// The statuses of a pipeline: it is SPAWNED at first; RUNNING while ALPHA and BETA do their opening
// work, each alone; in REPORT when that work is reported, before the exchange; ORCHESTRATING during
// the exchange. The other statuses are final.
const (
	PipelineSpawned             PipelineStatus = "SPAWNED"
	PipelineRunning             PipelineStatus = "RUNNING"
	PipelineReport              PipelineStatus = "REPORT"
	PipelineOrchestrating       PipelineStatus = "ORCHESTRATING"
	PipelineCompleted           PipelineStatus = "COMPLETED"
	PipelineFailed              PipelineStatus = "FAILED"               // no agent was left
	PipelineTimeout             PipelineStatus = "TIMEOUT"              // out of time: aborted with AbortTimeout
	PipelineOrchestrationFailed PipelineStatus = "ORCHESTRATION_FAILED" // aborted for another reason, or all members were done without a consensus
	PipelineStopped             PipelineStatus = "STOPPED"
)

// PipelineStatuses returns every status of a pipeline.
func PipelineStatuses() []PipelineStatus {
	return []PipelineStatus{
		PipelineSpawned, PipelineRunning, PipelineReport, PipelineOrchestrating,
		PipelineCompleted, PipelineFailed, PipelineTimeout, PipelineOrchestrationFailed, PipelineStopped,
	}
}

// Terminal reports whether a pipeline in this status has ended.
func (s PipelineStatus) Terminal() bool {
	switch s {
	case PipelineCompleted, PipelineFailed, PipelineTimeout, PipelineOrchestrationFailed, PipelineStopped:
		return true
	default:
		return false
	}
}

// PipelineMode is the kind of models that deliberate.
type PipelineMode string

// The modes: models of configured providers, or the scripted one.
const (
	ModeOpenRouter PipelineMode = "openrouter"
	ModeLocal      PipelineMode = "local"
)

// PipelineModes returns every mode.
func PipelineModes() []PipelineMode { return []PipelineMode{ModeOpenRouter, ModeLocal} }

// AbortReason is why a deliberation was aborted.
type AbortReason string

// The reasons for aborting a deliberation.
const (
	AbortStuck          AbortReason = "stuck"
	AbortIterationLimit AbortReason = "iteration_limit"
	AbortTimeout        AbortReason = "timeout"
)

// GammaReason is why GAMMA joined.
type GammaReason string

// The reasons for which GAMMA joins.
const (
	GammaStuck      GammaReason = "STUCK"      // an agent showed no progress for a while
	GammaConflict   GammaReason = "CONFLICT"   // too many proposals are unresolved
	GammaComplexity GammaReason = "COMPLEXITY" // the objective was found to be complex
	GammaSuccess    GammaReason = "SUCCESS"    // both peers are done: GAMMA validates
	GammaRecovery   GammaReason = "RECOVERY"   // joined at the start because an earlier attempt failed
	GammaForced     GammaReason = "FORCED"     // requested when the pipeline was spawned
)

// AbortReasons returns the reasons for which a deliberation is aborted.
func AbortReasons() []AbortReason {
	return []AbortReason{AbortStuck, AbortIterationLimit, AbortTimeout}
}

// GammaReasons returns the reasons for which GAMMA joins.
func GammaReasons() []GammaReason {
	return []GammaReason{GammaStuck, GammaConflict, GammaComplexity, GammaSuccess, GammaRecovery, GammaForced}
}

// DeliberationTask is the task of a deliberation.
type DeliberationTask struct {
	TaskID          string    `json:"task_id,omitempty"`
	Objective       string    `json:"objective"`
	Complexity      float64   `json:"complexity,omitempty"` // 0 to 1; 0: unknown
	Subtasks        []Subtask `json:"subtasks,omitempty"`
	Constraints     []string  `json:"constraints,omitempty"`
	SuccessCriteria []string  `json:"success_criteria,omitempty"`
	TimeoutSeconds  int       `json:"timeout_seconds,omitempty"` // of the exchange; 0: as configured
}

// Subtask is a part of a task.
type Subtask struct {
	ID           string   `json:"id"`
	Description  string   `json:"description"`
	Status       string   `json:"status,omitempty"` // of GAMMA's subtasks: waiting, assigned, done
	Dependencies []string `json:"dependencies,omitempty"`
	Member       Member   `json:"member,omitempty"` // whose part it is
}

// Limits of GAMMA's subtasks, which become part of histories.
const (
	Subtasks      = 12      // of one objective
	SubtaskLength = 1024    // bytes of one description
	SubtasksSize  = 9 << 10 // bytes of all of them, as JSON
)

// The statuses of GAMMA's subtasks of an objective.
const (
	SubtaskWaiting  = "waiting"  // for the subtasks that it depends on
	SubtaskAssigned = "assigned" // its member must propose a solution, under the subtask's id as the key
	SubtaskDone     = "done"     // there is a proposal
)

// DeliberationSettings are the settings of a deliberation, resolved once and frozen.
type DeliberationSettings struct {
	Mode         PipelineMode          `json:"mode"`
	AutoContinue bool                  `json:"auto_continue"`
	ForceGamma   bool                  `json:"force_gamma,omitempty"`   // GAMMA joins at the start
	Models       map[Agent]ModelChoice `json:"models"`                  // of alpha, beta and gamma
	ModelSources map[Agent]string      `json:"model_sources,omitempty"` // what determined each model at the creation
	Budget       RunBudget             `json:"budget"`
	ModelTimeout time.Duration         `json:"model_timeout"` // of a single model call

	GammaStuckAfter     time.Duration `json:"gamma_stuck_after"`           // without progress of an agent: GAMMA joins
	GammaConflictAt     int           `json:"gamma_conflict_at"`           // this many unresolved proposals: GAMMA joins
	GammaComplexityOver float64       `json:"gamma_complexity_over"`       // a higher complexity: GAMMA joins
	AbortAfter          time.Duration `json:"abort_after"`                 // without any progress: stuck
	Iterations          int           `json:"iterations"`                  // more rounds of exchange: iteration_limit
	Timeout             time.Duration `json:"timeout"`                     // of the exchange: timeout
	ContinuedTimeout    time.Duration `json:"continued_timeout,omitempty"` // set by 'continue'; overrides Timeout and the task's
	OpeningTimeout      time.Duration `json:"opening_timeout"`             // of the opening turn of each agent
	ContinueWait        time.Duration `json:"continue_wait"`               // for 'continue' after the report; without it the deliberation is stopped
	Recoveries          int           `json:"recoveries"`                  // maximum number of successive recovery pipelines

	ErrorLimit     int `json:"error_limit"`     // errors of an agent; more revoke it
	RepeatLimit    int `json:"repeat_limit"`    // of the same error; more revoke it
	ViolationLimit int `json:"violation_limit"` // moves that an agent's role does not allow; more revoke it
	MovesPerTurn   int `json:"moves_per_turn"`
	TextLimit      int `json:"text_limit"` // bytes of one text; more is refused
	Entries        int `json:"entries"`    // maximum number on the blackboard; more are refused

	Fallbacks []ModelChoice `json:"fallbacks,omitempty"` // models to use while an agent's is out, in order
	Lessons   Lessons       `json:"lessons,omitzero"`    // of a run's failed attempts at the plan, for the agents
	Input     *PlannerInput `json:"input,omitempty"`     // what a person answered to the planner; nil: nothing
}

// ExchangeTime returns the time limit of the exchange about a task: the limit set by the person who
// continued it, else by the task, else by the configuration.
func (s DeliberationSettings) ExchangeTime(t DeliberationTask) time.Duration {
	switch {
	case s.ContinuedTimeout > 0:
		return s.ContinuedTimeout
	case t.TimeoutSeconds > 0:
		return time.Duration(t.TimeoutSeconds) * time.Second
	}
	return s.Timeout
}

// TextHead is the number of bytes of a text that go into histories, queries and signals. Longer
// texts are stored in the database, under Text.Ref.
const TextHead = 512

// Text is a member's text. Ref, the digest of the whole text, is empty if Head is the whole text.
type Text struct {
	Head string `json:"head,omitempty"`
	Ref  string `json:"ref,omitempty"`
	Size int    `json:"size,omitempty"` // bytes of the whole
}

// MoveKind is the kind of a move.
type MoveKind string

// What members do.
const (
	MoveAnalyse    MoveKind = "analyse"
	MovePropose    MoveKind = "propose"
	MoveEvaluate   MoveKind = "evaluate"
	MoveObject     MoveKind = "object"
	MoveResolve    MoveKind = "resolve" // answers an objection, or withdraws a proposal
	MoveDecompose  MoveKind = "decompose"
	MoveSynthesise MoveKind = "synthesise"
	MoveVote       MoveKind = "vote"
	MoveMessage    MoveKind = "message"
	MoveVerdict    MoveKind = "verdict" // final
	MoveDone       MoveKind = "done"
)

// MovesOf returns the moves of a member: only GAMMA decomposes the objective and gives
// verdicts, and it does not propose or vote.
func MovesOf(m Member) []MoveKind {
	if m == Gamma {
		return []MoveKind{MoveAnalyse, MoveDecompose, MoveEvaluate, MoveObject, MoveResolve, MoveSynthesise, MoveMessage, MoveVerdict, MoveDone}
	}
	return []MoveKind{MoveAnalyse, MovePropose, MoveEvaluate, MoveObject, MoveResolve, MoveSynthesise, MoveVote, MoveMessage, MoveDone}
}

// Move is one action of a member, from its model's response, checked by its activity.
type Move struct {
	Kind            MoveKind `json:"move"`
	Key             string   `json:"key,omitempty"`
	Text            Text     `json:"text,omitzero"`
	ComplexityScore *float64 `json:"complexity_score,omitempty"`
	Score           *float64 `json:"score,omitempty"`
	From            []string `json:"from,omitempty"`
	Version         int      `json:"version,omitempty"`
	Accept          *bool    `json:"accept,omitempty"`
	To              string   `json:"to,omitempty"` // a member; empty or "ALL": everybody

	Subtasks []Subtask `json:"subtasks,omitempty"` // of decompose
}

// Section is a part of the blackboard.
type Section string

// The sections of the blackboard.
const (
	SectionProblem   Section = "problem" // task_definition, analysis, recovery_context
	SectionSolutions Section = "solutions"
	SectionSynthesis Section = "synthesis"
	SectionConsensus Section = "consensus" // final
)

// Sections returns the sections in their order.
func Sections() []Section {
	return []Section{SectionProblem, SectionSolutions, SectionSynthesis, SectionConsensus}
}

// Keys of entries that members do not choose.
const (
	KeyTask            = "task_definition"
	KeyAnalysis        = "analysis" // the first analysis; another member's is analysis.BETA
	KeyRecoveryContext = "recovery_context"
	KeyFinal           = "final"
	KeySubtasks        = "subtasks" // GAMMA's decomposition
)

// The parts of the keys of objections and of the answers to them:
// p1/objection/BETA-2-1, and p1/objection/BETA-2-1/answer/ALPHA-3-1.
const (
	objectionPart = "/objection/"
	answerPart    = "/answer/"
)

// ObjectionKey returns the key of an objection to an entry; id is the move's id.
func ObjectionKey(about, id string) string { return about + objectionPart + id }

// AnswerKey returns the key of an answer to an objection, or to all objections to an entry; id is
// the move's id.
func AnswerKey(about, id string) string { return about + answerPart + id }

// SubjectOf returns the key of the proposal or synthesis that an objection or an answer is about.
func SubjectOf(key string) string {
	key, _, _ = strings.Cut(key, objectionPart)
	key, _, _ = strings.Cut(key, answerPart)
	return key
}

// IsObjectionKey reports whether a key has the form of an objection's key.
func IsObjectionKey(key string) bool {
	return strings.Contains(key, objectionPart) && !strings.Contains(key, answerPart)
}

// EntryState is the state of a proposal, a synthesis or an objection.
type EntryState string

// The states of entries.
const (
	EntryLive      EntryState = "live"
	EntryWithdrawn EntryState = "withdrawn" // by its author
	EntryMerged    EntryState = "merged"    // into a synthesis
	EntryAnswered  EntryState = "answered"  // an objection
	EntryAccepted  EntryState = "accepted"  // it is the consensus
	EntrySettled   EntryState = "settled"   // another entry became the consensus, or the entry objected to was withdrawn
)

// SystemAuthor is the author of entries that no member wrote.
const SystemAuthor Member = "SYSTEM"

// Entry is the newest version of one entry on the blackboard.
type Entry struct {
	Section         Section    `json:"section"`
	Key             string     `json:"key"`
	Author          Member     `json:"author"`
	Kind            MoveKind   `json:"kind,omitempty"` // of the move that wrote it; empty: written by the system
	Value           Text       `json:"value"`
	Version         int        `json:"version"` // from 1
	Timestamp       time.Time  `json:"timestamp"`
	State           EntryState `json:"state,omitempty"`
	About           string     `json:"about,omitempty"`         // for evaluations, objections and answers: the entry concerned
	AboutVersion    int        `json:"about_version,omitempty"` // for evaluations and objections: the newest version that their author knew
	Score           *float64   `json:"score,omitempty"`
	ComplexityScore *float64   `json:"complexity_score,omitempty"`
	From            []string   `json:"from,omitempty"`
	Achieved        *bool      `json:"achieved,omitempty"`  // of consensus.final
	Subtasks        []Subtask  `json:"subtasks,omitempty"`  // of problem.subtasks, in their current state
	Inherited       int        `json:"inherited,omitempty"` // the attempt that wrote it
	Place           int        `json:"place,omitempty"`     // position on the blackboard from 1, in the order of first writing
}

// Message is a message from a member to another one, or to all members. Seq counts the messages of
// a pipeline from 1, in the order in which they were accepted.
type Message struct {
	Seq  int       `json:"seq"`
	ID   string    `json:"id"` // ALPHA-3-2: second move of its third turn
	From Member    `json:"from"`
	To   Member    `json:"to,omitempty"` // empty: everybody
	Text Text      `json:"text"`
	At   time.Time `json:"at"`
}

// Vote is a member's vote on one version of a synthesis. Only its latest vote on a version counts.
type Vote struct {
	ID      string    `json:"id"`
	Voter   Member    `json:"voter"`
	Key     string    `json:"key"`
	Version int       `json:"version"`
	Accept  bool      `json:"accept"`
	Text    Text      `json:"text,omitzero"`
	At      time.Time `json:"at"`
}

// MemberStatus is the state of a member.
type MemberStatus string

// The states of a member.
const (
	MemberIdle     MemberStatus = "idle"     // waits for the others
	MemberThinking MemberStatus = "thinking" // a model call is running
	MemberDone     MemberStatus = "done"
	MemberFailed   MemberStatus = "failed"
	MemberTimedOut MemberStatus = "timed_out" // did not finish its opening turn in time
	MemberRevoked  MemberStatus = "revoked"
)

// MemberView is the visible state of a member.
type MemberView struct {
	Member        Member       `json:"member"`
	Role          string       `json:"role"` // research, synthesis, mediation
	Status        MemberStatus `json:"status"`
	Phase         string       `json:"phase"`    // opening, exchange, ended
	Progress      float64      `json:"progress"` // 0 to 1
	BlockedReason string       `json:"blocked_reason,omitempty"`
	LastActivity  time.Time    `json:"last_activity,omitzero"`
	Turns         int          `json:"turns"`          // whose moves counted
	Late          int          `json:"late,omitempty"` // turns that it delivered after the end: paid for, but not counted
	Errors        int          `json:"errors"`
	ExecutionID   int64        `json:"execution_id,omitempty"`
	Attempt       int          `json:"attempt,omitempty"`
	Failure       *Failure     `json:"failure,omitempty"`
	Usage         Usage        `json:"usage"`
}

// TurnsTaken returns the number of turns that a member took, and the number that arrived too late:
// "6", "6 (1 late)".
func (v MemberView) TurnsTaken() string {
	if v.Late == 0 {
		return strconv.Itoa(v.Turns)
	}
	return fmt.Sprintf("%d (%d late)", v.Turns, v.Late)
}

// DeliberationMetrics are the metrics of a deliberation.
type DeliberationMetrics struct {
	TotalMessages     int         `json:"total_messages"`
	DirectMessages    int         `json:"direct_messages"`
	BlackboardReads   int         `json:"blackboard_reads"` // views sent to members
	BlackboardWrites  int         `json:"blackboard_writes"`
	ConflictsDetected int         `json:"conflicts_detected"`
	ConflictsResolved int         `json:"conflicts_resolved"`
	ConflictsOpen     int         `json:"conflicts_open,omitempty"` // resolved only by the consensus: objections that were never answered
	Votes             int         `json:"votes"`
	Iterations        int         `json:"iterations"`
	Decisions         int         `json:"decisions"` // moves that were accepted
	Refused           int         `json:"refused"`   // moves and signals that were not accepted
	GammaSpawned      bool        `json:"gamma_spawned"`
	GammaReason       GammaReason `json:"gamma_reason,omitempty"`
	GammaAt           *time.Time  `json:"gamma_spawned_at,omitempty"`
	Consensus         bool        `json:"consensus"`
	PerformanceScore  float64     `json:"performance_score"` // see Score
	Start             time.Time   `json:"start"`
	End               *time.Time  `json:"end,omitempty"`
}

// Score returns the performance score of a deliberation, 0 to 1, rounded to hundredths: 0.5 for a
// consensus; up to 0.2 for the unused share of the allowed iterations; up to 0.2 for the share of
// conflicts that were resolved, all of it if there were none; 0.1 if GAMMA was not needed, half of
// it if it joined for a reason other than STUCK; minus 0.05 for each refused move, at most 0.2.
func (m DeliberationMetrics) Score(iterations int) float64 {
	score := 0.0
	if m.Consensus {
		score = 0.5
	}
	if iterations > 0 {
		score += 0.2 * (1 - min(1, float64(m.Iterations)/float64(iterations)))
	}
	if m.ConflictsDetected == 0 {
		score += 0.2
	} else {
		score += 0.2 * min(1, float64(m.ConflictsResolved)/float64(m.ConflictsDetected))
	}
	switch {
	case !m.GammaSpawned:
		score += 0.1
	case m.GammaReason != GammaStuck:
		score += 0.05
	}
	score -= min(0.2, 0.05*float64(m.Refused))
	return float64(int(100*max(0, min(1, score))+0.5)) / 100
}

// Limits above which a deliberation's metrics are notable.
const (
	ManyMessages  = 50
	ManyConflicts = 3
)

// Analysis describes notable metrics for people.
func (m DeliberationMetrics) Analysis() []string {
	out := []string{}
	if m.TotalMessages > ManyMessages {
		out = append(out, fmt.Sprintf("%d messages, more than %d: the task may be too vague, or its parts may be too interdependent", m.TotalMessages, ManyMessages))
	}
	switch open := m.ConflictsDetected - m.ConflictsResolved + m.ConflictsOpen; {
	case m.ConflictsDetected <= ManyConflicts:
	case open > 0:
		out = append(out, fmt.Sprintf("%d conflicts (threshold %d), %d of them open: the success criteria may contradict each other", m.ConflictsDetected, ManyConflicts, open))
	default:
		out = append(out, fmt.Sprintf("all %d conflicts (threshold %d) were resolved: the members reviewed each other's work closely", m.ConflictsDetected, ManyConflicts))
	}
	if m.GammaReason == GammaStuck {
		out = append(out, "GAMMA joined because an agent was stuck: see that agent's last messages, its errors and the duration of its model calls")
	}
	return out
}

// Inherited is the data that a recovery takes from the previous pipeline.
type Inherited struct {
	PipelineID   int64       `json:"pipeline_id"`
	Attempt      int         `json:"attempt"`
	AbortReason  AbortReason `json:"abort_reason,omitempty"`
	HandoffRef   string      `json:"handoff_ref"`
	Entries      []Entry     `json:"entries"` // proposals and syntheses, with keys inherited_{agent}_{key}
	Context      string      `json:"context"` // recovery_context
	Instructions string      `json:"instructions"`
}

// DeliberationInput starts a pipeline's workflow.
type DeliberationInput struct {
	PipelineID int64                `json:"pipeline_id"`
	RunID      int64                `json:"run_id"` // the run whose budget and events it uses: the run that it plans, or the pipeline's own row among the runs
	Tenant     string               `json:"tenant"`
	ForRun     bool                 `json:"for_run,omitempty"` // it plans the run
	Attempt    int                  `json:"attempt"`           // from 1, counted across recoveries
	Task       DeliberationTask     `json:"task"`              // texts shortened to TextHead; the full texts are in the database
	Settings   DeliberationSettings `json:"settings"`
	Inherited  *Inherited           `json:"inherited,omitempty"`
}

// DeliberationResult is the result of a pipeline's workflow: the outcome of its last attempt.
type DeliberationResult struct {
	PipelineID  int64               `json:"pipeline_id"` // of the last attempt
	Status      PipelineStatus      `json:"status"`
	Consensus   bool                `json:"consensus"`
	Key         string              `json:"key,omitempty"`
	Version     int                 `json:"version,omitempty"`
	Final       Text                `json:"final,omitzero"`
	By          Member              `json:"by,omitempty"` // GAMMA: its verdict; empty: votes
	Decision    *Decision           `json:"decision,omitempty"`
	AbortReason AbortReason         `json:"abort_reason,omitempty"`
	Attempts    int                 `json:"attempts"`
	Metrics     DeliberationMetrics `json:"metrics"`
	Usage       Usage               `json:"usage"`
	Failure     *Failure            `json:"failure,omitempty"`
}

// Decision is the result of a deliberation, with the reasons. The full texts are on the blackboard
// and in the votes; if a list is too long for a report, its oldest items are omitted.
type Decision struct {
	Key           string        `json:"key"` // of the chosen entry
	Version       int           `json:"version"`
	By            Member        `json:"by,omitempty"` // GAMMA: its verdict; empty: votes
	Text          Text          `json:"text"`
	Reasons       []Remark      `json:"reasons,omitempty"`        // the verdict's text, and evaluations of the chosen entry
	Rejected      []Alternative `json:"rejected,omitempty"`       // proposals and syntheses that were not chosen
	OpenQuestions []Remark      `json:"open_questions,omitempty"` // unanswered objections to the chosen entry, and votes against it
	Remarks       []Remark      `json:"remarks,omitempty"`        // texts of the votes for it
	Note          string        `json:"note,omitempty"`           // what was omitted from these lists
}

// Texts returns pointers to the texts of a decision, to be completed in place; none if it is nil.
func (d *Decision) Texts() []*Text {
	if d == nil {
		return nil
	}
	out := []*Text{&d.Text}
	add := func(all []Remark) {
		for i := range all {
			out = append(out, &all[i].Text)
		}
	}
	add(d.Reasons)
	for i := range d.Rejected {
		out = append(out, &d.Rejected[i].Text)
		add(d.Rejected[i].Against)
	}
	add(d.OpenQuestions)
	add(d.Remarks)
	return out
}

// Remark is a member's text about an entry.
type Remark struct {
	By    Member   `json:"by"`
	About string   `json:"about"`
	Score *float64 `json:"score,omitempty"`
	Text  Text     `json:"text"`
}

// Alternative is a proposal or a synthesis that was not chosen.
type Alternative struct {
	Key     string     `json:"key"`
	Author  Member     `json:"author"`
	State   EntryState `json:"state"` // withdrawn, or settled if it was live until the end
	Text    Text       `json:"text"`
	Against []Remark   `json:"against,omitempty"` // objections to it
}

// MemberInput starts a member's workflow.
type MemberInput struct {
	PipelineID   int64         `json:"pipeline_id"`
	RunID        int64         `json:"run_id"`
	Attempt      int           `json:"attempt"` // of the deliberation
	Member       Member        `json:"member"`
	Token        string        `json:"token"` // proves that a signal is from this member, and a turn from its deliberation
	Model        ModelChoice   `json:"model"`
	Budget       RunBudget     `json:"budget"`
	ModelTimeout time.Duration `json:"model_timeout"`
	MovesPerTurn int           `json:"moves_per_turn"`
	TextLimit    int           `json:"text_limit"`
	Fallbacks    []ModelChoice `json:"fallbacks,omitempty"` // models to use while Model is out, in order
}

// MemberResult is the result of a member's workflow. If the member failed, it has a failure.
type MemberResult struct {
	Member      Member   `json:"member"`
	ExecutionID int64    `json:"execution_id"`
	Attempt     int      `json:"attempt"`
	Turns       int      `json:"turns"` // that were answered
	Usage       Usage    `json:"usage"`
	Failure     *Failure `json:"failure,omitempty"`
}

// Signals between a deliberation and its members. Each also exists as an update of the same name,
// for when Temporal accepts no more signals (see DeliverInput).
const (
	SignalTurn  = "turn"  // to a member: Turn
	SignalMoves = "moves" // to the deliberation: Moves
)

// Turn requests a member's next turn, with the news since its last one.
type Turn struct {
	Token  string  `json:"token,omitempty"` // of the receiving member: only its deliberation knows it
	Number int     `json:"number"`          // from 1, without gaps
	Phase  string  `json:"phase"`           // opening, exchange
	News   News    `json:"news"`
	Errors []Error `json:"errors,omitempty"` // refused moves of its last turn

	Model *ModelChoice `json:"model,omitempty"` // for this turn and later ones; nil: as before
}

// News is everything that happened since a member's last turn.
type News struct {
	Round    int           `json:"round"`
	Rounds   int           `json:"rounds"`            // allowed
	Entries  []Entry       `json:"entries,omitempty"` // that others wrote
	Changes  []StateChange `json:"changes,omitempty"` // of entries that the member has read or written
	Subtasks []Subtask     `json:"subtasks,omitempty"`
	Messages []Message     `json:"messages,omitempty"`
	Votes    []Vote        `json:"votes,omitempty"`
	Standing []Standing    `json:"standing,omitempty"` // current state of entries that the members could agree on
	Members  []MemberView  `json:"members,omitempty"`
	Left     string        `json:"left,omitempty"` // remaining time, for people and models
	Why      string        `json:"why,omitempty"`  // why GAMMA joined
	Note     string        `json:"note,omitempty"` // what older news was omitted
}

// Standing is the current state of a synthesis, or of a proposal with objections, for a
// member that is about to take a turn.
type Standing struct {
	Key     string      `json:"key"`
	Kind    MoveKind    `json:"kind"`
	Author  Member      `json:"author"`
	Version int         `json:"version"` // its newest
	Shown   []ShownTo   `json:"shown,omitempty"`
	Votes   []Vote      `json:"votes,omitempty"` // valid votes, without their texts
	Open    []Objection `json:"open,omitempty"`
}

// ShownTo is the newest version of an entry that another member knows, 0 if none.
type ShownTo struct {
	Member  Member `json:"member"`
	Version int    `json:"version"`
}

// Objection is an unanswered objection.
type Objection struct {
	Key    string `json:"key"`
	Author Member `json:"author"`
}

// StateChange is a new state of an entry whose text a member knows.
type StateChange struct {
	Section Section    `json:"section"`
	Key     string     `json:"key"`
	Kind    MoveKind   `json:"kind"`
	Author  Member     `json:"author"`
	State   EntryState `json:"state"`
	By      Member     `json:"by"`
}

// Error is a refused move or signal, or an error of a member that was recorded from outside.
type Error struct {
	ID       string   `json:"id,omitempty"`
	Member   Member   `json:"member,omitempty"`
	Class    Class    `json:"class"`
	Code     Code     `json:"code"`
	Severity Severity `json:"severity,omitempty"` // see Grade
	Message  string   `json:"message"`
}

// Grade returns the severity of an error: the recorded one, else major if a rule was broken, else
// medium.
func (e Error) Grade() Severity {
	switch {
	case e.Severity != "":
		return e.Severity
	case e.Class == ClassSafety:
		return SeverityMajor
	}
	return SeverityMedium
}

// Moves are a member's moves in a turn. Each turn counts once, in order.
type Moves struct {
	Token       string   `json:"token"`
	Member      Member   `json:"member"`
	Turn        int      `json:"turn"`
	ExecutionID int64    `json:"execution_id"`
	Attempt     int      `json:"attempt"` // of the execution
	Moves       []Move   `json:"moves,omitempty"`
	Bad         *Failure `json:"bad,omitempty"` // the response could not be used
	Usage       Usage    `json:"usage"`
}

// Updates of a pipeline, besides UpdateStop and UpdateSwitchModel; each also exists as
// a signal of the same name.
const (
	UpdateContinue       = "continue"
	UpdateRecordError    = "record_error"
	UpdateRevoke         = "revoke"
	UpdateFailureContext = "failure_context"
)

// QueryBlackboard is the query that returns a DeliberationView.
const QueryBlackboard = "blackboard"

// PipelineCommand is the argument of every update and signal of a pipeline. ID makes it idempotent.
type PipelineCommand struct {
	ID      string                `json:"id"`
	By      string                `json:"by,omitempty"`
	Reason  string                `json:"reason,omitempty"`
	Mode    PipelineMode          `json:"mode,omitempty"`    // continue
	Models  map[Agent]ModelChoice `json:"models,omitempty"`  // continue: replaces the models of the spawn; switch_model: for the next turns and later ones
	Order   int64                 `json:"order,omitempty"`   // switch_model: the command with the highest order wins; 0: in order of arrival
	Timeout time.Duration         `json:"timeout,omitempty"` // continue: of the exchange
	Member  Member                `json:"member,omitempty"`  // record_error, revoke
	Error   *Error                `json:"error,omitempty"`   // record_error
	Context string                `json:"context,omitempty"` // failure_context: the note to keep
	// Passed is true if the run that is planned, or the pipeline that is recovered, received the command
	// and passes it on: it has recorded who sent it.
	Passed bool `json:"passed,omitempty"`
}

// PipelineAck is the response to an update of a pipeline.
type PipelineAck struct {
	Applied bool           `json:"applied"` // false: the command had already been applied
	Status  PipelineStatus `json:"status"`
	Message string         `json:"message"`
}

// FailureContext is kept for a deliberation that was aborted or failed.
type FailureContext struct {
	Reason         string              `json:"reason"` // the abort reason, or agents_failed
	IterationCount int                 `json:"iteration_count"`
	ElapsedSeconds float64             `json:"elapsed_seconds"`
	Metrics        DeliberationMetrics `json:"metrics"`
	GammaSpawned   bool                `json:"gamma_spawned"`
	ErrorCount     int                 `json:"error_count"`
	RecoveryHint   string              `json:"recovery_hint"`
	Notes          []string            `json:"notes,omitempty"` // that came from outside
}

// Handoff is the data that a deliberation hands to its recovery. It is an artifact of type json;
// its name is the pipeline's handoff_ref.
type Handoff struct {
	PipelineID     int64                `json:"pipeline_id"`
	Attempt        int                  `json:"attempt"`
	AbortReason    AbortReason          `json:"abort_reason,omitempty"`
	Proposals      []Entry              `json:"proposals"`
	Syntheses      []Entry              `json:"synthesis_attempts"`
	ConsensusState []Vote               `json:"consensus_state"`
	Analysis       []Entry              `json:"problem_analysis"`
	Agents         []MemberView         `json:"agent_states"`
	LastMessages   map[Member][]Message `json:"last_messages"` // the last 10 of each
	RecoveryHints  []string             `json:"recovery_hints"`
	WrittenAt      time.Time            `json:"written_at"`
	KeptUntil      time.Time            `json:"kept_until"` // at least 24 h
}

// The kinds of reports of a pipeline.
const (
	ReportCheckpoint = "checkpoint" // after the opening turns
	ReportPartial    = "partial"    // the findings of a deliberation that ended without a consensus
	ReportFinal      = "final"
)

// ReportKinds returns the kinds of reports in the order in which they are written.
func ReportKinds() []string { return []string{ReportCheckpoint, ReportPartial, ReportFinal} }

// DeliberationReport is a report on the agents' findings so far: a checkpoint after their opening
// work, a partial report at an abort, and the final one at the end.
type DeliberationReport struct {
	PipelineID int64                `json:"pipeline_id"`
	Kind       string               `json:"kind"` // checkpoint, partial, final
	Status     PipelineStatus       `json:"status"`
	Agents     []MemberView         `json:"agents"`
	Blackboard []Entry              `json:"blackboard"`
	Votes      []Vote               `json:"votes,omitempty"`
	Metrics    *DeliberationMetrics `json:"metrics,omitempty"`
	Analysis   []string             `json:"analysis,omitempty"`
	Decision   *Decision            `json:"decision,omitempty"` // of a final report
	Summary    string               `json:"summary"`
	At         time.Time            `json:"at"`
}

// DeliberationView is the result of the blackboard query.
type DeliberationView struct {
	PipelineID  int64               `json:"pipeline_id"`
	Status      PipelineStatus      `json:"status"`
	Attempt     int                 `json:"attempt"`
	Iteration   int                 `json:"iteration"`
	WaitingFor  string              `json:"waiting_for,omitempty"`
	Members     []MemberView        `json:"members"`
	Blackboard  []Entry             `json:"blackboard"`
	Subtasks    []Subtask           `json:"subtasks,omitempty"`
	Votes       []Vote              `json:"votes"`
	Messages    []Message           `json:"messages"` // the latest 50 of each member
	Metrics     DeliberationMetrics `json:"metrics"`
	AbortReason AbortReason         `json:"abort_reason,omitempty"`
}

// MessageTail is the number of messages of each member in a view, and HandoffTail in a handoff.
const (
	MessageTail = 50
	HandoffTail = 10
)

// HandoffKept is the minimum time that a handoff is kept.
const HandoffKept = 24 * time.Hour

// PipelineRecord is a step of a pipeline to be written to the database: its changes and their
// events, in one transaction. The workflow counts its records in Seq from 1; (workflow id, workflow
// run id, Seq) makes a repeat harmless. An ordinary activity writes it, so that the history has the
// record for a number before the rows do.
type PipelineRecord struct {
	PipelineID int64           `json:"pipeline_id"`
	RunID      int64           `json:"run_id"`
	ForRun     bool            `json:"for_run,omitempty"` // false: the run's row belongs to the pipeline and follows its status
	Seq        int64           `json:"seq"`
	At         time.Time       `json:"at"`
	Change     *PipelineChange `json:"change,omitempty"`
	Entries    []Entry         `json:"entries,omitempty"`
	Messages   []Message       `json:"messages,omitempty"`
	Votes      []Vote          `json:"votes,omitempty"`
	Errors     []Error         `json:"errors,omitempty"`
	Events     []EventDraft    `json:"events,omitempty"`
}

// PipelineChange is the part of a pipeline's row that a record sets; absent parts stay unchanged.
type PipelineChange struct {
	Status      PipelineStatus      `json:"status"`
	Iteration   int                 `json:"iteration"`
	WaitingFor  string              `json:"waiting_for"`
	Members     []MemberView        `json:"members"`
	Metrics     DeliberationMetrics `json:"metrics"`
	AbortReason AbortReason         `json:"abort_reason,omitempty"`
	HandoffRef  string              `json:"handoff_ref,omitempty"`
	RecoveredBy int64               `json:"recovered_by,omitempty"` // the recovery pipeline
	Report      *DeliberationReport `json:"report,omitempty"`
	FailureCtx  *FailureContext     `json:"failure_context,omitempty"`
	Consensus   *Entry              `json:"consensus,omitempty"`
	Failure     *Failure            `json:"failure,omitempty"`
	Finished    bool                `json:"finished,omitempty"`

	Settings *DeliberationSettings `json:"settings,omitempty"` // if 'continue' has changed them
}

// The events of pipelines; each payload has pipeline_id. The steps of an abort are
// events too (see AbortSteps).
const (
	EventPipelineSpawned       EventType = "pipeline.spawned"
	EventPipelineUpdated       EventType = "pipeline.updated"   // its status changed
	EventPipelineCommanded     EventType = "pipeline.commanded" // a command to it, except for a switch of models, was accepted
	EventOrchestrationStarted  EventType = "orchestration_started"
	EventAgentSpawned          EventType = "agent_spawned"
	EventAgentMessage          EventType = "agent_message"
	EventAgentError            EventType = "agent_error"
	EventAgentEnded            EventType = "agent_ended"
	EventModelsSwitched        EventType = "models_switched" // members use other models from their next turn on
	EventBlackboardWritten     EventType = "blackboard_written"
	EventVoteCast              EventType = "vote_cast"
	EventConflictDetected      EventType = "conflict_detected"
	EventConflictResolved      EventType = "conflict_resolved"
	EventGammaSpawned          EventType = "gamma_spawned"
	EventConsensusReached      EventType = "consensus_reached"
	EventOrchestrationAborted  EventType = "orchestration_aborted"
	EventHandoffWritten        EventType = "handoff_written"
	EventAgentsRevoked         EventType = "agents_revoked"
	EventPartialCollected      EventType = "partial_results_collected"
	EventPartialReportWritten  EventType = "partial_report_written"
	EventFailureContext        EventType = "failure_context_recorded"
	EventRecoveryStarted       EventType = "recovery_started"
	EventRecoveryFailed        EventType = "recovery_failed" // the announced recovery will not take place
	EventOrchestrationComplete EventType = "orchestration_complete"
)

// AbortSteps returns the events of an abort in the order of its steps: the handoff is
// written before the agents are revoked.
func AbortSteps() []EventType {
	return []EventType{EventOrchestrationAborted, EventHandoffWritten, EventAgentsRevoked, EventPartialCollected, EventPartialReportWritten, EventFailureContext}
}

// Workflow and activity types of deliberation.
const (
	WorkflowDeliberation = "rgpt.Deliberation"
	WorkflowMember       = "rgpt.Member"

	ActivityPipelineRecord = "rgpt.pipeline.Record"  // PipelineRecord → nothing
	ActivityOpenMember     = "rgpt.pipeline.Open"    // OpenMemberInput → OpenMemberResult
	ActivityDeliver        = "rgpt.pipeline.Deliver" // DeliverInput → nothing
	ActivityWriteHandoff   = "rgpt.pipeline.Handoff" // WriteHandoffInput → WriteHandoffResult
	ActivityCreatePipeline = "rgpt.pipeline.Create"  // NewPipeline → DeliberationInput
	ActivitySaveTranscript = "rgpt.pipeline.Minutes" // SaveTranscriptInput → SaveTranscriptResult
	ActivityClosePipeline  = "rgpt.pipeline.Close"   // ClosePipelineInput → nothing
)

// DeliverInput is the input for delivering a turn, or moves, as an update. Temporal accepts a
// bounded number of signals for a workflow, from any sender: a flood of forged ones must not lock
// the members out. Forged updates are refused before they become part of a history.
type DeliverInput struct {
	WorkflowID string `json:"workflow_id"`
	Turn       *Turn  `json:"turn,omitempty"`
	Moves      *Moves `json:"moves,omitempty"`
}

// OpenMemberInput is the input for opening a member's conversation with its prompt.
type OpenMemberInput struct {
	Execution  ExecutionRef `json:"execution"`
	PipelineID int64        `json:"pipeline_id"`
	Member     Member       `json:"member"`
	Attempt    int          `json:"attempt"` // of the deliberation
}

// OpenMemberResult has the version of the prompt that opened the conversation.
type OpenMemberResult struct {
	Prompt string `json:"prompt"`
}

// WriteHandoffInput is the input for writing a handoff as an artifact.
type WriteHandoffInput struct {
	RunID   int64   `json:"run_id"`
	Handoff Handoff `json:"handoff"`
}

// WriteHandoffResult names the artifact of a handoff.
type WriteHandoffResult struct {
	Ref string `json:"ref"` // such as pipeline-7/handoff.json, an artifact of the run's row
}

// NewPipeline is the input for creating the row of a pipeline that a workflow starts: a recovery
// (Prior), or a deliberation about the plan of a run. A repeat returns the same row.
type NewPipeline struct {
	RunID     int64                `json:"run_id"`
	ForRun    bool                 `json:"for_run,omitempty"`
	Execution int64                `json:"execution,omitempty"` // of the planner, if ForRun
	Prior     int64                `json:"prior,omitempty"`
	Attempt   int                  `json:"attempt"`
	Task      DeliberationTask     `json:"task,omitzero"` // empty: the task of Prior, or made from the run's goal
	Settings  DeliberationSettings `json:"settings"`
	Inherited *Inherited           `json:"inherited,omitempty"`
}

// ClosePipelineInput is the input for ending a pipeline whose row exists but whose workflow could
// not be started: it becomes FAILED with this failure.
type ClosePipelineInput struct {
	PipelineID int64   `json:"pipeline_id"`
	Failure    Failure `json:"failure"`
}

// SaveTranscriptInput is the input for saving the transcript of a run's deliberation as artifacts,
// and checking whether its consensus is already a plan.
type SaveTranscriptInput struct {
	RunID     int64              `json:"run_id"`
	Execution ExecutionRef       `json:"execution"` // of the planner
	Result    DeliberationResult `json:"result"`
}

// SaveTranscriptResult is the saved transcript and, if the consensus is itself a plan, that plan.
// If PlanID is 0, the planner makes a plan from the consensus.
type SaveTranscriptResult struct {
	Artifact string `json:"artifact"`
	PlanID   int64  `json:"plan_id,omitempty"`
	Plan     Plan   `json:"plan,omitzero"`
}

// PipelineWorkflowID returns the workflow id of a pipeline: pipeline-7.
func PipelineWorkflowID(id int64) string { return fmt.Sprintf("pipeline-%d", id) }

// MemberWorkflowID returns the workflow id of a member: pipeline-7/member/alpha.
func MemberWorkflowID(id int64, m Member) string {
	return PipelineWorkflowID(id) + "/member/" + string(m.Agent())
}

// The reasons in a failure context if the deliberation was not aborted.
const (
	ReasonAgentsFailed = "agents_failed"
	ReasonNoConsensus  = "no_consensus"
)
