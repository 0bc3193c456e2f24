package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/store/providers"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newRunWatch(a *app) *cobra.Command {
	var after int64
	cmd := &cobra.Command{
		Use: "watch RUN", Short: "Follow a run until it ends", Args: oneRun,
		Example: `  rgpt run watch 42
  rgpt run watch 42 --after 17 --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := runID(args[0])
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), 0, func(h backend.Backend) error { return a.followFrom(cmd.Context(), h, id, after) })
		},
	}
	cmd.Flags().Int64Var(&after, "after", 0, "skip events up to this number")
	return cmd
}

// follow shows a run's events as they arrive until it ends, and returns the exit code for its
// result.
func (a *app) follow(ctx context.Context, h backend.Backend, id int64) error {
	return a.followFrom(ctx, h, id, 0)
}

func (a *app) followFrom(ctx context.Context, h backend.Backend, id, after int64) error {
	run, err := h.Run(ctx, id)
	if err != nil {
		return err
	}
	if run.Status.Terminal() && after >= run.EventSeq {
		return a.reportEnd(ctx, h, run) // nothing to wait for
	}
	show := a.newProgress(run)
	defer show.close()
	show.tail(ctx, h)
	if err := a.untilEnd(ctx, h, id, after, show); err != nil {
		return err
	}
	if run, err = withRetries(ctx, func() (store.Run, error) { return h.Run(ctx, id) }); err != nil {
		return err
	}
	show.close()
	return a.reportEnd(ctx, h, run)
}

// untilEnd waits until a run has ended, and shows its events unless show is nil.
func (a *app) untilEnd(ctx context.Context, h backend.Backend, id, after int64, show *progress) error {
	err := h.Follow(ctx, id, after, func(e contract.Event) error {
		if show != nil {
			show.event(e)
			if err := show.planToApprove(ctx, h, e); err != nil {
				return err
			}
		}
		if e.Type != contract.EventRunFailed && e.Type != contract.PhaseReleaser.CompletedEvent() && !isFinal(e) {
			return nil
		}
		if again, err := a.isResumed(ctx, h, e); again || err != nil {
			return err
		}
		return feed.ErrStop
	})
	if ctx.Err() != nil {
		if show != nil {
			show.close()
		}
		fmt.Fprintf(a.errs, "Run %d continues in the background. Follow it with: rgpt run watch %d\n", id, id)
		return ended{exitError}
	}
	return err
}

const (
	// followTimeout is how long requests are retried while a component is unavailable.
	followTimeout = 5 * time.Minute
	// followPause is the pause between retries.
	followPause = 500 * time.Millisecond
)

// withRetries calls read, and retries it while a component is unavailable: a user who follows a run
// through an outage should still see its end.
func withRetries[T any](ctx context.Context, read func() (T, error)) (T, error) {
	for until := time.Now().Add(followTimeout); ; {
		v, err := read()
		if err == nil || fault.Of(err).Class != contract.ClassInfra || time.Now().After(until) {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, err
		case <-time.After(followPause):
		}
	}
}

// isResumed reports whether a run was replayed after an event that reports its end.
func (a *app) isResumed(ctx context.Context, h backend.Backend, end contract.Event) (bool, error) {
	run, err := withRetries(ctx, func() (store.Run, error) { return h.Run(ctx, end.RunID) })
	if err != nil || !run.Status.Terminal() {
		return true, err
	}
	const most = 100
	later, err := withRetries(ctx, func() ([]contract.Event, error) { return h.Events(ctx, end.RunID, end.Seq, most) })
	return slices.ContainsFunc(later, func(e contract.Event) bool {
		return slices.ContainsFunc(contract.Phases(), func(p contract.Phase) bool { return e.Type == p.Started() })
	}), err
}

// isFinal reports whether an event marks the end of its run.
func isFinal(e contract.Event) bool {
	if ofDeliberation(e) { // the deliberation ended, not the run
		return false
	}
	var payload struct {
		Status contract.Status `json:"status"`
	}
	return json.Unmarshal(e.Payload, &payload) == nil && payload.Status.Terminal()
}

// reportEnd prints how a run ended and where its results are.
func (a *app) reportEnd(ctx context.Context, h backend.Backend, run store.Run) error {
	code := contract.Code("")
	if run.Failure != nil {
		code = run.Failure.Code
	}
	exit := exitOf(run.Status, code)
	if a.json {
		details, err := withRetries(ctx, func() (views.RunDetails, error) { return h.RunDetails(ctx, run.ID) })
		if err != nil {
			return err
		}
		a.printJSON(details)
	} else if err := a.printResult(ctx, h, run); err != nil {
		return err
	}
	if exit != exitDone {
		return ended{exit}
	}
	return nil
}

// printResult prints the plan of a plan-only run, and how a run ended.
func (a *app) printResult(ctx context.Context, h backend.Backend, run store.Run) error {
	if run.Settings.PlanOnly {
		details, err := withRetries(ctx, func() (views.RunDetails, error) { return h.RunDetails(ctx, run.ID) })
		if err != nil {
			return err
		}
		if p, ok := planOf(details); ok {
			fmt.Fprintln(a.out)
			printPlan(a.out, p)
		}
	}
	return a.printEnd(ctx, h, run)
}

func (a *app) printEnd(ctx context.Context, h backend.Backend, run store.Run) error {
	took := ""
	if run.FinishedAt != nil {
		took = " after " + run.FinishedAt.Sub(run.CreatedAt).Round(100*time.Millisecond).String()
	}
	fmt.Fprintf(a.out, "\nRun %d is %s%s.\n", run.ID, run.Status, took)
	if f := run.Failure; f != nil {
		fmt.Fprintf(a.out, "  %s (%s): %s\n", f.Class, f.Code, terminal.Clean(f.Message))
		if f.Cause != "" && f.Cause != f.Message {
			fmt.Fprintf(a.out, "  cause: %s\n", terminal.Clean(f.Cause))
		}
	}
	if i := run.Settings.Issue; i != nil {
		fmt.Fprintf(a.out, "  issue      %s (%s)\n", terminal.Clean(i.String()), terminal.Clean(i.URL))
	}
	if run.ReleaseBranch != "" && run.ReleaseCommit != "" {
		fmt.Fprintf(a.out, "  branch     %s (%.12s) in %s\n", terminal.Clean(run.ReleaseBranch), run.ReleaseCommit, terminal.Clean(run.Repo))
	}
	if err := a.printPullRequests(ctx, h, run); err != nil {
		return err
	}
	if until := run.StayingUntil; until != nil {
		fmt.Fprintf(a.out, "  watches    its branch until %s; report failed checks with rgpt run check %d, or end the watch with rgpt run stop %d\n",
			until.Local().Format(time.DateTime), run.ID, run.ID)
	}
	if run.ReleaseCommit != "" {
		fmt.Fprintf(a.out, "  report     rgpt run export %d\n", run.ID)
	}
	dashboard, temporal, err := h.Links(ctx, run.ID)
	for _, link := range [][2]string{{"dashboard", dashboard}, {"Temporal", temporal}} {
		if link[1] != "" {
			fmt.Fprintf(a.out, "  %-9s  %s\n", link[0], terminal.Clean(link[1]))
		}
	}
	return err
}

// progress prints events as lines and, on a terminal, a status line with the current activity.
type progress struct {
	a     *app
	run   store.Run
	live  bool
	steps map[string]string
	order []string
	now   string
	width int

	mu        sync.Mutex // guards all fields above, and the terminal
	preparing bool       // the environment is being set up, or the base commit checked
	last      string     // last line printed by the preparation
	writes    writing    // what a model writes
	waiting   bool       // an event said that a model call waits for its turn, and none has begun since, as far as is known
	waits     string     // calls that wait, with their positions
	stop      func()     // ends tail; nil if it was not started
}

func (a *app) newProgress(run store.Run) *progress {
	p := &progress{a: a, run: run, live: a.terminal() && !a.json, steps: map[string]string{}}
	if !a.json {
		fmt.Fprintf(a.out, "Run %d: %s\n", run.ID, terminal.Clean(run.GoalTitle))
	}
	return p
}

var (
	styleTime = lipgloss.NewStyle().Faint(true)
	styleGood = lipgloss.NewStyle().Foreground(lipgloss.Color("2"))
	styleBad  = lipgloss.NewStyle().Foreground(lipgloss.Color("1")).Bold(true)
	styleNow  = lipgloss.NewStyle().Foreground(lipgloss.Color("6"))
	styleWait = lipgloss.NewStyle().Foreground(lipgloss.Color("3")).Bold(true)
)

func (p *progress) event(e contract.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.a.json {
		raw, err := json.Marshal(e)
		if err == nil {
			fmt.Fprintln(p.a.out, string(raw))
		}
		return
	}
	p.clear()
	kind, rest, _ := strings.Cut(string(e.Type), ".")
	text := describe(e)
	line := fmt.Sprintf("%-18s %s", e.Type, text)
	if p.live {
		line = p.style(e, rest).Render(fmt.Sprintf("%-18s", e.Type)) + " " + text
	}
	at := e.CreatedAt.Local().Format("15:04:05.0")
	if p.live {
		at = styleTime.Render(at)
	}
	fmt.Fprintf(p.a.out, "%s  %s\n", at, line)
	p.note(e, kind, rest)
	p.draw()
}

// planToApprove shows the plan if an event requests its approval.
func (p *progress) planToApprove(ctx context.Context, h backend.Backend, e contract.Event) error {
	var payload struct {
		Kind string `json:"kind"`
	}
	if p.a.json || e.Type != contract.EventApprovalRequested || json.Unmarshal(e.Payload, &payload) != nil || payload.Kind != contract.ApprovalPlan {
		return nil
	}
	details, err := withRetries(ctx, func() (views.RunDetails, error) { return h.RunDetails(ctx, e.RunID) })
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if plan, ok := planOf(details); ok {
		p.clear()
		printPlan(p.a.out, plan)
		p.draw()
	}
	return nil
}

func (p *progress) style(e contract.Event, rest string) lipgloss.Style {
	switch {
	case rest == "completed", rest == "ready", e.Type == contract.EventApprovalGranted, e.Type == contract.EventHealSuccess:
		return styleGood
	case rest == "error", e.Type == contract.EventRunFailed, e.Type == contract.EventHealFailed:
		return styleBad
	case strings.HasPrefix(string(e.Type), "approval."), strings.HasPrefix(string(e.Type), "input."), strings.HasPrefix(string(e.Type), "intervention."), e.Type == contract.EventChangeSetWaiting:
		return styleWait
	default:
		return styleNow
	}
}

// note updates the content of the status line.
func (p *progress) note(e contract.Event, kind, rest string) {
	if kind == "step" {
		var payload struct {
			Step string `json:"step"`
		}
		if json.Unmarshal(e.Payload, &payload) == nil {
			if _, ok := p.steps[payload.Step]; !ok {
				p.order = append(p.order, payload.Step)
			}
			p.steps[payload.Step] = rest
		}
		return
	}
	if contract.Phase(kind).Valid() || kind == "environment" || kind == "baseline" {
		p.now = kind + " " + rest
		p.preparing, p.last = rest == "started" && !contract.Phase(kind).Valid(), ""
	}
	if e.Type == contract.EventModelWaiting {
		p.waiting = true
	}
	if e.Type == contract.EventInputRequested {
		p.now = fmt.Sprintf("waiting for you: rgpt run answer %d OPTION", p.run.ID)
	}
	var of contract.ChangeSetWaiting
	if e.Type == contract.EventChangeSetWaiting && json.Unmarshal(e.Payload, &of) == nil {
		p.now = fmt.Sprintf("waiting for you: rgpt set release %d, or rgpt set stop %[1]d", of.ChangeSet)
	}
	if e.Type == contract.EventChangeSetResolved {
		p.now = ""
	}
	if e.Type == contract.EventApprovalRequested || e.Type == contract.EventInterventionRequested {
		p.now = fmt.Sprintf("waiting for you: rgpt run approve %d", p.run.ID)
	}
}

// draw prints the status line; clear erases it.
func (p *progress) draw() {
	if !p.live || p.now == "" {
		return
	}
	parts := []string{p.now}
	for _, id := range p.order {
		mark := map[string]string{"started": "◐", "completed": "✓", "error": "✗"}[p.steps[id]]
		parts = append(parts, mark+" "+terminal.Clean(id))
	}
	if p.waits != "" {
		parts = append(parts, p.waits)
	}
	if p.last != "" {
		parts = append(parts, p.last)
	} else if text := p.writes.line(); text != "" {
		parts = append(parts, text)
	}
	line := strings.Join(parts, "  ")
	if most := p.a.columns() - 1; len([]rune(line)) > most {
		line = string([]rune(line)[:most])
	}
	p.width = len([]rune(line))
	fmt.Fprint(p.a.out, styleNow.Render(line))
}

func (p *progress) clear() {
	if p.live && p.width > 0 {
		fmt.Fprint(p.a.out, "\r\x1b[2K")
		p.width = 0
	}
}

func (p *progress) close() {
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
	p.clear()
}

// outputPoll is the interval between requests for new output.
const outputPoll = 500 * time.Millisecond

// outputPage is the maximum number of pieces of output per request.
const outputPage = 500

// waitingPoll is the interval between requests for the positions of model calls that wait.
const waitingPoll = 2 * time.Second

// tail shows the last line of output of the setup or a baseline check on a terminal, what models
// write, and the positions of calls that wait, until close. Read errors are ignored.
func (p *progress) tail(ctx context.Context, h backend.Backend) {
	if !p.live {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	p.stop = func() { cancel(); wg.Wait() }
	wg.Go(func() { _ = h.FollowTexts(ctx, p.run.ID, p.showText) })
	wg.Go(func() { p.showWaits(ctx, h) })
	wg.Go(func() {
		for after := int64(0); ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(outputPoll):
			}
			p.mu.Lock()
			preparing := p.preparing
			p.mu.Unlock()
			if !preparing {
				continue
			}
			pieces, err := h.LiveOutput(ctx, p.run.ID, after, outputPage)
			if err != nil || len(pieces) == 0 {
				continue
			}
			after = pieces[len(pieces)-1].ID
			p.showLast(pieces)
		}
	})
}

// showWaits shows which model calls wait for a provider, from the event that says so until none does.
func (p *progress) showWaits(ctx context.Context, h backend.Backend) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(waitingPoll):
		}
		p.mu.Lock()
		waiting := p.waiting
		p.mu.Unlock()
		if !waiting {
			continue
		}
		details, err := h.RunDetails(ctx, p.run.ID)
		if err != nil {
			continue
		}
		p.mu.Lock()
		p.waiting, p.waits = len(details.WaitingCalls) > 0, waitsOf(details.WaitingCalls)
		p.clear()
		p.draw()
		p.mu.Unlock()
	}
}

// waitsOf describes calls that wait for a provider: the first one, and how many more.
func waitsOf(calls []providers.Waiting) string {
	switch len(calls) {
	case 0:
		return ""
	case 1:
		return terminal.OneLine(calls[0].String())
	}
	return fmt.Sprintf("%s (and %d more)", terminal.OneLine(calls[0].String()), len(calls)-1)
}

// showLast shows the last non-empty line of pieces.
func (p *progress) showLast(pieces []views.Output) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.preparing {
		return
	}
	for _, piece := range slices.Backward(pieces) {
		lines := strings.FieldsFunc(piece.Text, func(r rune) bool { return r == '\n' || r == '\r' })
		for _, line := range slices.Backward(lines) {
			if line = strings.TrimSpace(terminal.Clean(line)); line != "" {
				p.last = line
				p.clear()
				p.draw()
				return
			}
		}
	}
}

// writing is what a model writes at the moment; if several do, the one whose text came last.
type writing struct {
	text store.LiveText
	at   time.Time
}

// textAge is the time after which a text that was not shown again is dropped: its worker died.
const textAge = 3 * store.LiveTextRenewal

// textWidth is the maximum number of characters of a text on the status line.
const textWidth = 60

// line describes what is written, with the end of its last line.
func (w writing) line() string {
	t := w.text
	if w.at.IsZero() || time.Since(w.at) > textAge {
		return ""
	}
	who := terminal.OneLine(strings.TrimSpace(string(t.Agent) + " " + t.Step))
	switch {
	case t.Thinking:
		return who + ": thinking…"
	case t.Tool != "":
		return fmt.Sprintf("%s: writing %s (%d characters)", who, terminal.OneLine(t.Tool+" "+t.Path), t.Characters)
	}
	lines := strings.Split(strings.TrimSpace(t.Text), "\n")
	last := []rune(terminal.OneLine(lines[len(lines)-1]))
	if over := len(last) - textWidth; over > 0 {
		last = append([]rune("…"), last[over:]...)
	}
	return who + ": " + string(last)
}

// showText shows what a model writes on the status line, until its call ends.
func (p *progress) showText(t store.LiveText) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	same := p.writes.text.ExecutionID == t.ExecutionID && p.writes.text.Turn == t.Turn
	switch {
	case !t.Over:
		p.writes = writing{t, time.Now()}
	case same:
		p.writes = writing{}
	default:
		return nil // of a call whose text is not shown
	}
	p.clear()
	p.draw()
	return nil
}

// ofDeliberation reports whether an event belongs to a deliberation. The events of a planner's
// deliberation are recorded with the events of its run.
func ofDeliberation(e contract.Event) bool {
	kind, _, dotted := strings.Cut(string(e.Type), ".")
	return e.PipelineID() != 0 && (!dotted || kind == "pipeline")
}

// describe summarizes an event in a few words.
func describe(e contract.Event) string {
	if ofDeliberation(e) {
		entry := control.LogOf(e)
		return strings.TrimSpace(inWords(entry) + " " + terminal.Clean(entry.Text))
	}
	if text, ok := describePreparation(e); ok {
		return text
	}
	var m map[string]any
	if json.Unmarshal(e.Payload, &m) != nil {
		return ""
	}
	str := func(key string) string {
		switch v := m[key].(type) {
		case nil:
			return ""
		case float64:
			return fmt.Sprintf("%g", v)
		default:
			return terminal.Clean(fmt.Sprint(v))
		}
	}
	var out []string
	add := func(text string) {
		if strings.TrimSpace(text) != "" {
			out = append(out, text)
		}
	}
	switch {
	case e.Type == contract.EventInputRequested:
		add(inputText(e))
	case strings.HasPrefix(string(e.Type), contract.EventPullRequestPrefix):
		add(str("url"))
	}
	for _, key := range []string{"step", "name", "goal_title", "severity", "category", "location", "branch", "error_type", "code", "error_message", "heal_action", "root_cause", "result", "kind", "commit", "messages", "by", "reason", "action_required", "answer", "answered", "refused", "message", "warning"} {
		add(str(key))
	}
	if f, ok := m["failure"].(map[string]any); ok {
		add(terminal.Clean(fmt.Sprint(f["error_type"], ": ", f["error_message"])))
	}
	if s, ok := m["summary"].(map[string]any); ok {
		add(fmt.Sprintf("%v passed, %v failed, %v skipped", s["passed"], s["failed"], s["skipped"]))
	}
	if n := str("steps"); n != "" {
		add(counted(n, "step"))
	}
	if n := str("turns"); n != "" {
		add(counted(n, "turn"))
	}
	if until := str("deadline"); until != "" {
		add("until " + until)
	}
	return strings.Join(out, "  ")
}

// inputText shows the question of a planner with its numbered options.
func inputText(e contract.Event) string {
	var q contract.PlannerQuestion
	if json.Unmarshal(e.Payload, &q) != nil {
		return ""
	}
	text := terminal.OneLine(q.Question)
	for i, option := range q.Options {
		text += fmt.Sprintf("  %d: %s", i+1, terminal.OneLine(option))
		if option == q.Default {
			text += " (default)"
		}
	}
	return text
}

// describePreparation summarizes an event of a run's environment or baseline.
func describePreparation(e contract.Event) (string, bool) {
	p := views.PreparationOf([]contract.Event{e}, false)
	switch e.Type {
	case contract.EventEnvironmentReady:
		text := environmentLine(*p.Environment)
		if len(p.Environment.Missing) > 0 {
			text += "; missing: " + strings.Join(p.Environment.Missing, ", ")
		}
		return terminal.Clean(text), true
	case contract.EventBaselineStarted:
		var payload struct {
			Checks []string `json:"checks"`
		}
		if json.Unmarshal(e.Payload, &payload) != nil {
			return "", false
		}
		return terminal.Clean(strings.Join(payload.Checks, ", ")), true
	case contract.EventBaselineReady:
		text := baselineLine(*p.Baseline)
		if len(p.Baseline.Red) > 0 {
			text += "; fails: " + strings.Join(p.Baseline.Red, ", ")
		}
		if len(p.Baseline.Unavailable) > 0 {
			text += "; cannot run: " + strings.Join(p.Baseline.Unavailable, ", ")
		}
		return terminal.Clean(text), true
	default:
		return "", false
	}
}

// counted formats a number with its unit: 1 step, 2 steps.
func counted(n, what string) string {
	if n == "1" {
		return n + " " + what
	}
	return n + " " + what + "s"
}
