package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// Limits of the details of a span.
const (
	shownText      = 20_000  // bytes of a text
	shownPatch     = 200_000 // bytes of a patch
	shownSpanCases = 12
	openFirst      = 4 // texts that are expanded at first
)

// span returns the details of the span of a run with the given key, or ErrNotFound.
func (s *Server) span(ctx context.Context, run int64, key string, known []views.Span) (*ui.SpanDetail, error) {
	kind, rest, _ := strings.Cut(key, "-")
	ids := numbers(rest)
	switch {
	case kind == "call" && len(ids) == 1:
		return s.callSpan(ctx, run, ids[0])
	case kind == "tool" && len(ids) == 3:
		return s.toolSpan(ctx, run, ids[0], int(ids[1]), int(ids[2]))
	case kind == "heal" && len(ids) == 1:
		return s.healSpan(ctx, run, ids[0])
	case kind == "exec" && len(ids) == 1:
		return s.executionSpan(ctx, run, ids[0])
	case kind == "wait":
		return waitSpan(known, key)
	case kind == "check":
		execution, check, _ := strings.Cut(rest, "-")
		if id := numbers(execution); len(id) == 1 {
			return s.checkSpan(ctx, run, id[0], check)
		}
	}
	return nil, store.ErrNotFound
}

// numbers parses numbers separated by dashes; nil if the text is anything else. All fit into the
// database column for turns.
func numbers(text string) []int64 {
	var out []int64
	for part := range strings.SplitSeq(text, "-") {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil || n < 0 || len(out) > 0 && n > 1<<31-1 {
			return nil
		}
		out = append(out, n)
	}
	return out
}

func logFact(run, execution int64, turn int) ui.Fact {
	href := fmt.Sprintf("/runs/%d/logs?execution=%d", run, execution)
	if turn > 0 {
		href += fmt.Sprintf("&turn=%d", turn)
	}
	return ui.Fact{Name: "log", Value: "In the conversation", Href: href}
}

func usageFacts(u contract.Usage) []ui.Fact {
	return []ui.Fact{
		{Name: "tokens", Value: ui.TokensOf(u)},
		{Name: "cost", Value: ui.CostOf(u)},
	}
}

func failureFacts(f *contract.Failure) []ui.Fact {
	if f == nil {
		return nil
	}
	return []ui.Fact{{Name: "failed", Value: string(f.Class) + " " + ui.Words(f.Code)}, {Name: "because", Value: ui.Cut(f.Message, 600)}}
}

func where(phase contract.Phase, step string) string {
	if step == "" {
		return string(phase)
	}
	return string(phase) + " · " + ui.Cut(step, 64)
}

func (s *Server) callSpan(ctx context.Context, run, id int64) (*ui.SpanDetail, error) {
	c, err := s.Store.ModelCall(ctx, run, id)
	if err != nil {
		return nil, err
	}
	d := &ui.SpanDetail{Title: "Model " + c.Model, Kind: views.SpanModel, State: ui.Done, From: c.StartedAt, To: c.FinishedAt}
	switch c.Status {
	case "reserved":
		d.State = ui.Running
	case "failed":
		d.State = ui.Failed
	}
	d.Facts = append([]ui.Fact{
		{Name: "agent", Value: string(c.Agent)}, {Name: "in", Value: where(c.Phase, c.Step)}, {Name: "turn", Value: strconv.Itoa(c.Turn)},
		{Name: "provider", Value: ui.Cut(c.Provider, 80)}, {Name: "prompt", Value: ui.Short(c.PromptVersion)},
	}, usageFacts(c.Usage)...)
	if c.ReservedMicros > 0 || c.ReservedTokens > 0 {
		d.Facts = append(d.Facts, ui.Fact{Name: "reserved", Value: fmt.Sprintf("%s tokens, %s", ui.Count(c.ReservedTokens), ui.Dollars(c.ReservedMicros))})
	}
	if u := c.Unsettled; u.Tokens > 0 || u.MicroUSD > 0 {
		d.Facts = append(d.Facts, ui.Fact{
			Name: "outcome unknown", Value: fmt.Sprintf("up to %s tokens, %s, of attempts whose workers died; budgets count them as spent", ui.Count(u.Tokens), ui.Dollars(u.MicroUSD)),
		})
	}
	if from := c.CachedResponse; from != nil {
		d.Facts = append(d.Facts, ui.Fact{
			Name: "cached response", Value: fmt.Sprintf("The request was identical to model call %d of run %d, so its response was used again at no cost", from.CallID, from.RunID),
			Href: fmt.Sprintf("/runs/%d/logs", from.RunID),
		})
	}
	if d.Route, err = routeOf(c); err != nil {
		return nil, fmt.Errorf("read why model call %d used its model: %w", id, err)
	}
	if c.Tries > 1 {
		d.Facts = append(d.Facts, ui.Fact{Name: "tries", Value: strconv.Itoa(c.Tries)})
	}
	d.Facts = append(d.Facts, failureFacts(c.Failure)...)
	d.Facts = append(d.Facts, logFact(run, c.ExecutionID, c.Turn))
	spoken, err := s.Views.TurnOf(ctx, c.ExecutionID, c.Turn)
	if err != nil {
		return nil, err
	}
	for i, m := range spoken {
		d.Sections = append(d.Sections, messageSections(m, i < openFirst || m.Turn == c.Turn)...)
	}
	return d, nil
}

// routeOf says why a call used its model; nil if that was not recorded.
func routeOf(c store.ModelCall) (*ui.CallRoute, error) {
	var d *contract.RouteDecision
	if len(c.Route) == 0 {
		return nil, nil //nolint:nilnil // unknown
	}
	if err := json.Unmarshal(c.Route, &d); err != nil || d == nil || len(d.Reasons) == 0 {
		return nil, err
	}
	return &ui.CallRoute{RouteDecision: *d, Model: c.Provider + "/" + c.Model, MicroUSD: c.Usage.MicroUSD, Estimated: c.Usage.EstimatedPrice}, nil
}

// messageSections shows a message: its text, and its tool calls.
func messageSections(m views.Spoken, open bool) (out []ui.Section) {
	title := "Message from the " + m.Role
	switch {
	case m.Role == string(model.RoleSystem):
		title, open = "Instructions", false
	case m.Role == string(model.RoleAssistant):
		title = "Answer"
	case m.Index >= 0:
		title, open = fmt.Sprintf("Result of tool call %d", m.Index+1), false
	}
	if m.Text != "" {
		out = append(out, textSection(title, m.Text, m.Size, open))
	}
	for i, c := range toolCalls(m.ToolCalls) {
		out = append(out, textSection(fmt.Sprintf("Tool call %d: %s", i+1, ui.Cut(c.Name, 60)), indented(c.Arguments), int64(len(c.Arguments)), open))
	}
	return out
}

// textSection shows the beginning of a text and notes how much is omitted.
func textSection(title, text string, size int64, open bool) ui.Section {
	s := ui.Section{Title: title, Text: ui.Cut(text, shownText), Open: open}
	if int64(len(s.Text)) < size {
		s.Note = fmt.Sprintf("Truncated: only the beginning of this %s text is shown. The log contains the full text.", ui.Size(size))
	}
	return s
}

func toolCalls(raw json.RawMessage) (calls []model.ToolCall) {
	if json.Unmarshal(raw, &calls) != nil {
		return nil // a response outside a conversation: its text is shown
	}
	return calls
}

// indented formats JSON on several lines; anything else stays as it is.
func indented(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return text
	}
	return string(out)
}

func (s *Server) toolSpan(ctx context.Context, run, execution int64, turn, index int) (*ui.SpanDetail, error) {
	c, before, err := s.Store.ToolCall(ctx, run, execution, turn, index)
	if err != nil {
		return nil, err
	}
	d := &ui.SpanDetail{Title: "Tool " + c.Tool, Kind: views.SpanTool, State: stateOf(c.Outcome.OK), From: c.StartedAt, To: &c.FinishedAt}
	d.Facts = []ui.Fact{
		{Name: "turn", Value: strconv.Itoa(turn)}, {Name: "why", Value: ui.Words(c.Outcome.Code)},
		logFact(run, execution, turn), {Name: "of", Value: "The whole attempt", Href: ui.SpanHref(run, fmt.Sprintf("exec-%d", execution))},
	}
	asked, err := s.Views.TurnOf(ctx, execution, turn)
	if err != nil {
		return nil, err
	}
	for _, m := range asked {
		if m.Turn != turn || m.Role != string(model.RoleAssistant) {
			continue
		}
		if calls := toolCalls(m.ToolCalls); index < len(calls) {
			d.Sections = append(d.Sections, textSection("Arguments", indented(calls[index].Arguments), int64(len(calls[index].Arguments)), true))
		}
	}
	_, told, err := s.Store.ToolResult(ctx, execution, turn, index)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	var message model.Message
	if len(told.Content) > 0 && json.Unmarshal(told.Content, &message) == nil {
		d.Sections = append(d.Sections, textSection("Result", message.Text, int64(len(message.Text)), true))
	}
	if after := c.Outcome.Workspace.Patch; after != before && after != "" {
		section, err := s.patchSection(ctx, before, after)
		if err != nil {
			return nil, err
		}
		d.Sections = append(d.Sections, section...)
	}
	return d, nil
}

func stateOf(ok bool) ui.State {
	if ok {
		return ui.Done
	}
	return ui.Failed
}

// checkState returns the display state of a check.
func checkState(r contract.CheckResult) ui.State {
	if r.Skipped {
		return ui.Queued
	}
	return stateOf(r.OK)
}

// patchSection shows, for each file in which two patches of the same base differ, its whole change
// since the base.
func (s *Server) patchSection(ctx context.Context, before, after string) ([]ui.Section, error) {
	was, err := s.knownPatch(ctx, before)
	if err != nil {
		return nil, err
	}
	is, err := s.knownPatch(ctx, after)
	if err != nil {
		return nil, err
	}
	old := map[string]bool{} // a patch may have very many files
	for _, file := range was.files {
		old[file.Text] = true
	}
	var changed strings.Builder
	files := 0
	for _, file := range is.files {
		if !old[file.Text] {
			changed.WriteString(file.Text)
			files++
		}
	}
	if files == 0 {
		return nil, nil
	}
	section := ui.Section{Title: "Change", Text: ui.Cut(changed.String(), shownPatch), Patch: true, Open: true, Note: "For each file changed here, all changes since the run's base commit are shown."}
	if changed.Len() > shownPatch {
		section.Note += fmt.Sprintf(" Truncated: only the beginning of this %s patch is shown.", ui.Size(int64(changed.Len())))
	}
	return []ui.Section{section}, nil
}

// knownPatch returns the patch stored under a digest, or an empty one if it is no longer stored.
func (s *Server) knownPatch(ctx context.Context, digest string) (patchText, error) {
	if digest == "" {
		return patchText{}, nil
	}
	p, err := s.storedPatch(ctx, digest)
	if errors.Is(err, artifact.ErrNotFound) {
		s.Log.WarnContext(ctx, "A patch could not be read and is not shown", "digest", digest, "error", err)
		return patchText{}, nil
	}
	return p, err
}

func (s *Server) checkSpan(ctx context.Context, run, execution int64, id string) (*ui.SpanDetail, error) {
	c, err := s.Store.Check(ctx, run, execution, id)
	if err != nil {
		return nil, err
	}
	d := &ui.SpanDetail{Title: "Check " + c.Result.Check.ID, Kind: views.SpanTest, State: checkState(c.Result), From: c.StartedAt, To: &c.FinishedAt}
	sum := c.Result.Summary
	d.Facts = []ui.Fact{
		{Name: "what", Value: ui.Cut(c.Result.Check.Name, 200)}, {Name: "kind", Value: string(c.Result.Check.Category)},
		{Name: "tests", Value: ui.TestCounts(sum)},
		{Name: "findings", Value: fmt.Sprintf("%d major, %d medium, %d minor", c.Result.Major, c.Result.Medium, c.Result.Minor)},
		{Name: "why", Value: ui.Words(c.Result.Code)},
		{Name: "tests", Value: "All tests", Href: fmt.Sprintf("/runs/%d/tests?execution=%d", run, execution)},
		{Name: "log", Value: "Tester log", Href: fmt.Sprintf("/runs/%d/logs?execution=%d", run, execution)},
	}
	if c.Result.Message != "" {
		d.Sections = append(d.Sections, textSection("Message", c.Result.Message, int64(len(c.Result.Message)), true))
	}
	for _, t := range c.Cases {
		if notGreen(t.Status) && len(d.Sections) < shownSpanCases {
			d.Sections = append(d.Sections, textSection(string(t.Status)+": "+ui.Cut(t.Name, 120), strings.TrimSpace(t.Location+"\n"+t.Message), int64(len(t.Message)), len(d.Sections) < openFirst))
		}
	}
	return d, nil
}

func (s *Server) healSpan(ctx context.Context, run, id int64) (*ui.SpanDetail, error) {
	h, err := s.Store.Heal(ctx, run, id)
	if err != nil {
		return nil, err
	}
	out := h.Output()
	d := &ui.SpanDetail{Title: "Heal: " + ui.Words(h.HealAction), Kind: views.SpanHeal, State: ui.HealState(h.Status), From: h.CreatedAt, To: h.FinishedAt}
	d.Facts = []ui.Fact{
		{Name: "number", Value: strconv.Itoa(h.Number)}, {Name: "in", Value: where(h.Phase, h.Step)},
		{Name: "for", Value: string(h.ErrorType) + " " + ui.Words(h.ErrorCode)}, {Name: "cause", Value: ui.Cut(h.RootCause, 600)},
		{Name: "requested by", Value: ui.Cut(h.AskedBy, 80)}, {Name: "returned to", Value: string(out.Back)}, {Name: "result", Value: ui.Cut(out.Result, 400)},
	}
	if out.Usage != nil {
		d.Facts = append(d.Facts, usageFacts(*out.Usage)...)
	}
	if h.ExecutionID != 0 {
		d.Facts = append(d.Facts, ui.Fact{Name: "failed", Value: "The failed attempt", Href: ui.SpanHref(run, fmt.Sprintf("exec-%d", h.ExecutionID))})
	}
	if out.Message != "" {
		d.Sections = append(d.Sections, textSection("Action taken", out.Message, int64(len(out.Message)), true))
	}
	for _, part := range []struct {
		title  string
		values map[string]any
	}{{"Before", out.Before}, {"After", out.After}} {
		if len(part.values) == 0 {
			continue
		}
		text, err := json.MarshalIndent(part.values, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("write the changes made by heal %d: %w", id, err)
		}
		d.Sections = append(d.Sections, textSection(part.title, string(text), int64(len(text)), true))
	}
	if out.Diff != "" {
		d.Sections = append(d.Sections, ui.Section{Title: "Change", Text: ui.Cut(out.Diff, shownPatch), Patch: true, Open: true})
	}
	return d, nil
}

func (s *Server) executionSpan(ctx context.Context, run, id int64) (*ui.SpanDetail, error) {
	e, err := s.Store.Execution(ctx, run, id)
	if err != nil {
		return nil, err
	}
	kind := views.SpanPhase
	if e.Step != "" {
		kind = views.SpanStep
	}
	d := &ui.SpanDetail{Title: where(e.Phase, e.Step), Kind: kind, State: ui.ExecutionState(e.Status), From: e.StartedAt, To: e.FinishedAt}
	d.Facts = []ui.Fact{{Name: "attempt", Value: strconv.Itoa(e.Attempt)}, {Name: "agent", Value: string(e.Agent)}, {Name: "model", Value: ui.Cut(e.Model, 80)}}
	if e.Turns > 0 {
		d.Facts = append(d.Facts, ui.Fact{Name: "turns", Value: strconv.Itoa(e.Turns)})
		d.Facts = append(d.Facts, usageFacts(e.Usage)...)
	}
	d.Facts = append(d.Facts, failureFacts(e.Failure)...)
	d.Facts = append(d.Facts, logFact(run, e.ID, 0))
	if e.Phase == contract.PhaseBuilder && e.Step != "" {
		d.Facts = append(d.Facts, ui.Fact{Name: "plan", Value: "The step", Href: ui.StepHref(run, e.Step)})
	}
	if e.Failure != nil && e.Failure.Cause != "" {
		d.Sections = append(d.Sections, textSection("Cause", e.Failure.Cause, int64(len(e.Failure.Cause)), true))
	}
	change, err := s.changeOf(ctx, e)
	if err != nil {
		return nil, err
	}
	d.Sections = append(d.Sections, change...)
	if len(e.Output) > 0 && len(change) == 0 {
		d.Sections = append(d.Sections, textSection("Output", indented(string(e.Output)), int64(len(e.Output)), false))
	}
	return d, nil
}

// changeOf shows the change made by a step.
func (s *Server) changeOf(ctx context.Context, e store.Execution) ([]ui.Section, error) {
	out := stepOutput(e)
	if e.Step == "" || out.To.Patch == "" {
		return nil, nil
	}
	return s.patchSection(ctx, out.From.Patch, out.To.Patch)
}

// waitSpan shows a wait that is part of the timeline.
func waitSpan(known []views.Span, key string) (*ui.SpanDetail, error) {
	at := slices.IndexFunc(known, func(p views.Span) bool { return p.Key == key })
	if at < 0 {
		return nil, store.ErrNotFound
	}
	w := known[at]
	d := &ui.SpanDetail{Title: "Waited for a person", Kind: views.SpanWait, State: ui.ExecutionState(w.Status), From: w.From, To: w.To}
	if w.To == nil {
		d.Title, d.State = "Waiting for a person", ui.Waiting
	}
	d.Facts = []ui.Fact{{Name: "about", Value: ui.Cut(w.Name, 400)}, {Name: "in", Value: string(w.Phase)}, {Name: "reason", Value: ui.Cut(w.Detail, 600)}}
	return d, nil
}
