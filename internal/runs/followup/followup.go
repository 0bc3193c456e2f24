// Package followup describes what a run has done, for the agents of a run that continues its branch.
// The descriptions are bounded, and fixed when the later run is created. They are data: the texts in
// them come from people, models and repositories.
package followup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/followups"
	"github.com/rocketgpt/orchestrator/internal/store/messages"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/tool"
)

// Limits of what a run knows about the work before it.
const (
	maxRuns     = 5        // of a branch; the newest ones
	goalBytes   = 4 << 10  // of one run
	planBytes   = 6 << 10  // of one run
	saidBytes   = 2000     // of what one agent said at its end
	maxSaid     = 12       // agents of one run, the last ones
	toldBytes   = 1000     // of one message of a person
	maxTold     = 12       // messages of one run, the last ones
	checksBytes = 2 << 10  // of the outcome of one run
	diffBytes   = 16 << 10 // of the change of the newest run
	laterBytes  = 2 << 10  // of the subjects of commits that others added
	olderBytes  = 600      // of each text about runs before the newest one
)

// Work is what a run did on a branch.
type Work struct {
	RunID    int64    `json:"run_id"`
	Goal     string   `json:"goal"`
	Plan     string   `json:"plan,omitempty"`
	Said     []string `json:"said,omitempty"`      // by its agents when they finished
	Told     []string `json:"told,omitempty"`      // to its agents by people
	Outcome  string   `json:"outcome,omitempty"`   // of its verification
	Diff     string   `json:"diff,omitempty"`      // its change
	Unknown  string   `json:"unknown,omitempty"`   // why its change is not known
	Later    string   `json:"later,omitempty"`     // subjects of commits that others added afterwards
	LaterCut bool     `json:"later_cut,omitempty"` // there are more of them
}

// Gather describes the work of a run and of those before it on its branch, the oldest first. later
// contains the subjects of the commits that others added since.
func Gather(ctx context.Context, st *store.Store, files *artifact.Store, run store.Run, later []string) ([]Work, error) {
	raw, err := followups.Work(ctx, st, run.ID)
	if err != nil {
		return nil, err
	}
	before, err := Read(raw)
	if err != nil {
		return nil, err
	}
	for i := range before {
		before[i] = before[i].shortened()
	}
	w := Work{RunID: run.ID, Goal: clean(run.GoalTitle+"\n"+run.GoalDescription, goalBytes)}
	if w.Plan, err = planOf(ctx, st, run.ID); err != nil {
		return nil, err
	}
	executions, err := st.Executions(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	if w.Said, err = said(ctx, st, executions); err != nil {
		return nil, err
	}
	if w.Outcome, err = outcome(ctx, st, executions); err != nil {
		return nil, err
	}
	if w.Told, err = told(ctx, st, run.ID); err != nil {
		return nil, err
	}
	if w.Diff, w.Unknown, err = change(ctx, st, files, run.ID); err != nil {
		return nil, err
	}
	subjects := strings.Join(later, "\n")
	w.Later, w.LaterCut = clean(subjects, laterBytes), len(subjects) > laterBytes
	before = append(before, w)
	return before[max(0, len(before)-maxRuns):], nil
}

// Read reads descriptions that were stored with a run; none for no text.
func Read(raw json.RawMessage) ([]Work, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var out []Work
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("read the earlier work of a run: %w", err)
	}
	return out, nil
}

// shortened returns a description without the change and what people wrote, for a run before the
// newest one: its result is in the repository.
func (w Work) shortened() Work {
	out := Work{RunID: w.RunID, Goal: fault.Clip(w.Goal, olderBytes), Plan: fault.Clip(w.Plan, olderBytes), Outcome: fault.Clip(w.Outcome, olderBytes)}
	for _, s := range w.Said[max(0, len(w.Said)-2):] {
		out.Said = append(out.Said, fault.Clip(s, olderBytes))
	}
	return out
}

// clean prepares a text for storing: without secrets, and within a limit.
func clean(text string, most int) string {
	return fault.Clip(strings.ToValidUTF8(telemetry.Redact(strings.TrimSpace(text)), "\uFFFD"), most)
}

func planOf(ctx context.Context, st *store.Store, run int64) (string, error) {
	plan, err := st.Plan(ctx, run)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(plan.Summary)
	for _, s := range plan.Steps {
		fmt.Fprintf(&b, "\n- %s: %s", s.ID, s.Name)
		if len(s.Files) > 0 {
			fmt.Fprintf(&b, " (%s)", strings.Join(s.Files, ", "))
		}
	}
	return clean(b.String(), planBytes), nil
}

// said returns what builders and Repair agents said when they finished.
func said(ctx context.Context, st *store.Store, executions []store.Execution) ([]string, error) {
	var out []string
	for _, e := range slices.Backward(executions) {
		if e.Agent != contract.AgentBuilder && e.Agent != contract.AgentRepair || len(out) == maxSaid {
			continue
		}
		text, err := LastWords(ctx, st, e.ID)
		if err != nil {
			return nil, err
		}
		if text == "" {
			continue
		}
		name := e.Step
		if e.Agent == contract.AgentRepair {
			name = "repair"
		}
		out = append(out, name+": "+clean(text, saidBytes))
	}
	slices.Reverse(out)
	return out, nil
}

// LastWords returns what an agent said when it finished, or "" if it has not.
func LastWords(ctx context.Context, st *store.Store, execution int64) (string, error) {
	conversation, err := st.Conversation(ctx, execution)
	if err != nil {
		return "", err
	}
	for _, m := range slices.Backward(conversation) {
		if m.Role != string(model.RoleAssistant) {
			continue
		}
		var answer model.Message
		if err := json.Unmarshal(m.Content, &answer); err != nil {
			return "", fmt.Errorf("read the last response of execution %d: %w", execution, err)
		}
		return FinishedWith(answer), nil
	}
	return "", nil
}

// FinishedWith returns the summary and the obstacle with which a response finishes, or "" if it does
// not.
func FinishedWith(answer model.Message) string {
	for _, c := range answer.ToolCalls {
		var said struct{ Summary, Blocked string }
		if c.Name != tool.Finish || json.Unmarshal([]byte(c.Arguments), &said) != nil {
			continue
		}
		text := said.Summary
		if said.Blocked != "" {
			text += "\nBlocked: " + said.Blocked
		}
		return text
	}
	return ""
}

// outcome describes the last verification.
func outcome(ctx context.Context, st *store.Store, executions []store.Execution) (string, error) {
	var last int64
	for _, e := range executions {
		if e.Phase == contract.PhaseTester && e.Step == "" {
			last = e.ID
		}
	}
	if last == 0 {
		return "", nil
	}
	checks, err := st.Checks(ctx, last)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, c := range checks {
		word := "failed"
		switch {
		case c.Result.Skipped:
			word = "skipped"
		case c.Result.OK:
			word = "passed"
		}
		fmt.Fprintf(&b, "%s %s", c.Result.Check.Name, word)
		if s := c.Result.Summary; s.Ran()+s.Skipped > 0 {
			fmt.Fprintf(&b, ": %d tests passed, %d failed, %d skipped", s.Passed, s.Failed, s.Skipped)
		}
		b.WriteByte('\n')
	}
	return clean(b.String(), checksBytes), nil
}

func told(ctx context.Context, st *store.Store, run int64) ([]string, error) {
	all, err := messages.Of(ctx, st, run)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range all[max(0, len(all)-maxTold):] {
		out = append(out, clean(m.Text, toldBytes))
	}
	return out, nil
}

// change reads the beginning of the patch that a run released, or why it is not known.
func change(ctx context.Context, st *store.Store, files *artifact.Store, run int64) (diff, unknown string, err error) {
	all, err := st.Artifacts(ctx, run)
	if err != nil {
		return "", "", err
	}
	for _, a := range slices.Backward(all) {
		if a.Type != contract.ArtifactPatch || path.Base(a.Name) != "change.patch" || strings.HasPrefix(a.Name, "heal/") {
			continue
		}
		if why := a.Missing(); why != "" {
			return "", "its patch is " + why, nil
		}
		content, err := files.Section(ctx, a.Digest, a.Size)
		if errors.Is(err, artifact.ErrNotFound) {
			return "", "its patch has been deleted", nil
		}
		if err != nil {
			return "", "", err
		}
		defer func() { _ = content.Close() }() // it was only read
		text, err := io.ReadAll(io.LimitReader(content, diffBytes+1))
		return clean(string(text), diffBytes), "", err
	}
	return "", "it has no patch", nil
}

// Text is a part of a description.
type Text struct{ Name, Text string }

// Texts renders descriptions within a limit, the newest run first.
func Texts(all []Work, most int) []Text {
	var out []Text
	add := func(run int64, what, text string) {
		if text = telemetry.Redact(strings.TrimSpace(text)); text == "" || most <= 0 {
			return
		}
		text = fault.Clip(text, most)
		most -= len(text)
		out = append(out, Text{Name: fmt.Sprintf("run %d: %s", run, what), Text: text})
	}
	for _, w := range slices.Backward(all) {
		add(w.RunID, "its goal", w.Goal)
		add(w.RunID, "what its agents said when they finished", strings.Join(w.Said, "\n"))
		add(w.RunID, "messages of people to its agents", strings.Join(w.Told, "\n"))
		add(w.RunID, "result of its verification", w.Outcome)
		later := w.Later
		if w.LaterCut {
			later += "\n(and more)"
		}
		add(w.RunID, "commits that others added after it", later)
		add(w.RunID, "its plan", w.Plan)
		if w.Unknown != "" {
			add(w.RunID, "its change", "Not known: "+w.Unknown+".")
		}
		add(w.RunID, "its change", w.Diff)
	}
	return out
}
