package store

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
)

// Card is what a list shows of a run beside its row.
type Card struct {
	Steps     int                  `json:"steps"`      // of the plan that counts
	StepsDone int                  `json:"steps_done"` // whose latest execution went through
	Tests     contract.TestSummary `json:"tests"`      // of the latest verification
	Heals     int                  `json:"heals"`
	Tokens    int64                `json:"tokens"`    // spent
	MicroUSD  int64                `json:"micro_usd"` // spent, in millionths of a US dollar
}

// Cards returns the cards of runs. A run that does not exist has none.
func (s *Store) Cards(ctx context.Context, ids []int64) (map[int64]Card, error) {
	rows, err := s.q.RunCards(ctx, ids)
	if err != nil {
		return nil, explain(err, "read what came of %d runs", len(ids))
	}
	cards := make(map[int64]Card, len(rows))
	for _, r := range rows {
		cards[r.ID] = Card{
			Steps: int(r.Steps), StepsDone: int(r.StepsDone), Heals: int(r.Heals), Tokens: r.Tokens, MicroUSD: r.Micros,
			Tests: contract.TestSummary{Passed: int(r.Passed), Failed: int(r.Failed), Skipped: int(r.Skipped), Flaky: int(r.Flaky)},
		}
	}
	return cards, nil
}

// Question is what a run asks a person: an approval, which has an id, or help,
// which has the number of its intervention.
type Question struct {
	RunID          int64          `json:"runId"`
	Project        string         `json:"project"`
	GoalTitle      string         `json:"goal_title"`
	Phase          contract.Phase `json:"phase"`
	Kind           string         `json:"kind"` // plan, release, intervention or quota
	ApprovalID     string         `json:"approval_id,omitempty"`
	Intervention   int            `json:"intervention,omitempty"`
	Reason         string         `json:"reason,omitempty"`
	ActionRequired string         `json:"action_required,omitempty"`
	Deadline       *time.Time     `json:"deadline"` // unanswered until then is a no
	Since          time.Time      `json:"since"`
}

// Questions returns what runs ask people, the next deadline first, at most as
// many as given; of one run where its number is not 0.
func (s *Store) Questions(ctx context.Context, runID int64, most int) ([]Question, error) {
	params := db.QuestionsParams{Most: int32(most)}
	if runID != 0 {
		params.RunID = &runID
	}
	rows, err := s.lists.Questions(ctx, params)
	if err != nil {
		return nil, explain(err, "read what waits for people")
	}
	return convert(rows, func(r db.QuestionsRow) Question {
		return Question{
			RunID: r.ID, Project: r.Project, GoalTitle: r.GoalTitle, Phase: contract.Phase(r.Phase), Kind: r.WaitingFor,
			ApprovalID: r.ApprovalID, Intervention: int(r.Intervention), Reason: r.Reason, ActionRequired: r.ActionRequired,
			Deadline: cmp.Or(r.HelpBy, r.ApproveBy), Since: r.Since,
		}
	}), nil
}

// Waiting returns how many runs wait for a person.
func (s *Store) Waiting(ctx context.Context) (int, error) {
	n, err := s.q.CountWaiting(ctx)
	return int(n), explain(err, "count what waits for people")
}

// Projects returns the projects that have runs, at most as many as given.
func (s *Store) Projects(ctx context.Context, most int) ([]string, error) {
	names, err := s.q.Projects(ctx, int32(most))
	return names, explain(err, "read the projects")
}

// Phases returns a run's attempts at its phases, in the order in which they began.
func (s *Store) Phases(ctx context.Context, runID int64) ([]PhaseAttempt, error) {
	rows, err := s.q.Phases(ctx, runID)
	return convert(rows, phaseOf), explain(err, "read the phases of run %d", runID)
}

func phaseOf(p db.Phase) PhaseAttempt {
	return PhaseAttempt{
		Phase: contract.Phase(p.Phase), Attempt: int(p.Attempt), ExecutionID: p.ExecutionID,
		Status: contract.ExecutionStatus(p.Status), StartedAt: p.StartedAt, FinishedAt: p.FinishedAt,
	}
}

// Counts is how much there is of a run.
type Counts struct {
	Findings  int // that are not resolved
	Artifacts int
}

// Counts returns how much there is of a run.
func (s *Store) Counts(ctx context.Context, runID int64) (Counts, error) {
	row, err := s.q.RunCounts(ctx, runID)
	return Counts{Findings: int(row.Findings), Artifacts: int(row.Artifacts)}, explain(err, "count what run %d has", runID)
}

// Outputs are what a run's phases last gave, as JSON; nil: nothing yet.
type Outputs struct {
	Planner, Builder, Tester, Releaser json.RawMessage
}

// Outputs returns what a run's phases last gave.
func (s *Store) Outputs(ctx context.Context, runID int64) (Outputs, error) {
	row, err := s.q.RunOutputs(ctx, runID)
	return Outputs{row.PlannerOutput, row.BuilderOutput, row.TesterOutput, row.ReleaserOutput}, ofRun(err, runID, "read the outputs of run %d", runID)
}

// ModelActivity is what was asked of a model in some time.
type ModelActivity struct {
	Provider, Model         string
	Calls, Failed, UnderWay int
	Usage                   contract.Usage
	Latency                 time.Duration // median of the calls that were answered
	LastAt                  time.Time
	LastStatus              string // reserved, done or failed
	LastError               string // class and code of the last call that failed
}

// ModelActivity returns what was asked of each model since a moment.
func (s *Store) ModelActivity(ctx context.Context, since time.Time) ([]ModelActivity, error) {
	rows, err := s.q.ModelActivity(ctx, since)
	return convert(rows, func(r db.ModelActivityRow) ModelActivity {
		return ModelActivity{
			Provider: r.Provider, Model: r.Model, Calls: int(r.Calls), Failed: int(r.Failed), UnderWay: int(r.UnderWay),
			Usage: contract.Usage{
				Calls: int(r.Calls), PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens, MicroUSD: r.Micros,
			},
			Latency: time.Duration(r.LatencyMs) * time.Millisecond, LastAt: r.LastAt, LastStatus: r.LastStatus, LastError: r.LastError,
		}
	}), explain(err, "read what was asked of models")
}
