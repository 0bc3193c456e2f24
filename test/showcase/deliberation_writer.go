package showcase

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// deliberationWriter writes one deliberation through the store functions that its workflow's
// activities use. Changes are collected and written with the next record. Its cost is booked on a
// real run, or on a run that only represents pipelines.
type deliberationWriter struct {
	*runWriter
	p      store.Pipeline
	number int64 // of the last record
	next   contract.PipelineRecord

	state    contract.PipelineStatus
	asks     string
	round    int
	members  []contract.MemberView
	metrics  contract.DeliberationMetrics
	entries  []contract.Entry
	votes    []contract.Vote
	messages []contract.Message
	abort    contract.AbortReason
	handoff  string
	final    *contract.Entry
	decision *contract.Decision
	failed   *contract.FailureContext
	failure  *contract.Failure
	report   *contract.DeliberationReport
	refused  int
}

// newDeliberation spawns a standalone pipeline.
func (f *dataset) newDeliberation(t *runWriter, task contract.DeliberationTask, change func(*contract.DeliberationSettings)) *deliberationWriter {
	c := &deliberationWriter{runWriter: t, state: contract.PipelineSpawned}
	t.do(func() error {
		settings, err := f.deliberation(change)
		if err != nil {
			return err
		}
		c.p, _, err = f.store.SpawnPipeline(t.ctx, store.NewPipelineRow{Task: task, Settings: settings})
		t.run.ID = c.p.RunID
		return err
	})
	t.stamp()
	return c
}

// recovers creates the pipeline that recovers a failed one.
func (c *deliberationWriter) recovers() *deliberationWriter {
	next := &deliberationWriter{runWriter: c.runWriter, state: contract.PipelineSpawned}
	inherited := &contract.Inherited{
		PipelineID: c.p.ID, Attempt: c.p.Attempt, AbortReason: c.abort, HandoffRef: c.handoff,
		Context:      fmt.Sprintf("Attempt %d ended without a consensus (%s) after %d rounds.", c.p.Attempt, c.abort, c.round),
		Instructions: "Begin with the proposals and objections. Do not discuss points of agreement again. GAMMA is available: ask it when you disagree.",
	}
	for _, e := range c.entries {
		if e.About == "" && e.Author != contract.SystemAuthor && (e.Section == contract.SectionSolutions || e.Section == contract.SectionSynthesis) {
			e.Key, e.Inherited, e.State, e.Version = fmt.Sprintf("inherited_%s_%s", strings.ToLower(string(e.Author)), e.Key), c.p.Attempt, contract.EntryLive, 1
			inherited.Entries = append(inherited.Entries, e)
		}
	}
	c.do(func() (err error) {
		settings := c.p.Settings
		settings.ForceGamma = true
		next.p, err = c.f.store.CreatePipeline(c.ctx, contract.NewPipeline{
			RunID: c.p.RunID, ForRun: c.p.ForRun, Prior: c.p.ID, Attempt: c.p.Attempt + 1, Settings: settings, Inherited: inherited,
		})
		return err
	})
	c.stamp()
	c.happened(contract.EventRecoveryStarted, map[string]any{"recovered_by": next.p.ID, "attempt": next.p.Attempt})
	c.recordsEvent()
	next.begins()
	for _, e := range inherited.Entries {
		next.places(e)
	}
	next.places(contract.Entry{Section: contract.SectionProblem, Key: contract.KeyRecoveryContext, Author: contract.SystemAuthor, Value: contract.Text{Head: inherited.Context + "\n" + inherited.Instructions}, Version: 1})
	next.joins(contract.Gamma)
	next.gamma(contract.GammaRecovery)
	return next
}

// deliberates creates the pipeline that plans a run.
func (t *runWriter) deliberates(execution contract.ExecutionRef) *deliberationWriter {
	c := &deliberationWriter{runWriter: t, state: contract.PipelineSpawned}
	t.do(func() error {
		settings, err := t.f.deliberation(func(s *contract.DeliberationSettings) { s.AutoContinue = true })
		if err != nil {
			return err
		}
		c.p, err = t.f.store.CreatePipeline(t.ctx, contract.NewPipeline{RunID: t.run.ID, ForRun: true, Execution: execution.ID, Attempt: 1, Settings: settings})
		return err
	})
	t.stamp()
	return c
}

// deliberation resolves the settings of a deliberation, as spawning one does.
func (f *dataset) deliberation(change func(*contract.DeliberationSettings)) (contract.DeliberationSettings, error) {
	s, err := setup.Deliberation(f.cfg, contract.ModeOpenRouter)
	if change != nil {
		change(&s)
	}
	return s, err
}

// begins starts the opening: ALPHA and BETA have joined, and the task is on the blackboard.
func (c *deliberationWriter) begins() {
	c.state, c.metrics.Start = contract.PipelineRunning, c.now
	c.happened(contract.EventOrchestrationStarted, map[string]any{"attempt": c.p.Attempt})
	c.places(contract.Entry{Section: contract.SectionProblem, Key: contract.KeyTask, Author: contract.SystemAuthor, Value: c.text(c.p.Task.Objective), Version: 1})
	c.joins(contract.Alpha)
	c.joins(contract.Beta)
	c.recordsEvent()
}

// is sets the status of the deliberation.
func (c *deliberationWriter) is(s contract.PipelineStatus) {
	c.state = s
	c.happened(contract.EventPipelineUpdated, map[string]any{"status": s})
}

// joins starts the work of a member.
func (c *deliberationWriter) joins(who contract.Member) {
	role := map[contract.Member]string{contract.Alpha: "research", contract.Beta: "synthesis", contract.Gamma: "mediation"}[who]
	agent := who.Agent()
	begun := c.recordOf(contract.MemberWorkflowID(c.p.ID, who), 1, contract.Record{
		Begin: &contract.ExecutionBegin{Phase: contract.PhasePlanner, Step: string(agent), Agent: agent, Model: c.p.Settings.Models[agent]},
	})
	c.members = append(c.members, contract.MemberView{
		Member: who, Role: role, Status: contract.MemberThinking, Phase: "opening", LastActivity: c.now, ExecutionID: begun.Execution.ID, Attempt: begun.Execution.Attempt,
	})
	c.happened(contract.EventAgentSpawned, map[string]any{"member": who, "role": role})
}

// gamma records why GAMMA joined.
func (c *deliberationWriter) gamma(why contract.GammaReason) {
	at := c.now
	c.metrics.GammaSpawned, c.metrics.GammaReason, c.metrics.GammaAt = true, why, &at
	c.happened(contract.EventGammaSpawned, map[string]any{"reason": why})
}

func (c *deliberationWriter) member(who contract.Member) *contract.MemberView {
	for i := range c.members {
		if c.members[i].Member == who {
			return &c.members[i]
		}
	}
	return &contract.MemberView{} // a member that has not joined; changes to it have no effect
}

// thinksFor writes a turn of a member: one model call.
func (c *deliberationWriter) thinksFor(who contract.Member, took time.Duration, say string) {
	m := c.member(who)
	m.Turns++
	in, out := int64(1800+420*m.Turns+len(c.entries)*90), int64(260+len(say)/3)
	choice := c.p.Settings.Models[who.Agent()]
	c.now = c.thinks(contract.ExecutionRef{ID: m.ExecutionID, RunID: c.run.ID, Attempt: m.Attempt}, choice, "1", m.Turns, c.now, turn{say: say, in: in, out: out, took: took})
	usage := contract.Usage{Calls: 1, PromptTokens: in, CompletionTokens: out}
	usage.MicroUSD = c.f.cost(choice, usage)
	m.Usage, m.LastActivity, m.Status = m.Usage.Add(usage), c.now, contract.MemberIdle
	m.Progress = min(0.95, float64(m.Turns)/5)
}

// text returns a text in the form used in histories: long texts are stored in the database.
func (c *deliberationWriter) text(s string) contract.Text {
	if len(s) <= contract.TextHead {
		return contract.Text{Head: s, Size: len(s)}
	}
	sum := sha256.Sum256([]byte(s))
	t := contract.Text{Head: cut(s, contract.TextHead), Ref: hex.EncodeToString(sum[:]), Size: len(s)}
	c.do(func() error {
		return c.f.store.SavePipelineTexts(c.ctx, c.p.ID, store.PipelineText{Ref: t.Ref, Text: s})
	})
	return t
}

// places adds an entry to the blackboard, or changes its state.
func (c *deliberationWriter) places(e contract.Entry) {
	if e.Timestamp.IsZero() {
		e.Timestamp = c.now
	}
	for i, known := range c.entries {
		if known.Section == e.Section && known.Key == e.Key {
			c.entries[i] = e
			c.next.Entries = append(c.next.Entries, e)
			return
		}
	}
	c.entries = append(c.entries, e)
	c.next.Entries = append(c.next.Entries, e)
}

// writes writes a member's move that creates an entry.
func (c *deliberationWriter) writes(who contract.Member, kind contract.MoveKind, key, text string, more ...func(*contract.Entry)) {
	e := contract.Entry{Section: contract.SectionSolutions, Key: key, Author: who, Kind: kind, Value: c.text(text), Version: 1, State: contract.EntryLive}
	switch kind {
	case contract.MoveAnalyse:
		e.Section, e.State = contract.SectionProblem, ""
	case contract.MoveSynthesise:
		e.Section = contract.SectionSynthesis
	case contract.MoveEvaluate:
		e.About, e.Key, e.State = key, key+"/evaluation/"+string(who), ""
	case contract.MoveObject:
		e.About, e.Key = key, fmt.Sprintf("%s/objection/%s-%d-1", key, who, c.member(who).Turns)
	case contract.MoveResolve:
		e.Section, e.About, e.Key, e.State = contract.SectionSynthesis, key, contract.AnswerKey(key, fmt.Sprintf("%s-%d-1", who, c.member(who).Turns)), ""
	case contract.MoveDecompose:
		e.Section, e.State = contract.SectionProblem, ""
	default: // proposals
	}
	for _, known := range c.entries {
		if known.Section == e.Section && known.Key == e.Key {
			e.Version = known.Version + 1
		}
	}
	for _, change := range more {
		change(&e)
	}
	c.places(e)
	c.metrics.BlackboardWrites++
	c.metrics.Decisions++
	c.happened(contract.EventBlackboardWritten, map[string]any{"member": who, "section": e.Section, "key": e.Key, "version": e.Version})
	if kind == contract.MoveSynthesise {
		c.merges(e.From)
	}
}

// merges records that a synthesis includes proposals.
func (c *deliberationWriter) merges(from []string) {
	for _, e := range c.entries {
		for _, key := range from {
			if e.Key == key && e.State == contract.EntryLive {
				c.becomes(key, contract.EntryMerged)
			}
		}
	}
}

// becomes sets the state of the entry with a key.
func (c *deliberationWriter) becomes(key string, s contract.EntryState) {
	for _, e := range c.entries {
		if e.Key == key {
			e.State = s
			c.places(e)
		}
	}
}

func from(keys ...string) func(*contract.Entry) {
	return func(e *contract.Entry) { e.From = keys }
}

func scored(s float64) func(*contract.Entry) { return func(e *contract.Entry) { e.Score = &s } }

func complexity(s float64) func(*contract.Entry) {
	return func(e *contract.Entry) { e.ComplexityScore = &s }
}

// says writes a message of a member.
func (c *deliberationWriter) says(who, to contract.Member, text string) {
	m := contract.Message{Seq: len(c.messages) + 1, From: who, To: to, Text: c.text(text), At: c.now}
	m.ID = fmt.Sprintf("%s-%d-%d", who, c.member(who).Turns, m.Seq)
	c.messages, c.next.Messages = append(c.messages, m), append(c.next.Messages, m)
	c.metrics.TotalMessages++
	c.metrics.Decisions++
	if to != "" {
		c.metrics.DirectMessages++
	}
	c.happened(contract.EventAgentMessage, map[string]any{"member": who, "to": to})
}

// thinksOf writes a vote of a member.
func (c *deliberationWriter) thinksOf(who contract.Member, key string, version int, accept bool, text string) {
	v := contract.Vote{ID: fmt.Sprintf("%s-%d-v%d", who, c.member(who).Turns, len(c.votes)), Voter: who, Key: key, Version: version, Accept: accept, Text: c.text(text), At: c.now}
	c.votes, c.next.Votes = append(c.votes, v), append(c.next.Votes, v)
	c.metrics.Votes++
	c.metrics.Decisions++
	c.happened(contract.EventVoteCast, map[string]any{"member": who, "key": key, "version": version, "accept": accept})
}

// refuses writes a rejected move.
func (c *deliberationWriter) refuses(who contract.Member, class contract.Class, code contract.Code, message string) {
	c.next.Errors = append(c.next.Errors, contract.Error{Member: who, Class: class, Code: code, Message: message})
	c.metrics.Refused++
	c.refused++
	c.member(who).Errors++
	c.happened(contract.EventAgentError, map[string]any{"member": who, "error_type": class, "message": message})
}

// conflict adds to the numbers of detected and resolved conflicts.
func (c *deliberationWriter) conflict(detected, resolved int) {
	c.metrics.ConflictsDetected += detected
	c.metrics.ConflictsResolved += resolved
	for range detected {
		c.happened(contract.EventConflictDetected, nil)
	}
	for range resolved {
		c.happened(contract.EventConflictResolved, nil)
	}
}

// rounds completes rounds of the discussion.
func (c *deliberationWriter) rounds(n int) {
	c.round += n
	c.metrics.Iterations = c.round
	c.metrics.BlackboardReads += 2 * n
}

// reports writes a report of the current state.
func (c *deliberationWriter) reports(kind, summary string) {
	metrics := c.metrics
	c.report = &contract.DeliberationReport{
		PipelineID: c.p.ID, Kind: kind, Status: c.state, Agents: c.members, Blackboard: c.entries, Votes: c.votes, Metrics: &metrics,
		Analysis: metrics.Analysis(), Decision: c.decision, Summary: summary, At: c.now,
	}
	c.recordsEvent()
}

// opened ends the opening with the report and, if waits is set, the wait for a person.
func (c *deliberationWriter) opened(waits bool) {
	for i := range c.members {
		if c.members[i].Status == contract.MemberThinking {
			c.members[i].Status = contract.MemberIdle
		}
	}
	c.is(contract.PipelineReport)
	if waits {
		c.asks = "continue"
	}
	c.reports("checkpoint", fmt.Sprintf("ALPHA and BETA have worked on the task independently: %d entries. There were no critical failures.", len(c.entries)))
}

// exchanges begins the exchange.
func (c *deliberationWriter) exchanges() {
	c.asks = ""
	c.is(contract.PipelineOrchestrating)
	for i := range c.members {
		c.members[i].Phase = "exchange"
	}
	c.recordsEvent()
}

// agrees ends the deliberation with a consensus, by votes or by GAMMA's verdict.
func (c *deliberationWriter) agrees(by contract.Member, key, text string) {
	yes := true
	if by != contract.Gamma {
		by = contract.SystemAuthor
	}
	c.becomes(key, contract.EntryAccepted)
	version := 1
	for _, e := range c.entries {
		if e.Key == key {
			version = max(version, e.Version)
		}
	}
	for _, e := range c.entries {
		if e.State == contract.EntryLive {
			c.becomes(e.Key, contract.EntrySettled)
		}
	}
	c.final = &contract.Entry{Section: contract.SectionConsensus, Key: contract.KeyFinal, Author: by, About: key, AboutVersion: version, Value: c.text(text), Version: 1, Timestamp: c.now, Achieved: &yes, From: []string{key}}
	c.places(*c.final)
	c.metrics.Consensus = true
	c.decision = c.decide(by, key, text)
	c.conflict(0, c.metrics.ConflictsDetected-c.metrics.ConflictsResolved)
	c.happened(contract.EventConsensusReached, map[string]any{"key": key, "by": by})
	c.closes(contract.PipelineCompleted, "final", "They agreed on "+key+".")
}

// decide summarizes the decision, as deliberations do.
func (c *deliberationWriter) decide(by contract.Member, key, text string) *contract.Decision {
	d := &contract.Decision{Key: key, Text: c.text(text)}
	if by == contract.Gamma {
		d.By = by
	}
	said := func(e contract.Entry) contract.Remark {
		return contract.Remark{By: e.Author, About: e.About, Score: e.Score, Text: e.Value}
	}
	for _, e := range c.entries {
		switch {
		case e.Key == key:
			d.Version = e.Version
		case e.Kind == contract.MoveEvaluate && e.About == key:
			d.Reasons = append(d.Reasons, said(e))
		case e.Kind == contract.MoveObject && e.About == key && e.State == contract.EntrySettled:
			d.OpenQuestions = append(d.OpenQuestions, said(e))
		case e.Kind == contract.MovePropose && (e.State == contract.EntryWithdrawn || e.State == contract.EntrySettled):
			d.Rejected = append(d.Rejected, contract.Alternative{Key: e.Key, Author: e.Author, State: e.State, Text: e.Value})
		}
	}
	for _, v := range c.votes {
		if v.Key == key && v.Version == d.Version && v.Accept && v.Text.Head != "" {
			d.Remarks = append(d.Remarks, contract.Remark{By: v.Voter, About: key, Text: v.Text})
		}
	}
	return d
}

// givesUp ends the deliberation without a consensus, with the steps of an abort.
func (c *deliberationWriter) givesUp(status contract.PipelineStatus, why contract.AbortReason, hint string) {
	c.abort = why
	reason := cmp.Or(string(why), "agents_failed")
	c.failed = &contract.FailureContext{
		Reason: reason, IterationCount: c.round, ElapsedSeconds: c.now.Sub(c.metrics.Start).Seconds(), Metrics: c.metrics,
		GammaSpawned: c.metrics.GammaSpawned, ErrorCount: c.refused, RecoveryHint: hint,
	}
	if c.failure == nil {
		c.failure = fail(contract.ClassLogic, contract.CodeNoConsensus, "the deliberation reached no consensus ("+reason+"): "+hint, "")
	}
	if why != "" {
		c.happened(contract.EventOrchestrationAborted, map[string]any{"reason": why})
		c.leaves(hint)
		for _, step := range contract.AbortSteps()[2:] {
			c.happened(step, nil)
		}
	}
	c.closes(status, "partial", "There was no consensus. The results so far are below.")
}

// leaves writes the handoff.
func (c *deliberationWriter) leaves(hint string) {
	c.handoff = fmt.Sprintf("pipeline-%d/handoff.json", c.p.ID)
	handoff := contract.Handoff{
		PipelineID: c.p.ID, Attempt: c.p.Attempt, AbortReason: c.abort, Proposals: c.entries, ConsensusState: c.votes, Agents: c.members,
		LastMessages: map[contract.Member][]contract.Message{contract.Alpha: c.messages}, RecoveryHints: []string{hint},
		WrittenAt: c.now, KeptUntil: c.now.Add(contract.HandoffKept),
	}
	c.keeps(0, file{c.handoff, contract.ArtifactJSON, []byte(jsonOf(handoff))})
	c.happened(contract.EventHandoffWritten, map[string]any{"name": c.handoff})
}

// closes ends the deliberation and its members.
func (c *deliberationWriter) closes(status contract.PipelineStatus, report, summary string) {
	end := c.now
	c.metrics.End = &end
	for i := range c.members {
		m := &c.members[i]
		m.Phase = "ended"
		ended := contract.ExecutionCompleted
		switch {
		case m.Status == contract.MemberFailed:
			ended = contract.ExecutionFailed
		case status != contract.PipelineCompleted:
			ended = contract.ExecutionCancelled
			m.Status = contract.MemberRevoked
		default:
			m.Status, m.Progress = contract.MemberDone, 1
		}
		c.recordOf(contract.MemberWorkflowID(c.p.ID, m.Member), 2, contract.Record{
			End: &contract.ExecutionEnd{ExecutionID: m.ExecutionID, Status: ended, Failure: m.Failure, Output: json.RawMessage(`{}`)},
		})
		c.happened(contract.EventAgentEnded, map[string]any{"member": m.Member, "status": m.Status})
	}
	c.is(status)
	c.happened(contract.EventOrchestrationComplete, map[string]any{"status": status, "consensus": c.metrics.Consensus})
	c.reports(report, summary)
}

// dies fails a member.
func (c *deliberationWriter) dies(who contract.Member, failure *contract.Failure) {
	m := c.member(who)
	m.Status, m.Failure = contract.MemberFailed, failure
	c.happened(contract.EventAgentEnded, map[string]any{"member": who, "status": m.Status, "error_type": failure.Class})
}

// happened adds an event of the pipeline, which is written with the next record.
func (c *deliberationWriter) happened(kind contract.EventType, payload map[string]any) {
	if payload == nil {
		payload = map[string]any{}
	}
	c.next.Events = append(c.next.Events, contract.EventDraft{Type: kind, Payload: payload})
}

// recordsEvent writes the collected changes.
func (c *deliberationWriter) recordsEvent() {
	c.number++
	c.metrics.PerformanceScore = c.metrics.Score(c.p.Settings.Iterations)
	r := c.next
	c.next = contract.PipelineRecord{}
	r.PipelineID, r.RunID, r.ForRun, r.Seq, r.At = c.p.ID, c.p.RunID, c.p.ForRun, c.number, c.now
	r.Change = &contract.PipelineChange{
		Status: c.state, Iteration: c.round, WaitingFor: c.asks, Members: c.members, Metrics: c.metrics, AbortReason: c.abort, HandoffRef: c.handoff,
		Report: c.report, FailureCtx: c.failed, Consensus: c.final, Failure: c.failure, Finished: c.state.Terminal(),
	}
	c.report = nil
	c.do(func() error {
		return c.f.store.PipelineRecord(c.ctx, store.Source{WorkflowID: contract.PipelineWorkflowID(c.p.ID), WorkflowRunID: uuidOf("pipeline", c.p.ID)}, r)
	})
	c.stamp()
}

// past moves the pipeline into the past, as backdate does with its run.
func (c *deliberationWriter) past(created time.Time) {
	c.do(func() error {
		_, err := c.f.sql.Exec(c.ctx, "UPDATE orchestrator_pipelines SET created_at = $2, updated_at = $3 WHERE id = $1", c.p.ID, created, c.now)
		return err
	})
}
