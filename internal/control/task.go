package control

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/contract"
)

// Limits of a pipeline's task. Its texts may total at most execution.max_goal_bytes.
const (
	maxSubtasks   = 100
	maxConditions = 100 // maximum number of constraints and of success criteria
	maxTaskName   = 100 // maximum bytes of a task's ID, and of a subtask's ID and status
	maxSeconds    = 24 * 60 * 60
)

// complexityWords maps words to complexities. High exceeds 0.8, the default threshold above which
// GAMMA joins.
var complexityWords = map[string]Complexity{"low": 0.3, "medium": 0.6, "high": 0.9}

// Complexity is the difficulty of an objective, from 0 (unknown) to 1. In JSON and YAML, it is a
// number or one of the words low, medium and high.
type Complexity float64

// UnmarshalJSON reads a number or a word.
func (c *Complexity) UnmarshalJSON(raw []byte) error {
	var word string
	if json.Unmarshal(raw, &word) == nil {
		known, ok := complexityWords[word]
		if !ok {
			return wrong("complexity %q is invalid; must be a number from 0 to 1, or low, medium or high", word)
		}
		*c = known
		return nil
	}
	var share float64
	if err := json.Unmarshal(raw, &share); err != nil || share < 0 || share > 1 {
		return wrong("complexity %.40s is invalid; must be a number from 0 to 1, or low, medium or high", raw)
	}
	*c = Complexity(share)
	return nil
}

// Schema describes Complexity for the API.
func (Complexity) Schema(huma.Registry) *huma.Schema {
	least, most := 0.0, 1.0
	return &huma.Schema{
		Description: "a number from 0 (unknown) to 1, or low (0.3), medium (0.6) or high (0.9)",
		OneOf: []*huma.Schema{
			{Type: huma.TypeNumber, Minimum: &least, Maximum: &most},
			{Type: huma.TypeString, Enum: []any{"low", "medium", "high"}},
		},
	}
}

// Task is the task of a pipeline, as written by people.
type Task struct {
	TaskID          string             `json:"task_id,omitempty" maxLength:"100" doc:"task ID used in results; default: generated"`
	Objective       string             `json:"objective,omitempty" doc:"default: the request's objective"`
	Complexity      Complexity         `json:"complexity,omitempty"`
	Subtasks        []contract.Subtask `json:"subtasks,omitempty" maxItems:"100"`
	Constraints     []string           `json:"constraints,omitempty" maxItems:"100"`
	SuccessCriteria []string           `json:"success_criteria,omitempty" maxItems:"100"`
	TimeoutSeconds  int                `json:"timeout_seconds,omitempty" minimum:"0" maximum:"86400" doc:"time limit of the exchange; 0: as configured"`
}

// Check returns an error if a task is invalid, except for its length.
func (t Task) Check() error {
	for _, text := range t.texts() {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return wrong("the task must be valid UTF-8 without NUL bytes")
		}
	}
	switch {
	case len(t.TaskID) > maxTaskName:
		return wrong("task_id is %d bytes long, more than the %d allowed", len(t.TaskID), maxTaskName)
	case len(t.Subtasks) > maxSubtasks:
		return wrong("the task has %d subtasks, more than the %d allowed", len(t.Subtasks), maxSubtasks)
	case len(t.Constraints) > maxConditions, len(t.SuccessCriteria) > maxConditions:
		return wrong("the task has more than %d constraints or success criteria", maxConditions)
	case t.TimeoutSeconds < 0 || t.TimeoutSeconds > maxSeconds:
		return wrong("timeout_seconds is %d; it must be 1 to %d, or omitted", t.TimeoutSeconds, maxSeconds)
	case t.Complexity < 0 || t.Complexity > 1:
		return wrong("complexity is %g; it must be a number from 0 to 1, or low, medium or high", float64(t.Complexity))
	}
	return t.checkSubtasks()
}

func (t Task) checkSubtasks() error {
	known := map[string]bool{}
	for _, s := range t.Subtasks {
		switch {
		case s.ID == "" || len(s.ID) > maxTaskName || len(s.Status) > maxTaskName:
			return wrong("a subtask requires an id; id and status may each be at most %d bytes long", maxTaskName)
		case known[s.ID]:
			return wrong("two subtasks have the id %q", s.ID)
		}
		known[s.ID] = true
	}
	for _, s := range t.Subtasks {
		if i := slices.IndexFunc(s.Dependencies, func(id string) bool { return !known[id] || id == s.ID }); i >= 0 {
			return wrong("subtask %q cannot depend on %q: no other subtask has that id", s.ID, s.Dependencies[i])
		}
	}
	if circle := t.circle(); len(circle) > 0 {
		return wrong("the subtasks %q form a dependency cycle, or depend on one", circle)
	}
	return nil
}

// circle returns the subtasks that can never start, because they are part of a dependency cycle or
// depend on one.
func (t Task) circle() []string {
	var left []string
	waits := map[string]contract.Subtask{}
	for _, s := range t.Subtasks {
		left, waits[s.ID] = append(left, s.ID), s
	}
	for before := -1; before != len(left); {
		before = len(left)
		left = slices.DeleteFunc(left, func(id string) bool {
			free := !slices.ContainsFunc(waits[id].Dependencies, func(d string) bool { _, waiting := waits[d]; return waiting })
			if free {
				delete(waits, id)
			}
			return free
		})
	}
	return left
}

// texts returns all texts in a task.
func (t Task) texts() []string {
	out := slices.Concat([]string{t.TaskID, t.Objective}, t.Constraints, t.SuccessCriteria)
	for _, s := range t.Subtasks {
		out = append(out, s.ID, s.Description, s.Status)
		out = append(out, s.Dependencies...)
	}
	return out
}

// size returns the total number of bytes of its texts.
func (t Task) size() (bytes int) {
	for _, text := range t.texts() {
		bytes += len(text)
	}
	return bytes
}

// resolved returns the task as passed to agents.
func (t Task) resolved() contract.DeliberationTask {
	return contract.DeliberationTask{
		TaskID: t.TaskID, Objective: t.Objective, Complexity: float64(t.Complexity), Subtasks: t.Subtasks,
		Constraints: t.Constraints, SuccessCriteria: t.SuccessCriteria, TimeoutSeconds: t.TimeoutSeconds,
	}
}
