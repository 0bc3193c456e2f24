package contract

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Member is a member of a deliberation. The workflow that carried out the call sets who
// said something, never the text of a model.
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

// Agents returns all agents in the order in which they are listed: those of runs, then
// the members of deliberations.
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

// The statuses of a pipeline: it is SPAWNED at first; RUNNING while ALPHA and BETA do
// their opening work, each alone; in REPORT when that is reported, before the exchange;
// ORCHESTRATING during the exchange. The others are final.
const (
	PipelineSpawned             PipelineStatus = "SPAWNED"
	PipelineRunning             PipelineStatus = "RUNNING"
	PipelineReport              PipelineStatus = "REPORT"
	PipelineOrchestrating       PipelineStatus = "ORCHESTRATING"
	PipelineCompleted           PipelineStatus = "COMPLETED"
	PipelineFailed              PipelineStatus = "FAILED"               // no agent was left
	PipelineTimeout             PipelineStatus = "TIMEOUT"              // its time ended: aborted with AbortTimeout
	PipelineOrchestrationFailed PipelineStatus = "ORCHESTRATION_FAILED" // aborted for another reason, or everybody was done without a consensus
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

// The reasons for which a deliberation is aborted.
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
	GammaSuccess    GammaReason = "SUCCESS"    // both are done: it validates
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

// DeliberationTask is what a deliberation is about.
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
	Status       string   `json:"status,omitempty"` // of a part of GAMMA's: waiting, assigned, done
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
	ForceGamma   bool                  `json:"force_gamma,omitempty"` // GAMMA joins at the start
	Models       map[Agent]ModelChoice `json:"models"`                // of alpha, beta and gamma
	Budget       RunBudget             `json:"budget"`
	ModelTimeout time.Duration         `json:"model_timeout"` // of a single model call

	GammaStuckAfter     time.Duration `json:"gamma_stuck_after"`           // without progress of an agent: GAMMA joins
	GammaConflictAt     int           `json:"gamma_conflict_at"`           // this many unresolved proposals: GAMMA joins
	GammaComplexityOver float64       `json:"gamma_complexity_over"`       // a higher complexity: GAMMA joins
	AbortAfter          time.Duration `json:"abort_after"`                 // without any progress: stuck
	Iterations          int           `json:"iterations"`                  // more rounds of exchange: iteration_limit
	Timeout             time.Duration `json:"timeout"`                     // of the exchange: timeout
	ContinuedTimeout    time.Duration `json:"continued_timeout,omitempty"` // set by 'continue'; overrides Timeout and the task's
	OpeningTimeout      time.Duration `json:"opening_timeout"`             // of the opening work of each agent
	ContinueWait        time.Duration `json:"continue_wait"`               // for 'continue' after the report; without it the deliberation is stopped
	Recoveries          int           `json:"recoveries"`                  // recovery pipelines that may follow one another

	ErrorLimit     int `json:"error_limit"`     // errors of an agent; more revoke it
	RepeatLimit    int `json:"repeat_limit"`    // of the same error; more revoke it
	ViolationLimit int `json:"violation_limit"` // moves that its role does not allow; more revoke it
	MovesPerTurn   int `json:"moves_per_turn"`
	TextLimit      int `json:"text_limit"` // bytes of one text; more is refused
	Entries        int `json:"entries"`    // that the blackboard may have; more are refused
}

// ExchangeTime returns how long the exchange about a task may take: as the person who
// continued it set it, else as the task says, else as configured.
func (s DeliberationSettings) ExchangeTime(t DeliberationTask) time.Duration {
	switch {
	case s.ContinuedTimeout > 0:
		return s.ContinuedTimeout
	case t.TimeoutSeconds > 0:
		return time.Duration(t.TimeoutSeconds) * time.Second
	}
	return s.Timeout
}

// TextHead is how many bytes of a text go into histories, queries and signals. Longer
// texts are stored in the database, under Text.Ref.
const TextHead = 512

// Text is something that a member wrote. Ref, the digest of the whole text, is empty if
// Head is all of it.
type Text struct {
	Head string `json:"head,omitempty"`
	Ref  string `json:"ref,omitempty"`
	Size int    `json:"size,omitempty"` // bytes of the whole
}

// MoveKind is what a member does.
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

// Move is one thing that a member does, from its model's answer, checked by its
// activity.
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
	KeyAnalysis        = "analysis" // analysis, then analysis.BETA for that of another member
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

// ObjectionKey returns the key of an objection to an entry; id is that of its move.
func ObjectionKey(about, id string) string { return about + objectionPart + id }

// AnswerKey returns the key of an answer to an objection, or to all objections to an
// entry; id is that of its move.
func AnswerKey(about, id string) string { return about + answerPart + id }

// SubjectOf returns the key of the proposal or synthesis that an objection or an answer
// is about.
func SubjectOf(key string) string {
	key, _, _ = strings.Cut(key, objectionPart)
	key, _, _ = strings.Cut(key, answerPart)
	return key
}

// IsObjectionKey reports whether a key has the form of an objection's.
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
	EntrySettled   EntryState = "settled"   // the consensus was another one, or the entry objected to is gone
)

// SystemAuthor is the author of entries that no member wrote.
const SystemAuthor Member = "SYSTEM"

// Entry is the newest version of one entry on the blackboard.
type Entry struct {
	Section         Section    `json:"section"`
	Key             string     `json:"key"`
	Author          Member     `json:"author"`
	Kind            MoveKind   `json:"kind,omitempty"` // that wrote it; empty for the system's
	Value           Text       `json:"value"`
	Version         int        `json:"version"` // from 1
	Timestamp       time.Time  `json:"timestamp"`
	State           EntryState `json:"state,omitempty"`
	About           string     `json:"about,omitempty"`         // evaluations, objections and answers: of which entry
	AboutVersion    int        `json:"about_version,omitempty"` // evaluations and objections: of which version, the newest that their author knew
	Score           *float64   `json:"score,omitempty"`
	ComplexityScore *float64   `json:"complexity_score,omitempty"`
	From            []string   `json:"from,omitempty"`
	Achieved        *bool      `json:"achieved,omitempty"`  // of consensus.final
	Subtasks        []Subtask  `json:"subtasks,omitempty"`  // of problem.subtasks, as they are now
	Inherited       int        `json:"inherited,omitempty"` // the attempt that it comes from
	Place           int        `json:"place,omitempty"`     // position on the blackboard from 1, in the order of first writing
}

// Message is what a member said to another one, or to everybody. Seq counts the
// messages of a pipeline from 1, in the order in which they were accepted.
type Message struct {
	Seq  int       `json:"seq"`
	ID   string    `json:"id"` // ALPHA-3-2: second move of its third turn
	From Member    `json:"from"`
	To   Member    `json:"to,omitempty"` // empty: everybody
	Text Text      `json:"text"`
	At   time.Time `json:"at"`
}

// Vote is a member's vote on one version of a synthesis. Its last vote on a version
// counts.
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
	MemberTimedOut MemberStatus = "timed_out" // did not finish its opening work in time
	MemberRevoked  MemberStatus = "revoked"
)

// MemberView is what is shown of a member.
type MemberView struct {
	Member        Member       `json:"member"`
	Role          string       `json:"role"` // research, synthesis, mediation
	Status        MemberStatus `json:"status"`
	Phase         string       `json:"phase"`    // opening, exchange, ended
	Progress      float64      `json:"progress"` // 0 to 1
	BlockedReason string       `json:"blocked_reason,omitempty"`
	LastActivity  time.Time    `json:"last_activity,omitzero"`
	Turns         int          `json:"turns"`          // whose moves counted
	Late          int          `json:"late,omitempty"` // turns that it answered after the end: paid for, but not counted
	Errors        int          `json:"errors"`
	ExecutionID   int64        `json:"execution_id,omitempty"`
	Attempt       int          `json:"attempt,omitempty"`
	Failure       *Failure     `json:"failure,omitempty"`
	Usage         Usage        `json:"usage"`
}

// TurnsTaken returns how many turns a member took, and how many of its answers came too
// late: "6", "6 (1 late)".
func (v MemberView) TurnsTaken() string {
	if v.Late == 0 {
		return strconv.Itoa(v.Turns)
	}
	return fmt.Sprintf("%d (%d late)", v.Turns, v.Late)
}

// DeliberationMetrics count what happened in a deliberation.
type DeliberationMetrics struct {
	TotalMessages     int         `json:"total_messages"`
	DirectMessages    int         `json:"direct_messages"`
	BlackboardReads   int         `json:"blackboard_reads"` // views that members were given
	BlackboardWrites  int         `json:"blackboard_writes"`
	ConflictsDetected int         `json:"conflicts_detected"`
	ConflictsResolved int         `json:"conflicts_resolved"`
	ConflictsOpen     int         `json:"conflicts_open,omitempty"` // of the resolved ones: objections that the consensus settled and nobody answered
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

// Score returns the performance score of a deliberation, 0 to 1, rounded to hundredths:
// 0.5 for a consensus; up to 0.2 for the unused share of the allowed iterations; up to
// 0.2 for the share of conflicts that were resolved, all of it if there were none; 0.1
// if GAMMA was not needed, half of it if it joined for another reason than STUCK; minus
// 0.05 for each refused move, at most 0.2.
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

// Limits above which a deliberation's metrics are remarkable.
const (
	ManyMessages  = 50
	ManyConflicts = 3
)

// Analysis describes in words what is remarkable in the metrics.
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
		out = append(out, fmt.Sprintf("%d conflicts (threshold %d) were all resolved: the members reviewed each other's work closely", m.ConflictsDetected, ManyConflicts))
	}
	if m.GammaReason == GammaStuck {
		out = append(out, "GAMMA joined because an agent was stuck: see its last messages, its errors and the duration of its model calls")
	}
	return out
}

// Inherited is what a recovery takes over from the pipeline before it.
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
	RunID      int64                `json:"run_id"` // whose budget and events it uses: the run that it plans, or the row that carries the pipeline
	Tenant     string               `json:"tenant"`
	ForRun     bool                 `json:"for_run,omitempty"` // it plans the run
	Attempt    int                  `json:"attempt"`           // from 1; recoveries count on
	Task       DeliberationTask     `json:"task"`              // with texts of at most TextHead; the whole is in the database
	Settings   DeliberationSettings `json:"settings"`
	Inherited  *Inherited           `json:"inherited,omitempty"`
}

// DeliberationResult is what a pipeline's workflow returns: how the last of its
// attempts ended.
type DeliberationResult struct {
	PipelineID  int64               `json:"pipeline_id"` // of the attempt that ended it
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

// Decision is the result of a deliberation, and why. Long texts are in full on the
// blackboard and among the votes; if a list is too long for a report its oldest parts
// are left out.
type Decision struct {
	Key           string        `json:"key"` // of what was chosen
	Version       int           `json:"version"`
	By            Member        `json:"by,omitempty"` // GAMMA: its verdict; empty: votes
	Text          Text          `json:"text"`
	Reasons       []Remark      `json:"reasons,omitempty"`        // the verdict's text, and evaluations of the chosen entry
	Rejected      []Alternative `json:"rejected,omitempty"`       // proposals and syntheses that were not chosen
	OpenQuestions []Remark      `json:"open_questions,omitempty"` // objections to it that nobody answered, and votes against it
	Remarks       []Remark      `json:"remarks,omitempty"`        // what was said with the votes for it
	Note          string        `json:"note,omitempty"`           // which parts of these lists were left out
}

// Texts returns the texts of a decision, to be completed in place; none if it is nil.
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

// Remark is what a member said about an entry.
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
	State   EntryState `json:"state"` // withdrawn; settled: it was there until the end
	Text    Text       `json:"text"`
	Against []Remark   `json:"against,omitempty"` // objections to it
}

// MemberInput starts a member's workflow.
type MemberInput struct {
	PipelineID   int64         `json:"pipeline_id"`
	RunID        int64         `json:"run_id"`
	Attempt      int           `json:"attempt"` // of the deliberation
	Member       Member        `json:"member"`
	Token        string        `json:"token"` // proves that a signal is this member's, and a turn its deliberation's
	Model        ModelChoice   `json:"model"`
	Budget       RunBudget     `json:"budget"`
	ModelTimeout time.Duration `json:"model_timeout"`
	MovesPerTurn int           `json:"moves_per_turn"`
	TextLimit    int           `json:"text_limit"`
}

// MemberResult is what a member's workflow returns. A member that failed is a result
// with a failure.
type MemberResult struct {
	Member      Member   `json:"member"`
	ExecutionID int64    `json:"execution_id"`
	Attempt     int      `json:"attempt"`
	Turns       int      `json:"turns"` // that were answered
	Usage       Usage    `json:"usage"`
	Failure     *Failure `json:"failure,omitempty"`
}

// Signals between a deliberation and its members. Each also exists as an update of the
// same name, for when Temporal takes no more signals (see DeliverInput).
const (
	SignalTurn  = "turn"  // to a member: Turn
	SignalMoves = "moves" // to the deliberation: Moves
)

// Turn asks a member to take its next turn, and carries what happened since its last
// one.
type Turn struct {
	Token  string  `json:"token,omitempty"` // of the receiving member: only its deliberation knows it
	Number int     `json:"number"`          // from 1, without gaps
	Phase  string  `json:"phase"`           // opening, exchange
	News   News    `json:"news"`
	Errors []Error `json:"errors,omitempty"` // refused moves of its last turn

	Model *ModelChoice `json:"model,omitempty"` // for this turn and later ones; nil: as before
}

// News is what happened since a member was last informed.
type News struct {
	Round    int           `json:"round"`
	Rounds   int           `json:"rounds"`            // allowed
	Entries  []Entry       `json:"entries,omitempty"` // that others wrote
	Changes  []StateChange `json:"changes,omitempty"` // of entries that it has read or written
	Subtasks []Subtask     `json:"subtasks,omitempty"`
	Messages []Message     `json:"messages,omitempty"`
	Votes    []Vote        `json:"votes,omitempty"`
	Standing []Standing    `json:"standing,omitempty"` // current state of entries that could be agreed on
	Members  []MemberView  `json:"members,omitempty"`
	Left     string        `json:"left,omitempty"` // remaining time, for people and models
	Why      string        `json:"why,omitempty"`  // why GAMMA joined
	Note     string        `json:"note,omitempty"` // what older news was left out
}

// Standing is the current state of a synthesis, or of a proposal with objections, for a
// member that is about to take a turn.
type Standing struct {
	Key     string      `json:"key"`
	Kind    MoveKind    `json:"kind"`
	Author  Member      `json:"author"`
	Version int         `json:"version"` // its newest
	Shown   []ShownTo   `json:"shown,omitempty"`
	Votes   []Vote      `json:"votes,omitempty"` // those that count, without their texts
	Open    []Objection `json:"open,omitempty"`
}

// ShownTo returns the newest version of an entry that another member knows, 0 if none.
type ShownTo struct {
	Member  Member `json:"member"`
	Version int    `json:"version"`
}

// Objection is an objection that nobody has answered yet.
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

// Error is a move or a signal that was refused, or an error that someone outside
// recorded for a member.
type Error struct {
	ID       string   `json:"id,omitempty"`
	Member   Member   `json:"member,omitempty"`
	Class    Class    `json:"class"`
	Code     Code     `json:"code"`
	Severity Severity `json:"severity,omitempty"` // see Grade
	Message  string   `json:"message"`
}

// Grade returns how serious an error is: as it was recorded, else major if rules
// were broken, and medium if something was only unusable.
func (e Error) Grade() Severity {
	switch {
	case e.Severity != "":
		return e.Severity
	case e.Class == ClassSafety:
		return SeverityMajor
	}
	return SeverityMedium
}

// Moves are what a member did in a turn. Turns are taken once each, in order.
type Moves struct {
	Token       string   `json:"token"`
	Member      Member   `json:"member"`
	Turn        int      `json:"turn"`
	ExecutionID int64    `json:"execution_id"`
	Attempt     int      `json:"attempt"` // of the execution
	Moves       []Move   `json:"moves,omitempty"`
	Bad         *Failure `json:"bad,omitempty"` // the answer could not be used
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

// QueryBlackboard is the query that a DeliberationView answers.
const QueryBlackboard = "blackboard"

// PipelineCommand is the argument of every update and signal of a pipeline. ID
// makes it idempotent.
type PipelineCommand struct {
	ID      string                `json:"id"`
	By      string                `json:"by,omitempty"`
	Reason  string                `json:"reason,omitempty"`
	Mode    PipelineMode          `json:"mode,omitempty"`    // continue
	Models  map[Agent]ModelChoice `json:"models,omitempty"`  // continue: replaces those of the spawn; switch_model: from the next turns on
	Order   int64                 `json:"order,omitempty"`   // switch_model: the one with the highest order counts; 0: in order of arrival
	Timeout time.Duration         `json:"timeout,omitempty"` // continue: of the exchange
	Member  Member                `json:"member,omitempty"`  // record_error, revoke
	Error   *Error                `json:"error,omitempty"`   // record_error
	Context string                `json:"context,omitempty"` // failure_context: the note to keep
}

// PipelineAck answers an update of a pipeline.
type PipelineAck struct {
	Applied bool           `json:"applied"` // false: it had already been applied
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

// Handoff is what a deliberation leaves for the one that recovers it. It is an artifact
// of type json; its name is the pipeline's handoff_ref.
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
	ReportCheckpoint = "checkpoint" // after the opening work
	ReportPartial    = "partial"    // what there was when it ended without a consensus
	ReportFinal      = "final"
)

// ReportKinds returns the kinds of reports in the order in which they are written.
func ReportKinds() []string { return []string{ReportCheckpoint, ReportPartial, ReportFinal} }

// DeliberationReport is what the agents have found so far: a checkpoint after their
// opening work, a partial report at an abort, and the final one at the end.
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

// DeliberationView is the answer to the blackboard query.
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
	Messages    []Message           `json:"messages"` // the last 50 of each member
	Metrics     DeliberationMetrics `json:"metrics"`
	AbortReason AbortReason         `json:"abort_reason,omitempty"`
}

// MessageTail is how many messages of each member a view holds, and HandoffTail how
// many a handoff holds.
const (
	MessageTail = 50
	HandoffTail = 10
)

// HandoffKept is the minimum time that a handoff is kept.
const HandoffKept = 24 * time.Hour

// PipelineRecord is a step of a pipeline to be written to the database: what changed,
// and the events for it, in one transaction. The workflow counts its records in Seq
// from 1; (workflow id, workflow run id, Seq) makes a repeat harmless. An ordinary
// activity writes it, so that the history has the record for a number before the rows
// do.
type PipelineRecord struct {
	PipelineID int64           `json:"pipeline_id"`
	RunID      int64           `json:"run_id"`
	ForRun     bool            `json:"for_run,omitempty"` // false: the run's row only carries the pipeline and follows its status
	Seq        int64           `json:"seq"`
	At         time.Time       `json:"at"`
	Change     *PipelineChange `json:"change,omitempty"`
	Entries    []Entry         `json:"entries,omitempty"`
	Messages   []Message       `json:"messages,omitempty"`
	Votes      []Vote          `json:"votes,omitempty"`
	Errors     []Error         `json:"errors,omitempty"`
	Events     []EventDraft    `json:"events,omitempty"`
}

// PipelineChange is the part of a pipeline's row that a record sets; absent parts stay
// unchanged.
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

	Settings *DeliberationSettings `json:"settings,omitempty"` // where 'continue' has changed them
}

// The events of pipelines; each payload has pipeline_id. The steps of an abort are
// events too (see AbortSteps).
const (
	EventPipelineSpawned       EventType = "pipeline.spawned"
	EventPipelineUpdated       EventType = "pipeline.updated" // its status changed
	EventOrchestrationStarted  EventType = "orchestration_started"
	EventAgentSpawned          EventType = "agent_spawned"
	EventAgentMessage          EventType = "agent_message"
	EventAgentError            EventType = "agent_error"
	EventAgentEnded            EventType = "agent_ended"
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
	EventRecoveryFailed        EventType = "recovery_failed" // the recovery that the end announced will not come
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

// DeliverInput asks to deliver a turn, or moves, as an update. Temporal takes a bounded
// number of signals for a workflow, from any sender: a flood of forged ones must not
// keep those of members out. Forged updates are refused before they become part of a
// history.
type DeliverInput struct {
	WorkflowID string `json:"workflow_id"`
	Turn       *Turn  `json:"turn,omitempty"`
	Moves      *Moves `json:"moves,omitempty"`
}

// OpenMemberInput asks to open a member's conversation with its prompt.
type OpenMemberInput struct {
	Execution  ExecutionRef `json:"execution"`
	PipelineID int64        `json:"pipeline_id"`
	Member     Member       `json:"member"`
	Attempt    int          `json:"attempt"` // of the deliberation
}

// OpenMemberResult is the version of the prompt that opened the conversation.
type OpenMemberResult struct {
	Prompt string `json:"prompt"`
}

// WriteHandoffInput asks to write a handoff as an artifact.
type WriteHandoffInput struct {
	RunID   int64   `json:"run_id"`
	Handoff Handoff `json:"handoff"`
}

// WriteHandoffResult names the artifact of a handoff.
type WriteHandoffResult struct {
	Ref string `json:"ref"` // such as pipeline-7/handoff.json, an artifact of the run's row
}

// NewPipeline asks for the row of a pipeline that a workflow starts: of a recovery
// (Prior), or of the planner of a run. A repeat gets the same answer.
type NewPipeline struct {
	RunID     int64                `json:"run_id"`
	ForRun    bool                 `json:"for_run,omitempty"`
	Execution int64                `json:"execution,omitempty"` // of the planner, where ForRun
	Prior     int64                `json:"prior,omitempty"`
	Attempt   int                  `json:"attempt"`
	Task      DeliberationTask     `json:"task,omitzero"` // empty: that of Prior, or made from the run's goal
	Settings  DeliberationSettings `json:"settings"`
	Inherited *Inherited           `json:"inherited,omitempty"`
}

// ClosePipelineInput asks to end a pipeline whose row exists but whose workflow could
// not be started: it is FAILED for this reason.
type ClosePipelineInput struct {
	PipelineID int64   `json:"pipeline_id"`
	Failure    Failure `json:"failure"`
}

// SaveTranscriptInput asks for the transcript of a run's deliberation as artifacts, and
// whether its consensus is already a plan.
type SaveTranscriptInput struct {
	RunID     int64              `json:"run_id"`
	Execution ExecutionRef       `json:"execution"` // of the planner
	Result    DeliberationResult `json:"result"`
}

// SaveTranscriptResult is what became of a consensus. PlanID is 0 if its text is not itself a
// plan; then the planner makes one from it.
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

// Why a deliberation failed if it was not aborted: the reason in its failure context.
const (
	ReasonAgentsFailed = "agents_failed"
	ReasonNoConsensus  = "no_consensus"
)
