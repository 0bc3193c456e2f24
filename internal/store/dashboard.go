package store

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
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
		return nil, dberr.Explain(err, "read what came of %d runs", len(ids))
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
		return nil, dberr.Explain(err, "read what waits for people")
	}
	return rowconv.Convert(rows, func(r db.QuestionsRow) Question {
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
	return int(n), dberr.Explain(err, "count what waits for people")
}

// Projects returns the projects that have runs, at most as many as given.
func (s *Store) Projects(ctx context.Context, most int) ([]string, error) {
	names, err := s.q.Projects(ctx, int32(most))
	return names, dberr.Explain(err, "read the projects")
}

// Phases returns a run's attempts at its phases, in the order in which they began.
func (s *Store) Phases(ctx context.Context, runID int64) ([]PhaseAttempt, error) {
	rows, err := s.q.Phases(ctx, runID)
	return rowconv.Convert(rows, phaseOf), dberr.Explain(err, "read the phases of run %d", runID)
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
	return Counts{Findings: int(row.Findings), Artifacts: int(row.Artifacts)}, dberr.Explain(err, "count what run %d has", runID)
}

// Outputs are what a run's phases last gave, as JSON; nil: nothing yet.
type Outputs struct {
	Planner, Builder, Tester, Releaser json.RawMessage
}

// Outputs returns what a run's phases last gave.
func (s *Store) Outputs(ctx context.Context, runID int64) (Outputs, error) {
	row, err := s.q.RunOutputs(ctx, runID)
	return Outputs{row.PlannerOutput, row.BuilderOutput, row.TesterOutput, row.ReleaserOutput}, dberr.OfRun(err, runID, "read the outputs of run %d", runID)
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
	return rowconv.Convert(rows, func(r db.ModelActivityRow) ModelActivity {
		return ModelActivity{
			Provider: r.Provider, Model: r.Model, Calls: int(r.Calls), Failed: int(r.Failed), UnderWay: int(r.UnderWay),
			Usage: contract.Usage{
				Calls: int(r.Calls), PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens, MicroUSD: r.Micros,
			},
			Latency: time.Duration(r.LatencyMs) * time.Millisecond, LastAt: r.LastAt, LastStatus: r.LastStatus, LastError: r.LastError,
		}
	}), dberr.Explain(err, "read what was asked of models")
}

// CheckRows returns the checks of an execution in the order in which they began,
// without their cases.
func (s *Store) CheckRows(ctx context.Context, executionID int64) ([]Check, error) {
	rows, err := s.q.CheckRows(ctx, executionID)
	if err != nil {
		return nil, dberr.Explain(err, "read the checks of execution %d", executionID)
	}
	checks := make([]Check, len(rows))
	for i, r := range rows {
		result, err := rowconv.Decode[contract.CheckResult](r.Result)
		if err != nil {
			return nil, err
		}
		checks[i] = Check{ExecutionID: r.ExecutionID, Result: result, LogDigest: r.LogDigest, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt}
	}
	return checks, nil
}

// Case is a test case with the check that ran it.
type Case struct {
	contract.TestCase
	CheckID string `json:"check_id"`
}

// CaseFilter selects test cases of one execution.
type CaseFilter struct {
	ExecutionID int64
	Status      contract.TestStatus // empty: any
	Text        string              // in the name, however it is written; empty: any
	From, Most  int                 // how many are left out, and how many are returned at most
}

// Cases returns test cases, what is not green first, and how many match in all.
func (s *Store) Cases(ctx context.Context, f CaseFilter) (cases []Case, matching int, err error) {
	rows, err := s.q.Cases(ctx, db.CasesParams{
		ExecutionID: f.ExecutionID, Status: string(f.Status), Text: rowconv.Text(f.Text), FromRow: int32(f.From), Most: int32(f.Most),
	})
	if err != nil {
		return nil, 0, dberr.Explain(err, "read the test cases of execution %d", f.ExecutionID)
	}
	for _, r := range rows {
		c, err := rowconv.Decode[contract.TestCase](r.Doc)
		if err != nil {
			return nil, 0, err
		}
		cases, matching = append(cases, Case{TestCase: c, CheckID: r.CheckID}), int(r.Matching)
	}
	return cases, matching, nil
}

// CasesNamed returns the outcomes of the test cases with one of these names in
// an execution; of the cases, check, name and status are set.
func (s *Store) CasesNamed(ctx context.Context, executionID int64, names []string) ([]Case, error) {
	rows, err := s.q.CasesNamed(ctx, db.CasesNamedParams{ExecutionID: executionID, Names: names})
	return rowconv.Convert(rows, func(r db.CasesNamedRow) Case {
		return Case{TestCase: contract.TestCase{Name: r.Name, Status: contract.TestStatus(r.Status)}, CheckID: r.CheckID}
	}), dberr.Explain(err, "read test cases of execution %d", executionID)
}

// ArtifactsOfExecution returns the files that one execution of a run left, at
// most as many as given.
func (s *Store) ArtifactsOfExecution(ctx context.Context, runID, executionID int64, most int) ([]contract.Artifact, error) {
	rows, err := s.q.ArtifactsOfExecution(ctx, db.ArtifactsOfExecutionParams{RunID: runID, ExecutionID: &executionID, Most: int32(most)})
	return rowconv.Convert(rows, func(r db.ArtifactsOfExecutionRow) contract.Artifact { return rowconv.Artifact(db.ArtifactsRow(r)) }),
		dberr.Explain(err, "read the artifacts of execution %d", executionID)
}

// Patches returns the patches among a run's artifacts.
func (s *Store) Patches(ctx context.Context, runID int64) ([]contract.Artifact, error) {
	rows, err := s.q.Patches(ctx, runID)
	return rowconv.Convert(rows, func(r db.PatchesRow) contract.Artifact { return rowconv.Artifact(db.ArtifactsRow(r)) }),
		dberr.Explain(err, "read the patches of run %d", runID)
}

// Interventions returns what a run ever asked people beside approvals, in the
// order in which it asked. What kind each was is not among it.
func (s *Store) Interventions(ctx context.Context, runID int64) ([]Intervention, error) {
	rows, err := s.q.Interventions(ctx, runID)
	return rowconv.Convert(rows, func(r db.ManualIntervention) Intervention { return interventionOf(r, "") }),
		dberr.Explain(err, "read the interventions of run %d", runID)
}

// FindingCount is how many findings of a kind a run has.
type FindingCount struct {
	Severity contract.Severity `json:"severity"`
	Category contract.Category `json:"category"`
	CheckID  string            `json:"check_id"`
	Resolved bool              `json:"resolved"`
	N        int               `json:"n"`
}

// FindingCounts counts a run's findings by kind.
func (s *Store) FindingCounts(ctx context.Context, runID int64) ([]FindingCount, error) {
	rows, err := s.q.FindingCounts(ctx, runID)
	return rowconv.Convert(rows, func(r db.FindingCountsRow) FindingCount {
		return FindingCount{contract.Severity(r.Severity), contract.Category(r.Category), r.CheckID, r.Resolved, int(r.N)}
	}), dberr.Explain(err, "count the findings of run %d", runID)
}

// FindingFilter selects findings of one run. Empty fields select all.
type FindingFilter struct {
	RunID      int64
	Severity   contract.Severity
	Category   contract.Category
	CheckID    string
	Resolved   *bool
	From, Most int // how many are left out, and how many are returned at most
}

// FindingsPage returns findings, the open ones first and of those the worst.
func (s *Store) FindingsPage(ctx context.Context, f FindingFilter) ([]Finding, error) {
	rows, err := s.q.FindingsPage(ctx, db.FindingsPageParams{
		RunID: f.RunID, Severity: string(f.Severity), Category: string(f.Category), CheckID: rowconv.Text(f.CheckID), Resolved: f.Resolved,
		FromRow: int32(f.From), Most: int32(f.Most),
	})
	return rowconv.Convert(rows, findingOf), dberr.Explain(err, "read findings of run %d", f.RunID)
}

// Neighbour returns the run of the same project that came before a run; of the
// first one that after it; 0 where there is no other.
func (s *Store) Neighbour(ctx context.Context, runID int64) (int64, error) {
	id, err := s.q.NeighbourRun(ctx, runID)
	return id, dberr.OfRun(err, runID, "look for a run beside run %d", runID)
}
