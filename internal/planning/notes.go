// Package planning judges plans by code: what their notes may state, and what is wrong with them. It
// depends on nothing but its arguments.
package planning

import (
	"encoding/json"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/tool"
)

// Seen contains the lines that tools have shown of a repository, by file.
type Seen map[string]map[int]bool

// numberedLine is a line of read_file's result.
var numberedLine = regexp.MustCompile(`(?m)^ *(\d+)\t`)

// foundLine is a line of search's result.
var foundLine = regexp.MustCompile(`(?m)^(.+?):(\d+)[:-]`)

// heading is the first line of a part of a file in ask_brain's result. Lines of files begin with their
// number, so none of them looks like it.
var heading = regexp.MustCompile(`^(\S.*?):\d+-\d+(?: \(.*)?\s*$`)

// SeenIn returns the lines that the results of tool calls in a conversation have shown.
func SeenIn(conversation []model.Message) Seen {
	seen := Seen{}
	calls := map[string]model.ToolCall{}
	for _, m := range conversation {
		for _, c := range m.ToolCalls {
			calls[c.ID] = c
		}
		if m.Role == model.RoleTool {
			seen.add(calls[m.ToolCallID], m.Text)
		}
	}
	return seen
}

// add adds the lines of one result.
func (s Seen) add(call model.ToolCall, result string) {
	switch call.Name {
	case tool.ReadFile:
		var args struct {
			Path string `json:"path"`
		}
		if json.Unmarshal([]byte(call.Arguments), &args) != nil {
			return
		}
		for _, m := range numberedLine.FindAllStringSubmatch(result, -1) {
			s.line(args.Path, m[1])
		}
	case tool.AskBrain:
		s.addExcerpts(result)
	case tool.Search:
		for _, m := range foundLine.FindAllStringSubmatch(result, -1) {
			s.line(m[1], m[2])
		}
	}
}

// addExcerpts adds the lines of numbered parts of files, each after a heading with its place.
func (s Seen) addExcerpts(result string) {
	name := ""
	for line := range strings.Lines(result) {
		if m := numberedLine.FindStringSubmatch(line); m != nil && name != "" {
			s.line(name, m[1])
		} else if m := heading.FindStringSubmatch(line); m != nil {
			name = m[1]
		}
	}
}

func (s Seen) line(name, number string) {
	n, err := strconv.Atoi(number)
	if err != nil {
		return
	}
	name = path.Clean(name)
	if s[name] == nil {
		s[name] = map[int]bool{}
	}
	s[name][n] = true
}

// covers reports whether all lines of a note have been seen.
func (s Seen) covers(n contract.Note) bool {
	lines := s[n.Path]
	for i := n.StartLine; i <= n.EndLine; i++ {
		if !lines[i] {
			return false
		}
	}
	return true
}

// Notes returns the notes that a planner may make, in their order, and those that it may not: a fact
// counts only together with lines that a tool has shown. Facts that are too long are cut.
func Notes(notes []contract.Note, seen Seen) (kept []contract.Note, dropped []contract.DroppedNote) {
	for _, n := range notes {
		n.Path, n.Fact = path.Clean(n.Path), strings.TrimSpace(n.Fact)
		n.EndLine = max(n.EndLine, n.StartLine)
		why := ""
		switch {
		case n.Fact == "":
			why = "it states nothing"
		case n.StartLine < 1 || n.EndLine-n.StartLine >= contract.MaxNoteLines:
			why = "its lines are not a part of a file of at most " + strconv.Itoa(contract.MaxNoteLines) + " lines"
		case !seen.covers(n):
			why = "the planner has not read these lines"
		case len(kept) == contract.MaxNotes:
			why = "there are more than " + strconv.Itoa(contract.MaxNotes) + " notes"
		}
		if why != "" {
			dropped = append(dropped, contract.DroppedNote{Place: fault.Clip(n.Lines(), maxPlace), Why: why})
			continue
		}
		n.Fact = fault.Clip(n.Fact, contract.MaxNoteFact)
		kept = append(kept, n)
	}
	return kept, dropped
}

// maxPlace is the size of a place in the record of a dropped note.
const maxPlace = 200
