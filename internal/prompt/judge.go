package prompt

import "strings"

// JudgeTask is the data for the prompt of a judge, who chooses among attempts at a goal.
type JudgeTask struct {
	GoalTitle       string
	GoalDescription string
	Attempts        []JudgedAttempt
}

// JudgedAttempt is an attempt as its judge sees it.
type JudgedAttempt struct {
	Letter   string
	Criteria []string // of its plan
	Diff     string
}

// List returns the criteria as one text.
func (a JudgedAttempt) List() string { return "- " + strings.Join(a.Criteria, "\n- ") }

// Judge renders the prompt of a judge.
func Judge(task JudgeTask) (Prompt, error) { return render("judge", task) }
