package prompt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// MemberTask is the data for the first prompt of a deliberation's member.
type MemberTask struct {
	Member       contract.Member
	Moves        []contract.MoveKind // that it has
	MovesPerTurn int
	TextLimit    int
	Subtasks     int // maximum number of GAMMA's subtasks
	Described    int // maximum bytes of one description
	Together     int // maximum bytes of all subtasks, as JSON
	Task         contract.DeliberationTask
	Attempt      int
	Inherited    *contract.Inherited    // of a recovery
	Plan         bool                   // the consensus is to be a plan
	EarlierWork  []Excerpt              // of the runs before on the branch; nil if none is continued
	Lessons      Lessons                // of failed attempts at the plan
	Input        *contract.PlannerInput // what a person answered to the planner; nil: nothing
}

// MemberNews is the data for a member's turn. The Head of each text holds the complete text.
type MemberNews struct {
	Member   contract.Member
	Turn     contract.Turn
	Files    Overview // empty if no repository is concerned
	Excerpts []Excerpt
}

// Member renders the prompt of a member of a deliberation.
func Member(task MemberTask) (Prompt, error) {
	version, err := MemberVersion(task.Member)
	if err != nil {
		return Prompt{}, err
	}
	name := string(task.Member.Agent())
	system, err := executed(name+".md.tmpl", task)
	if err != nil {
		return Prompt{}, err
	}
	user, err := executed("member_task.md.tmpl", task)
	return Prompt{Name: name, Version: version, System: system, Task: user}, err
}

// MemberVersion returns the version of all templates for a member.
func MemberVersion(m contract.Member) (string, error) {
	if !m.Valid() {
		return "", fmt.Errorf("member %q has no prompt", m)
	}
	name := string(m.Agent())
	hash := sha256.New()
	for _, file := range []string{name + ".md.tmpl", "member_moves.md.tmpl", "member_task.md.tmpl", "member_news.md.tmpl", "repository.md.tmpl", "earlier_work.md.tmpl", "lessons.md.tmpl"} {
		text, err := files.ReadFile("templates/" + file)
		if err != nil {
			return "", fmt.Errorf("read the prompt template %s: %w", file, err)
		}
		fmt.Fprintf(hash, "%d:%s", len(text), text)
	}
	return name + "@" + hex.EncodeToString(hash.Sum(nil))[:12], nil
}

// News renders the news for a member's turn.
func News(news MemberNews) (string, error) { return executed("member_news.md.tmpl", news) }

// Agreement renders a deliberation's consensus for the planner.
func Agreement(consensus string) (string, error) { return executed("agreement", consensus) }

func executed(name string, data any) (string, error) {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("render the prompt %s: %w", name, err)
	}
	return b.String(), nil
}
