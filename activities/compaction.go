package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// Limits of a context that a heal halves. It is shortened by code, because a model that could not
// read it cannot summarize it either.
const (
	// minContext is the part of a context that always remains, regardless of the length of the rest
	// of the prompt: a quarter of its share.
	minContext = 4
	// cutNote is the number of bytes reserved in the listing or an excerpt for the note about
	// omitted text.
	cutNote = 40
	// minEarlier is the minimum number of bytes shown of an earlier attempt.
	minEarlier = 800
	// shownErrors is the number of most recent errors shown from an earlier attempt.
	shownErrors = 3
	// plannerListing is the size of the listing for a planner that can list files itself: the listing is
	// part of every request.
	plannerListing = 16 << 10
	// earlierName is the name of the fence around the earlier attempt.
	earlierName = "earlier attempt"
)

// shortListing lists as many files as fit, top-level files first.
func shortListing(files []string, most int) string {
	byDepth := slices.Clone(files)
	slices.SortStableFunc(byDepth, func(x, y string) int { return cmp.Compare(strings.Count(x, "/"), strings.Count(y, "/")) })
	size, n := 0, 0
	for ; n < len(byDepth); n++ {
		if size += len(prompt.ShownPath(byDepth[n])) + 1; size > most {
			break
		}
	}
	kept := byDepth[:n]
	slices.Sort(kept)
	text := prompt.FileList(kept)
	if left := len(files) - n; left > 0 {
		text += fmt.Sprintf("\n… and %d more", left)
	}
	return strings.TrimPrefix(text, "\n")
}

// plannerList lists the files for a planner.
func plannerList(files []string, turns int) string {
	if list := prompt.FileList(files); turns <= 1 || len(list) <= plannerListing {
		return list
	}
	return shortListing(files, plannerListing)
}

// lengthOf returns the length of a prompt in a request.
func lengthOf(p prompt.Prompt) int { return len(p.System) + len(p.Task) }

// plannerPrompt renders the planner's task. If its context is halved, the whole request is limited
// to that share of the full one, as far as goal and lessons allow.
func plannerPrompt(task prompt.PlannerTask, files []string, halved int) (prompt.Prompt, error) {
	if halved == 0 {
		return prompt.Planner(task)
	}
	full := task
	full.Lessons = prompt.Lessons{}
	whole, err := prompt.Planner(full)
	if err != nil {
		return whole, err
	}
	bare := task
	bare.Files.Text, bare.Excerpts = "", nil
	fixed, err := prompt.Planner(bare)
	if err != nil {
		return fixed, err
	}
	size := len(task.Files.Text)
	for _, e := range task.Excerpts {
		size += len(e.Text)
	}
	budget := max(lengthOf(whole)>>halved-lengthOf(fixed)-cutNote*(1+len(task.Excerpts)), (size>>halved)/minContext)
	if size > 0 && budget < size {
		if most := budget * len(task.Files.Text) / size; task.Files.Map {
			task.Files.Text = prompt.Beginning(task.Files.Text, most)
		} else {
			task.Files.Text = shortListing(files, most)
		}
		task.Excerpts = slices.Clone(task.Excerpts)
		for i, e := range task.Excerpts {
			task.Excerpts[i].Text = prompt.Beginning(e.Text, budget*len(e.Text)/size)
		}
	}
	return prompt.Planner(task)
}

// builderPrompt renders a step's task. If its context is halved, it is limited to half of the
// conversation that it follows, or to that share of the full prompt if it follows none, as far as
// goal, step and lessons allow.
func (a *Activities) builderPrompt(ctx context.Context, task prompt.BuilderTask, files []string, in contract.OpenStepInput, start contract.Workspace) (prompt.Prompt, error) {
	if in.Lessons.Compact == 0 {
		return prompt.Builder(task)
	}
	full := task
	full.Lessons = prompt.Lessons{}
	whole, err := prompt.Builder(full)
	if err != nil {
		return whole, err
	}
	share := lengthOf(whole) >> in.Lessons.Compact
	var before attempt
	if in.Resume != nil {
		if before, err = a.attemptOf(ctx, in.Record.RunID, in.Resume.Execution); err != nil {
			return whole, err
		}
		share = before.size / 2
	}
	bare := task
	bare.Repository = prompt.Repository{Conventions: task.Conventions}
	if before.started() {
		bare.Earlier = &prompt.Earlier{Kept: resumes(in.Resume, start)}
	}
	fixed, err := prompt.Builder(bare)
	if err != nil {
		return fixed, err
	}
	room := share - lengthOf(fixed) - cutNote
	least := (len(task.Files.Text) >> in.Lessons.Compact) / minContext
	if before.started() {
		told := max(room-least, minEarlier)
		bare.Earlier.Text = before.summary(told)
		room -= len(bare.Earlier.Text)
	}
	most := min(max(room, least), len(task.Files.Text)>>in.Lessons.Compact)
	if bare.Files = task.Files; most < len(task.Files.Text) {
		text := task.Files.Text // of a map, the beginning matters most
		if !task.Files.Map {
			text = prompt.Layout(files, most)
		}
		bare.Files.Text = prompt.Beginning(text, most)
	}
	return prompt.Builder(bare)
}

// resumes reports whether a step continues where an earlier attempt ended. It must start from the
// state in which that attempt began.
func resumes(from *contract.ResumePoint, start contract.Workspace) bool {
	return from != nil && from.From.Tree == start.Tree
}

// attempt is the record of an earlier attempt at a step.
type attempt struct {
	size   int    // of its conversation
	before string // the summary of the attempt before it, as shown to it
	calls  []pastCall
	errors []string // messages to its model about unusable responses
}

// pastCall is a tool call of an earlier attempt.
type pastCall struct {
	turn, index  int
	id, tool     string
	target       string // path or command
	reads        bool
	failed       bool
	result       string
	resultLength int
}

func (t attempt) started() bool { return len(t.calls)+len(t.errors) > 0 || t.before != "" }

// attemptOf reads the record of an execution's attempt.
func (a *Activities) attemptOf(ctx context.Context, runID, execution int64) (attempt, error) {
	var out attempt
	entries, err := a.Store.Transcript(ctx, execution)
	if err != nil {
		return out, err
	}
	done, err := a.Store.ToolCalls(ctx, runID)
	if err != nil {
		return out, err
	}
	for _, e := range entries {
		var m model.Message
		if err := json.Unmarshal(e.Content, &m); err != nil {
			return out, fmt.Errorf("read the conversation of execution %d at turn %d: %w", execution, e.Turn, err)
		}
		out.size += len(m.Text)
		for i, c := range m.ToolCalls {
			out.size += len(c.Name) + len(c.Arguments)
			out.calls = append(out.calls, a.pastCall(e.Turn, i, c, done, execution))
		}
		switch {
		case m.Role == model.RoleTool:
			out.answered(e.Turn, m)
		case m.Role == model.RoleUser && e.Turn == 0: // the task, or a message of a person
			out.before = cmp.Or(out.before, fencedIn(m.Text, earlierName))
		case m.Role == model.RoleUser && !fromPerson(m): // the next attempt gets the messages themselves
			out.errors = append(out.errors, m.Text)
		}
	}
	return out, nil
}

func (a *Activities) pastCall(turn, index int, c model.ToolCall, done []store.ToolCall, execution int64) pastCall {
	def, known := a.Tools.Definition(c.Name)
	out := pastCall{turn: turn, index: index, id: c.ID, tool: shownName(c.Name), reads: !known || def.ReadOnly, failed: true}
	var args struct{ Path, Command, Pattern string }
	if json.Unmarshal([]byte(c.Arguments), &args) == nil {
		out.target = cmp.Or(args.Path, args.Command, args.Pattern)
	}
	for _, d := range done {
		if d.ExecutionID == execution && d.Turn == turn && d.Index == index {
			out.failed = !d.Outcome.OK
		}
	}
	return out
}

// answered records the result of a call.
func (t *attempt) answered(turn int, m model.Message) {
	for i := range t.calls {
		if c := &t.calls[i]; c.turn == turn && c.id == m.ToolCallID {
			c.result, c.resultLength = m.Text, len(m.Text)
		}
	}
}

// fencedIn returns the text inside a fence of a prompt, or "" if there is none.
func fencedIn(text, name string) string {
	_, rest, found := strings.Cut(text, "<untrusted name=\""+name+"\">\n")
	if !found {
		return ""
	}
	inside, _, _ := strings.Cut(rest, "\n</untrusted>")
	return inside
}

// summary summarizes an attempt in at most most bytes: the files that it read and changed, its most
// recent errors, and its calls, the last ones with the beginnings of their results, older ones with
// a note instead.
func (t attempt) summary(most int) string {
	const parts = 6 // names, errors and an earlier summary get one part each
	var b strings.Builder
	part := func(title, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%s: %s\n", title, clipped(text, most/parts))
		}
	}
	part("Files changed", t.names(false))
	part("Files read", t.names(true))
	part("Most recent errors", t.lastErrors())
	part("Before that", t.before)
	b.WriteString("Calls:\n")
	lines, left := []string{}, most-b.Len()
	for i := len(t.calls) - 1; i >= 0; i-- {
		c := t.calls[i]
		line := fmt.Sprintf("turn %d: %s %s", c.turn, c.tool, clipped(c.target, most/parts))
		marked := fmt.Sprintf("%s [%d-byte result omitted]", line, c.resultLength)
		if shown := clipped(c.result, most/parts); c.result != "" && len(line)+len(shown)+3 <= left/2 {
			marked = line + " → " + shown
		}
		if len(marked)+1 > left {
			lines = append(lines, fmt.Sprintf("[%d earlier calls omitted]", i+1))
			break
		}
		left -= len(marked) + 1
		lines = append(lines, marked)
	}
	slices.Reverse(lines)
	b.WriteString(strings.Join(lines, "\n"))
	return b.String()
}

// names lists the files that successful calls have read, or changed.
func (t attempt) names(read bool) string {
	var out []string
	for _, c := range slices.Backward(t.calls) { // a cut keeps the last ones
		if c.reads == read && !c.failed && c.target != "" && !slices.Contains(out, c.target) {
			out = append(out, c.target)
		}
	}
	return strings.Join(out, ", ")
}

func (t attempt) lastErrors() string {
	var out []string
	for _, c := range t.calls {
		if c.failed && c.result != "" {
			out = append(out, fmt.Sprintf("%s %s: %s", c.tool, c.target, c.result))
		}
	}
	out = append(out, t.errors...)
	return strings.Join(out[max(0, len(out)-shownErrors):], "\n")
}
