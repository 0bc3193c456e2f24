package activities

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

const (
	// newsBytes limits the texts shown to a member in full before a turn; only the beginnings of
	// other texts are shown.
	newsBytes = 192 << 10
	// movesBytes limits the size of one turn's moves in a history.
	movesBytes = 48 << 10
	// deliberationAuthor is the author of a consensus that is itself a plan.
	deliberationAuthor = "deliberation"
)

// PipelineRecord writes one step of a pipeline: rows and events, once, in order.
func (a *Activities) PipelineRecord(ctx context.Context, rec contract.PipelineRecord) error {
	execution := activity.GetInfo(ctx).WorkflowExecution
	if c := rec.Change; c != nil && c.Settings != nil {
		a.nameMode(c.Settings)
	}
	return a.Store.PipelineRecord(ctx, store.Source{WorkflowID: execution.ID, WorkflowRunID: execution.RunID}, rec)
}

// CreatePipeline stores the pipeline that a workflow is about to start, for a recovery or for a
// run's planner. It is idempotent.
func (a *Activities) CreatePipeline(ctx context.Context, in contract.NewPipeline) (contract.DeliberationInput, error) {
	a.nameMode(&in.Settings)
	p, err := a.Store.CreatePipeline(ctx, in)
	return p.Input(), err
}

// nameMode records in the settings the mode in which their models deliberate, because workflows
// switch models without knowing the kinds of providers.
func (a *Activities) nameMode(s *contract.DeliberationSettings) {
	if len(s.Models) > 0 {
		s.Mode = setup.ModeOf(a.Config, s.Models)
	}
}

// ClosePipeline ends a pipeline whose workflow could not be started. If the workflow has written to
// the pipeline's row, it was started after all and ends the pipeline itself. ClosePipeline is
// idempotent.
func (a *Activities) ClosePipeline(ctx context.Context, in contract.ClosePipelineInput) error {
	p, err := a.Store.Pipeline(ctx, in.PipelineID)
	if err != nil || p.WorkflowID != "" {
		return err
	}
	from := store.Source{WorkflowID: contract.PipelineWorkflowID(p.ID), WorkflowRunID: store.NeverStarted}
	return a.Store.ClosePipeline(ctx, from, p, contract.PipelineFailed, in.Failure)
}

// OpenMember opens the conversation of a member with its prompt, built from the whole task.
func (a *Activities) OpenMember(ctx context.Context, in contract.OpenMemberInput) (contract.OpenMemberResult, error) {
	pipeline, err := a.Store.Pipeline(ctx, in.PipelineID)
	if err != nil {
		return contract.OpenMemberResult{}, err
	}
	task := prompt.MemberTask{
		Member: in.Member, Moves: contract.MovesOf(in.Member), MovesPerTurn: pipeline.Settings.MovesPerTurn, TextLimit: pipeline.Settings.TextLimit,
		Subtasks: contract.Subtasks, Described: contract.SubtaskLength, Together: contract.SubtasksSize,
		Task: pipeline.Task, Attempt: pipeline.Attempt, Inherited: pipeline.Inherited, Plan: pipeline.ForRun,
	}
	if pipeline.ForRun {
		if err := a.addEarlier(ctx, pipeline, &task); err != nil {
			return contract.OpenMemberResult{}, err
		}
	}
	p, err := prompt.Member(task)
	if err != nil {
		return contract.OpenMemberResult{}, err
	}
	return contract.OpenMemberResult{Prompt: p.Version}, a.open(ctx, in.Execution, p)
}

// addEarlier adds what the planner of a run would know of earlier work: that of the runs before on its
// branch, and why attempts at its plan failed.
func (a *Activities) addEarlier(ctx context.Context, p store.Pipeline, task *prompt.MemberTask) error {
	run, err := a.Store.Run(ctx, p.RunID)
	if err != nil {
		return err
	}
	if task.EarlierWork, err = a.earlierWork(ctx, run, p.Settings.Lessons.Compact); err != nil {
		return err
	}
	task.Input = p.Settings.Input
	task.Lessons, err = a.lessons(ctx, run.ID, p.Settings.Lessons)
	return err
}

// deliberate makes the model call of a member's turn: it sends the news, and parses the response as
// moves. An unusable response is a result, not an error.
func (a *Activities) deliberate(ctx context.Context, in contract.ThinkInput) (contract.ThinkResult, error) {
	brief := in.Brief
	version, err := prompt.MemberVersion(brief.Member)
	if err != nil {
		return contract.ThinkResult{}, fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, "%q is not a member of a deliberation", brief.Member)
	}
	news, err := a.newsOf(ctx, in)
	if err != nil {
		return contract.ThinkResult{}, err
	}
	schema := verdict.MovesSchema()
	bounds := verdict.MoveBounds{Moves: brief.MovesPerTurn, Text: brief.TextLimit}
	answer, err := a.ask(ctx, question{
		execution: in.Execution, turn: in.Turn, choice: in.Model, budget: in.Budget, timeout: in.Timeout,
		schema: &schema, strict: in.Schema, prompt: version, member: true, told: news, fallbacks: in.Fallbacks,
		keep:   func(text string) bool { return canReuse(text, bounds) },
		usable: func(r model.Response) bool { _, err := verdict.ReadMoves(r.Text, bounds); return err == nil },
	})
	if f := fault.Of(err); f != nil && f.Class == contract.ClassLLM && (f.Code == contract.CodeInvalidOutput || f.Code == contract.CodeTruncated) {
		return a.sendMoves(ctx, in, contract.ThinkResult{Usage: answer.Usage, Bad: f.Message, Code: f.Code}), nil
	}
	if err != nil {
		return contract.ThinkResult{}, err
	}
	moves, err := a.movesOf(ctx, *brief, answer.Text)
	if f := fault.Of(err); f != nil && f.Class == contract.ClassLLM {
		return a.sendMoves(ctx, in, contract.ThinkResult{Usage: answer.Usage, Bad: f.Message, Code: f.Code}), nil
	}
	if err != nil {
		return contract.ThinkResult{}, err
	}
	return a.sendMoves(ctx, in, contract.ThinkResult{Usage: answer.Usage, Moves: moves}), nil
}

// sendTimeout limits how long this activity tries to send a member's moves to the deliberation. The
// member's workflow sends any moves that were not sent in time.
const sendTimeout = 5 * time.Second

// sendMoves immediately sends a member's moves to the deliberation. The response is already stored,
// so a repeat sends the same moves, and duplicates count once.
func (a *Activities) sendMoves(ctx context.Context, in contract.ThinkInput, r contract.ThinkResult) contract.ThinkResult {
	if in.Brief.Parent == "" || a.Temporal == nil {
		return r
	}
	inTime, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	var over *serviceerror.NotFound
	switch err := a.Temporal.SignalWorkflow(inTime, in.Brief.Parent, "", contract.SignalMoves, in.Brief.Moves(in.Execution, r)); {
	case err == nil:
		r.Moves, r.MovesSent = nil, true
	case ctx.Err() != nil, errors.As(err, &over): // nothing is waiting for it anymore
	default:
		a.Log.WarnContext(ctx, "Could not send a turn's moves to the deliberation; the member's workflow will send them", "pipeline", in.Brief.PipelineID, "member", in.Brief.Member, "error", err)
	}
	return r
}

// canReuse reports whether a response can be shown again in full in later turns: it is usable, and
// not much larger than its content may be.
func canReuse(answer string, most verdict.MoveBounds) bool {
	const written = 2 // JSON bytes per byte of text
	if len(answer) > max(unusableKept, written*most.Moves*most.Text) {
		return false
	}
	_, err := verdict.ReadMoves(answer, most)
	return err == nil
}

// newsOf returns the news that a member needs before a turn.
func (a *Activities) newsOf(ctx context.Context, in contract.ThinkInput) ([]model.Message, error) {
	news := prompt.MemberNews{Member: in.Brief.Member, Turn: in.Brief.Turn}
	texts := textsOf(&news.Turn.News)
	heads := make([]string, len(texts))
	for i, t := range texts {
		heads[i] = t.Head
	}
	if err := a.Store.ResolvePipelineTexts(ctx, in.Brief.PipelineID, texts...); err != nil {
		return nil, err
	}
	left := newsBytes
	for i, t := range texts {
		if left -= len(t.Head); left < 0 && t.Ref != "" {
			t.Head = heads[i]
		}
	}
	if in.Turn == 1 {
		if err := a.addRepository(ctx, in.Brief.PipelineID, &news); err != nil {
			return nil, err
		}
	}
	text, err := prompt.News(news)
	return []model.Message{{Role: model.RoleUser, Text: storable(text)}}, err
}

// storable returns a text in the form that the database can store.
func storable(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
}

// textsOf returns pointers to the texts of news. The caller may modify them, because the news was
// decoded from its own input.
func textsOf(n *contract.News) []*contract.Text {
	var out []*contract.Text
	for i := range n.Entries {
		out = append(out, &n.Entries[i].Value)
	}
	for i := range n.Messages {
		out = append(out, &n.Messages[i].Text)
	}
	for i := range n.Votes {
		out = append(out, &n.Votes[i].Text)
	}
	return out
}

// addRepository adds the repository content that the planner would see, if a run is being planned.
func (a *Activities) addRepository(ctx context.Context, pipelineID int64, news *prompt.MemberNews) error {
	pipeline, err := a.Store.Pipeline(ctx, pipelineID)
	if err != nil || !pipeline.ForRun {
		return err
	}
	run, err := a.Store.Run(ctx, pipeline.RunID)
	if err != nil {
		return err
	}
	workspace := run.Settings.Repo.Workspace()
	files, err := a.Workspaces.Files(ctx, workspace)
	if err != nil {
		return err
	}
	m := mapFor{goal: goalOf(run), share: mapWithoutTools}
	if news.Files, err = a.overviewOf(ctx, run, m, func() string { return prompt.FileList(files) }); err != nil {
		return err
	}
	news.Excerpts, err = a.excerpts(ctx, workspace, files)
	return err
}

// movesOf parses a response as moves and stores their long texts.
func (a *Activities) movesOf(ctx context.Context, brief contract.Brief, answer string) ([]contract.Move, error) {
	said, err := verdict.ReadMoves(answer, verdict.MoveBounds{Moves: brief.MovesPerTurn, Text: brief.TextLimit})
	if err != nil {
		return nil, err
	}
	moves := make([]contract.Move, len(said))
	var long []store.PipelineText
	for i, s := range said {
		moves[i] = s.Move
		for j := range moves[i].Subtasks {
			t := &moves[i].Subtasks[j]
			t.Description = fault.Clip(telemetry.Redact(storable(t.Description)), contract.SubtaskLength)
		}
		whole := telemetry.Redact(storable(s.Whole))
		if moves[i].Text = shortText(whole); moves[i].Text.Ref != "" {
			long = append(long, store.PipelineText{Ref: moves[i].Text.Ref, Text: whole})
		}
	}
	size, err := json.Marshal(moves)
	if err != nil {
		return nil, fmt.Errorf("encode the moves: %w", err)
	}
	if len(size) > movesBytes {
		return nil, fault.New(contract.ClassLLM, contract.CodeInvalidOutput, "the moves total %d bytes, more than the %d allowed; make fewer moves per turn", len(size), movesBytes)
	}
	return moves, a.Store.SavePipelineTexts(ctx, brief.PipelineID, long...)
}

// WriteHandoff stores a deliberation's handoff to the one that recovers it, with all of its texts,
// as an artifact. No artifact is removed before its run, so it is stored for longer than
// contract.HandoffKept.
func (a *Activities) WriteHandoff(ctx context.Context, in contract.WriteHandoffInput) (contract.WriteHandoffResult, error) {
	h := in.Handoff
	if h.KeptUntil.IsZero() {
		h.KeptUntil = h.WrittenAt.Add(contract.HandoffKept)
	}
	news := contract.News{Votes: h.ConsensusState}
	texts := textsOf(&news)
	for _, list := range [][]contract.Entry{h.Proposals, h.Syntheses, h.Analysis} {
		texts = append(texts, textsOf(&contract.News{Entries: list})...)
	}
	for _, list := range h.LastMessages {
		texts = append(texts, textsOf(&contract.News{Messages: list})...)
	}
	if err := a.Store.ResolvePipelineTexts(ctx, h.PipelineID, texts...); err != nil {
		return contract.WriteHandoffResult{}, err
	}
	name := contract.PipelineWorkflowID(h.PipelineID) + "/handoff.json"
	return contract.WriteHandoffResult{Ref: name}, a.keepDocument(ctx, contract.ExecutionRef{RunID: in.RunID}, name, h)
}

// keepDocument stores a value as an artifact of type json.
func (a *Activities) keepDocument(ctx context.Context, of contract.ExecutionRef, name string, v any) error {
	doc, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return a.keep(ctx, of, name, contract.ArtifactJSON, string(doc))
}

// keep stores a text as an artifact, without secrets.
func (a *Activities) keep(ctx context.Context, of contract.ExecutionRef, name string, kind contract.ArtifactType, text string) error {
	text = telemetry.Redact(text)
	digest, err := a.Artifacts.Put(ctx, []byte(text))
	if err != nil {
		return err
	}
	return a.Store.AddArtifacts(ctx, of.RunID, []contract.Artifact{{
		ExecutionID: of.ID, Name: name, Type: kind, Size: int64(len(text)), Digest: digest,
	}})
}

// deliberationTranscript is the stored transcript of a run's deliberation, as JSON.
type deliberationTranscript struct {
	Pipeline   store.Pipeline              `json:"pipeline"`
	Blackboard []contract.Entry            `json:"blackboard"`
	Messages   []contract.Message          `json:"messages"`
	Votes      []contract.Vote             `json:"votes"`
	Result     contract.DeliberationResult `json:"result"`
}

// SaveTranscript stores the transcript of a run's deliberation as artifacts. If the consensus is
// itself a plan, it is also stored as a plan of the run.
func (a *Activities) SaveTranscript(ctx context.Context, in contract.SaveTranscriptInput) (contract.SaveTranscriptResult, error) {
	m, err := a.transcriptOf(ctx, in.Result)
	if err != nil {
		return contract.SaveTranscriptResult{}, err
	}
	of := in.Execution
	of.RunID = in.RunID
	base := "deliberation/minutes"
	if of.Attempt > 1 {
		base = fmt.Sprintf("%s-%d", base, of.Attempt)
	}
	if err := a.keepDocument(ctx, of, base+".json", m); err != nil {
		return contract.SaveTranscriptResult{}, err
	}
	out := contract.SaveTranscriptResult{Artifact: base + ".md"}
	if err := a.keep(ctx, of, out.Artifact, contract.ArtifactReport, m.markdown()); err != nil {
		return out, err
	}
	if !in.Result.Consensus {
		return out, nil
	}
	plan, err := verdict.ReadPlan(verdict.PlanSchema(), m.Result.Final.Head)
	plan.Notes = nil // members have read nothing
	if err != nil {
		return out, nil //nolint:nilerr // prose: the planner turns it into a plan
	}
	run, err := a.Store.Run(ctx, in.RunID)
	if err != nil {
		return contract.SaveTranscriptResult{}, err
	}
	if err := a.judgePlan(ctx, run, in.Execution.ID, change.RolePlanner, plan, contract.ClassSafety, contract.CodeDenied); err != nil {
		return contract.SaveTranscriptResult{}, err
	}
	if out.PlanID, err = a.Store.SavePlan(ctx, in.RunID, planOwner(m.Pipeline, in.Execution), deliberationAuthor, plan); err != nil {
		return contract.SaveTranscriptResult{}, err
	}
	out.Plan = plan.Skeleton()
	return out, nil
}

// transcriptOf reads the complete record of a deliberation, with full texts.
func (a *Activities) transcriptOf(ctx context.Context, result contract.DeliberationResult) (deliberationTranscript, error) {
	m := deliberationTranscript{Result: result}
	var err error
	if m.Pipeline, err = a.Store.Pipeline(ctx, result.PipelineID); err != nil {
		return m, err
	}
	if m.Blackboard, err = a.Store.PipelineEntries(ctx, result.PipelineID, false, true); err != nil {
		return m, err
	}
	if m.Messages, err = a.Store.PipelineMessages(ctx, result.PipelineID, 0, 0, true); err != nil {
		return m, err
	}
	if m.Votes, err = a.Store.PipelineVotes(ctx, result.PipelineID, true); err != nil {
		return m, err
	}
	return m, a.Store.ResolvePipelineTexts(ctx, result.PipelineID, append(m.Result.Decision.Texts(), &m.Result.Final)...)
}

// planOwner returns the execution that owns a plan from a pipeline's consensus: the execution of
// the member that began first. The planner's own execution may already have a plan, which led to
// the deliberation, and an execution has only one.
func planOwner(p store.Pipeline, planner contract.ExecutionRef) int64 {
	for _, member := range p.Members {
		if member.ExecutionID != 0 {
			return member.ExecutionID
		}
	}
	return planner.ID
}

// markdown renders the transcript for users.
func (m deliberationTranscript) markdown() string {
	var b strings.Builder
	p := m.Pipeline
	fmt.Fprintf(&b, "# Minutes of deliberation %d\n\n%s, attempt %d, %d iterations.\n\n## Objective\n\n%s\n", p.ID, m.Result.Status, p.Attempt, m.Result.Metrics.Iterations, quoted(p.Objective))
	b.WriteString("\n## Members\n\n")
	for _, v := range p.Members {
		fmt.Fprintf(&b, "- %s (%s): %s, %d turns, %d errors, %d tokens\n", v.Member, v.Role, v.Status, v.Turns, v.Errors, v.Usage.Tokens())
	}
	if m.Result.Metrics.GammaSpawned {
		fmt.Fprintf(&b, "\nGAMMA joined (reason: %s).\n", m.Result.Metrics.GammaReason)
	}
	b.WriteString("\n## Blackboard\n")
	for _, e := range m.Blackboard {
		fmt.Fprintf(&b, "\n### %s/%s, version %d, by %s%s\n\n%s\n", e.Section, e.Key, e.Version, e.Author, prefixed(", ", string(e.State)), quoted(e.Value.Head))
	}
	b.WriteString("\n## Votes\n\n")
	for _, v := range m.Votes {
		answer := "accepts"
		if !v.Accept {
			answer = "does not accept"
		}
		fmt.Fprintf(&b, "- %s %s %s, version %d\n", v.Voter, answer, v.Key, v.Version)
	}
	r := m.Result.Metrics
	fmt.Fprintf(&b, "\n## Metrics\n\n- %d messages, %d of them direct\n- %d blackboard writes and %d blackboard reads\n- %d conflicts, %d resolved\n- %d votes\n- performance score %.2f\n",
		r.TotalMessages, r.DirectMessages, r.BlackboardWrites, r.BlackboardReads, r.ConflictsDetected, r.ConflictsResolved, r.Votes, r.PerformanceScore)
	for _, line := range r.Analysis() {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	b.WriteString("\n## Consensus\n\n")
	if !m.Result.Consensus {
		fmt.Fprintf(&b, "None%s.\n", prefixed(": ", string(m.Result.AbortReason)))
		return b.String()
	}
	fmt.Fprintf(&b, "%s, version %d, by %s.\n\n%s\n", m.Result.Key, m.Result.Version, cmp.Or(string(m.Result.By), "votes"), quoted(m.Result.Final.Head))
	b.WriteString(decisionMarkdown(m.Result.Decision))
	return b.String()
}

// decisionMarkdown renders the reasons for a decision, and the objections.
func decisionMarkdown(d *contract.Decision) string {
	var b strings.Builder
	if d == nil {
		return ""
	}
	list := func(title string, all []contract.Remark) {
		if len(all) > 0 {
			fmt.Fprintf(&b, "\n### %s\n", title)
		}
		for _, r := range all {
			fmt.Fprintf(&b, "\n%s on %s:\n\n%s\n", r.By, r.About, quoted(r.Text.Head))
		}
	}
	list("Reasons", d.Reasons)
	if len(d.Rejected) > 0 {
		b.WriteString("\n### Rejected alternatives\n")
	}
	for _, alt := range d.Rejected {
		fmt.Fprintf(&b, "\n%s, by %s, %s:\n\n%s\n", alt.Key, alt.Author, alt.State, quoted(alt.Text.Head))
		for _, r := range alt.Against {
			fmt.Fprintf(&b, "\nObjection by %s:\n\n%s\n", r.By, quoted(r.Text.Head))
		}
	}
	list("Open questions", d.OpenQuestions)
	list("Remarks", d.Remarks)
	return b.String()
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// quoted formats a member's text as a quotation, so it cannot be mistaken for a heading.
func quoted(s string) string {
	return "> " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n> ")
}

// agreed is the agreement of a run's deliberation, for the planner.
type agreed struct {
	text  string // empty: no agreement
	owner int64  // execution that owns a plan from it
}

func (a *Activities) agreement(ctx context.Context, in contract.PlanInput) (agreed, error) {
	out := agreed{owner: in.Execution.ID}
	if in.Consensus == nil || !in.Consensus.Consensus {
		return out, nil
	}
	pipeline, err := a.Store.Pipeline(ctx, in.Consensus.PipelineID)
	if err != nil {
		return out, err
	}
	final := in.Consensus.Final
	out.owner = planOwner(pipeline, in.Execution)
	err = a.Store.ResolvePipelineTexts(ctx, pipeline.ID, &final)
	out.text = final.Head
	return out, err
}

// nextPlanTurn returns the next turn of planning, and whether the planner created a plan before the
// deliberation and receives the agreement in this conversation. It gets the agreement once, with the
// returned messages; messages are stored before their turn, so a repeat finds the same turn.
func (a *Activities) nextPlanTurn(ctx context.Context, in contract.PlanInput, consensus string) (turn int, again bool, told []model.Message, err error) {
	turn = in.State.Turn + 1
	if consensus == "" {
		return turn, false, nil, nil
	}
	agreement, err := prompt.Agreement(consensus)
	if err != nil {
		return 0, false, nil, err
	}
	before, err := a.conversation(ctx, in.Execution.ID, turn)
	if err != nil {
		return 0, false, nil, err
	}
	at := slices.IndexFunc(before, func(m model.Message) bool { return strings.Contains(m.Text, agreement) })
	if at >= 0 && at < openingMessages {
		return turn, false, nil, nil
	}
	if in.Planner == nil && turn == 1 {
		turn++ // of a run that counts no turns
	}
	if at < 0 {
		told = []model.Message{{Role: model.RoleUser, Text: agreement}}
	}
	return turn, true, told, nil
}

// textRef returns a reference to a text that is too long for histories.
func textRef(text string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
}

// shortText returns a text in its form for histories.
func shortText(whole string) contract.Text {
	if len(whole) <= contract.TextHead {
		return contract.Text{Head: whole, Size: len(whole)}
	}
	return contract.Text{Head: fault.Clip(whole, contract.TextHead), Ref: textRef(whole), Size: len(whole)}
}
