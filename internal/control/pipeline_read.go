package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// Orchestration contains all data of a pipeline.
type Orchestration struct {
	store.Pipeline
	Blackboard []contract.Entry              `json:"blackboard" doc:"entries by section, in the order in which keys were first written"`
	Votes      []contract.Vote               `json:"votes" doc:"each voter's last vote on each version"`
	Messages   []contract.Message            `json:"messages" doc:"each agent's last 50 messages"`
	Errors     []store.PipelineError         `json:"errors" doc:"agents' rejected moves and recorded errors"`
	Reports    []contract.DeliberationReport `json:"reports" doc:"available reports: checkpoint, partial, final"`
	Budgets    []views.BudgetState           `json:"budgets" doc:"the budgets with a limit that its calls are charged to: its own or its run's, those of its agents, and those that it shares with others"`
}

// Decision returns the pipeline's decision and its reasons; nil if there is none. Long texts are
// truncated.
func (o Orchestration) Decision() *contract.Decision {
	for _, r := range o.Reports {
		if r.Kind == contract.ReportFinal {
			return r.Decision
		}
	}
	return nil
}

// Orchestration returns all data of a pipeline, with full texts and the newest version, or every
// version, of each blackboard entry.
func (p *Pipelines) Orchestration(ctx context.Context, id int64, every bool) (Orchestration, error) {
	row, err := p.Store.Pipeline(ctx, id)
	if err != nil {
		return Orchestration{}, err
	}
	out := Orchestration{Pipeline: row, Reports: []contract.DeliberationReport{}}
	if out.Blackboard, err = p.Store.PipelineEntries(ctx, id, every, true); err != nil {
		return out, err
	}
	if out.Votes, err = p.Store.PipelineVotes(ctx, id, true); err != nil {
		return out, err
	}
	if out.Messages, err = p.Store.PipelineLastMessages(ctx, id, contract.MessageTail, true); err != nil {
		return out, err
	}
	if out.Errors, err = p.Store.PipelineErrors(ctx, id); err != nil {
		return out, err
	}
	for _, kind := range contract.ReportKinds() {
		report, err := p.Store.PipelineReport(ctx, id, kind, false) // its texts are on the blackboard
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return out, err
		}
		out.Reports = append(out.Reports, report)
	}
	scopes, err := p.Scopes(ctx, row)
	if err != nil {
		return out, err
	}
	out.Budgets, err = views.New(p.Store).Budgets(ctx, scopes)
	return out, err
}

// Scopes returns the budgets with a limit that a pipeline's calls are charged to, or were charged to
// when it ended.
func (p *Pipelines) Scopes(ctx context.Context, row store.Pipeline) ([]store.Scope, error) {
	tenant, project, err := p.Store.OwnerOf(ctx, row.RunID)
	if err != nil {
		return nil, err
	}
	at := time.Now()
	if row.FinishedAt != nil {
		at = *row.FinishedAt
	}
	scopes := store.RunScopes(row.RunID, row.Settings.Budget)
	if p.Config != nil {
		scopes = append(scopes, setup.SharedScopes(p.Config.Models.Budgets, tenant, project, at)...)
	}
	return slices.DeleteFunc(scopes, func(s store.Scope) bool { return !s.Limited() }), nil
}

// Report returns a report of a pipeline with full texts. If id is 0, it is the report of the newest
// pipeline that has one.
func (p *Pipelines) Report(ctx context.Context, id int64, kind string) (contract.DeliberationReport, error) {
	if id == 0 {
		var err error
		if id, err = p.Store.NewestReported(ctx, kind); err != nil {
			return contract.DeliberationReport{}, err
		}
	} else if _, err := p.Store.Pipeline(ctx, id); err != nil {
		return contract.DeliberationReport{}, err
	}
	return p.Store.PipelineReport(ctx, id, kind, true)
}

// Newest returns the newest pipeline, or ErrNotFound.
func (p *Pipelines) Newest(ctx context.Context) (store.Pipeline, error) {
	list, err := p.Store.ListPipelines(ctx, store.PipelineFilter{Limit: 1})
	if err == nil && len(list) == 0 {
		err = fault.Wrap(store.ErrNotFound, contract.ClassHuman, store.CodeNotFound, `no pipelines yet; spawn one: rgpt pipeline spawn --objective "…"`)
	}
	if err != nil {
		return store.Pipeline{}, err
	}
	return list[0], nil
}

// LogKind is the kind of an entry in a pipeline's log.
type LogKind string

// The kinds of entries in a pipeline's log.
const (
	LogMessage LogKind = "message"
	LogWrite   LogKind = "write" // on the blackboard
	LogVote    LogKind = "vote"
	LogError   LogKind = "error"
	LogStatus  LogKind = "status" // of the pipeline
	LogEvent   LogKind = "event"  // all other events: agents, conflicts, GAMMA, the end
)

// PipelineLog is one entry in a pipeline's log.
type PipelineLog struct {
	Seq       int64                   `json:"seq" doc:"event number; pass it to continue after this event"`
	At        time.Time               `json:"at"`
	Kind      LogKind                 `json:"kind" enum:"message,write,vote,error,status,event"`
	Type      contract.EventType      `json:"event_type"`
	Agent     contract.Member         `json:"agent,omitempty" doc:"agent that acted"`
	To        contract.Member         `json:"to,omitempty" doc:"recipient of a message; absent: everyone"`
	Section   contract.Section        `json:"section,omitempty"`
	Key       string                  `json:"key,omitempty"`
	Version   int                     `json:"version,omitempty"`
	Move      contract.MoveKind       `json:"move,omitempty"`
	Accept    *bool                   `json:"accept,omitempty" doc:"for a vote: true to accept, false to reject"`
	Status    contract.PipelineStatus `json:"status,omitempty"`
	ErrorType contract.Class          `json:"error_type,omitempty"`
	ErrorCode contract.Code           `json:"error_code,omitempty"`
	Text      string                  `json:"text,omitempty" doc:"full text"`
	Details   json.RawMessage         `json:"details,omitempty" doc:"payload, if kind is \"event\""`
}

// Logs returns up to limit log entries of a pipeline after a sequence number, in order.
func (p *Pipelines) Logs(ctx context.Context, id, after int64, limit int) ([]PipelineLog, error) {
	if _, err := p.Store.Pipeline(ctx, id); err != nil {
		return nil, err
	}
	events, err := p.Store.PipelineEvents(ctx, id, after, limit)
	if err != nil {
		return nil, err
	}
	out := make([]PipelineLog, len(events))
	for i, e := range events {
		out[i] = LogOf(e)
	}
	return out, p.complete(ctx, id, events, out)
}

// LogOf converts an event of a pipeline to a log entry. A long text is truncated.
func LogOf(e contract.Event) PipelineLog {
	var said struct {
		Member       contract.Member   `json:"member"`
		From         string            `json:"from"` // a member, or a status
		To           contract.Member   `json:"to"`
		Author       contract.Member   `json:"author"`
		Voter        contract.Member   `json:"voter"`
		Section      contract.Section  `json:"section"`
		Key          string            `json:"key"`
		Version      int               `json:"version"`
		Move         contract.MoveKind `json:"move"`
		Accept       *bool             `json:"accept"`
		Status       string            `json:"status"` // of the pipeline, or of a member
		WaitingFor   string            `json:"waiting_for"`
		ErrorType    contract.Class    `json:"error_type"`
		ErrorCode    contract.Code     `json:"error_code"`
		ErrorMessage string            `json:"error_message"`
		Text         string            `json:"text"`
	}
	out := PipelineLog{Seq: e.Seq, At: e.CreatedAt, Type: e.Type, Kind: LogEvent}
	if json.Unmarshal(e.Payload, &said) != nil {
		out.Details = e.Payload
		return out
	}
	out.Agent, out.Text = said.Member, said.Text
	switch e.Type {
	case contract.EventAgentMessage:
		out.Kind, out.Agent, out.To = LogMessage, contract.Member(said.From), said.To
	case contract.EventBlackboardWritten:
		out.Kind, out.Agent, out.Section, out.Key, out.Version, out.Move = LogWrite, said.Author, said.Section, said.Key, said.Version, said.Move
	case contract.EventVoteCast:
		out.Kind, out.Agent, out.Key, out.Version, out.Accept = LogVote, said.Voter, said.Key, said.Version, said.Accept
	case contract.EventAgentError:
		out.Kind, out.ErrorType, out.ErrorCode, out.Text = LogError, said.ErrorType, said.ErrorCode, said.ErrorMessage
	case contract.EventPipelineSpawned, contract.EventPipelineUpdated:
		out.Kind, out.Status = LogStatus, contract.PipelineStatus(said.Status)
		if said.WaitingFor != "" {
			out.Text = "waits for " + said.WaitingFor
		}
	default:
		out.Details = e.Payload
	}
	return out
}

// complete replaces the truncated texts of log entries with the full texts.
func (p *Pipelines) complete(ctx context.Context, id int64, events []contract.Event, log []PipelineLog) error {
	names := make([]string, len(log)) // of the texts
	first, long := 0, map[LogKind]bool{}
	for i, l := range log {
		var said struct {
			ID  string `json:"id"`
			Seq int    `json:"seq"`
		}
		if json.Unmarshal(events[i].Payload, &said) != nil || len(l.Text) < contract.TextHead/2 {
			continue
		}
		long[l.Kind] = true
		switch l.Kind {
		case LogWrite:
			names[i] = place(l.Section, l.Key, l.Version)
		case LogVote:
			names[i] = said.ID
		case LogMessage:
			if names[i] = said.ID; first == 0 {
				first = said.Seq
			}
		default: // it is whole
		}
	}
	texts, err := p.texts(ctx, id, long, first)
	for i := range log {
		if text, ok := texts[names[i]]; ok {
			log[i].Text = text
		}
	}
	return err
}

// texts returns the full texts of the given kinds of log entries, by name. Messages start with the
// first one in the log.
func (p *Pipelines) texts(ctx context.Context, id int64, of map[LogKind]bool, first int) (map[string]string, error) {
	out := map[string]string{}
	if of[LogMessage] {
		messages, err := p.Store.PipelineMessages(ctx, id, max(0, first-1), 0, true)
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			out[m.ID] = m.Text.Head
		}
	}
	if of[LogVote] {
		votes, err := p.Store.PipelineVotes(ctx, id, true)
		if err != nil {
			return nil, err
		}
		for _, v := range votes {
			out[v.ID] = v.Text.Head
		}
	}
	if of[LogWrite] {
		entries, err := p.Store.PipelineEntries(ctx, id, true, true)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			out[place(e.Section, e.Key, e.Version)] = e.Value.Head
		}
	}
	return out, nil
}

// place returns a name for a version of a blackboard entry.
func place(section contract.Section, key string, version int) string {
	return fmt.Sprintf("%s/%s/%d", section, key, version)
}

// Follow calls fn exactly once for each event of a pipeline after a sequence number, in order, and
// waits for more, like Store.Follow.
func (p *Pipelines) Follow(ctx context.Context, id, after int64, fn func(contract.Event) error) error {
	row, err := p.Store.Pipeline(ctx, id)
	if err != nil {
		return err
	}
	return p.Feed.Follow(ctx, row.RunID, after, func(e contract.Event) error {
		if e.PipelineID() != id {
			return nil
		}
		return fn(e)
	})
}
