// Package attempts stores several attempts at the same goal: ordinary runs of one group, of which one
// is chosen and released.
package attempts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/runs/choice"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// maxReason is the maximum size in bytes of the reason of a choice that is stored.
const maxReason = 2000

// Group is a group of attempts from its rows.
type Group struct {
	ID        int64                     `json:"group"`
	Tenant    string                    `json:"tenant"`
	Project   string                    `json:"project"`
	Settings  contract.AttemptsSettings `json:"settings"`
	Estimate  *Estimate                 `json:"estimate,omitempty"` // what all attempts will probably cost
	CreatedAt time.Time                 `json:"created_at"`
	StoppedBy string                    `json:"stopped_by,omitempty"`
	StoppedAt *time.Time                `json:"stopped_at,omitempty"`
	DecidedAt *time.Time                `json:"decided_at,omitempty"` // absent: the choice was not made yet
	Winner    int64                     `json:"winner,omitempty" doc:"run that was chosen; absent: none"`
	Rule      string                    `json:"rule,omitempty" enum:"only,findings,same,size,judge,none,stopped" doc:"what decided"`
	Reason    string                    `json:"reason,omitempty"`
	JudgeRun  int64                     `json:"judge_run,omitempty" doc:"run that the judge's call is recorded under; absent: none was made"`
	Attempts  []Attempt                 `json:"attempts"`
	Instead   []int64                   `json:"instead,omitempty" doc:"runs that passed and that a person can release instead (resume), the best first, if the chosen run ended without being released"`
}

// Estimate is what attempts will probably cost together, and how long they will take.
type Estimate struct {
	MicroUSD *int64 `json:"micro_usd,omitempty" doc:"millionths of a US dollar; absent: too little is known"`
	Known    int    `json:"known" doc:"number of attempts that it includes"`
	Samples  int    `json:"samples" doc:"smallest number of earlier runs or steps that the estimate of an attempt is based on"`
	Unpriced int    `json:"unpriced,omitempty" doc:"number of attempts whose cost is not estimated because the price of their model is unknown"`

	DurationMS  *int64 `json:"duration_ms,omitempty" doc:"milliseconds from the start of the first attempt to the end of the last one, if none of them has to wait for other runs or for people; absent: too little is known about some of them"`
	TimeSamples int    `json:"time_samples,omitempty" doc:"smallest number of earlier runs that the time of an attempt is based on"`
}

// Attempt is one attempt of a group.
type Attempt struct {
	Number     int                  `json:"number"`
	RunID      int64                `json:"runId"`
	Goal       string               `json:"goal_title"`
	Status     contract.Status      `json:"status"`
	Phase      contract.Phase       `json:"phase"`
	WaitingFor string               `json:"waiting_for,omitempty"`
	Failure    *contract.Failure    `json:"failure,omitempty"`
	Model      contract.ModelChoice `json:"model" doc:"of the builder"`
	Branch     string               `json:"branch,omitempty"`
	HeldAt     *time.Time           `json:"held_at,omitempty" doc:"when it passed its verification"`
	Workspace  *contract.Workspace  `json:"-"`
	Files      int                  `json:"files" doc:"number of changed files"`
	Lines      int                  `json:"lines" doc:"number of added and deleted lines, without those of tests"`
	TestLines  int                  `json:"test_lines" doc:"number of added and deleted lines of tests"`
	Major      int                  `json:"major" doc:"number of major findings"`
	Medium     int                  `json:"medium" doc:"number of medium findings"`
	Tokens     int64                `json:"tokens"`
	MicroUSD   int64                `json:"micro_usd"`
	Estimated  bool                 `json:"estimated_price,omitempty" doc:"some of the cost is of models without a known price"`
	StartedAt  *time.Time           `json:"started_at,omitempty"`
	FinishedAt *time.Time           `json:"finished_at,omitempty"`
	Chosen     bool                 `json:"chosen"`
	WorkflowID string               `json:"-"`
}

// Passed reports whether the attempt has passed its verification and can be chosen now.
func (a Attempt) Passed() bool { return a.HeldAt != nil && a.WaitingFor == contract.WaitsForChoice }

// Clean reports whether the verification found nothing to warn of.
func (a Attempt) Clean() bool { return a.Major == 0 && a.Medium == 0 }

// New is a group to be created: its runs are the same goal's, in the order of their numbers.
type New struct {
	Tenant   string
	Project  string
	Settings contract.AttemptsSettings
	Estimate *Estimate
	Runs     []store.NewRun // only the first has an idempotency key
}

// Create stores a group with its runs, all or nothing. If the idempotency key of the first run was used
// before, it returns that run's group and false, or a HUMAN_ERROR with store.CodeConflict if the request
// was different.
func Create(ctx context.Context, st *store.Store, n New) (Group, bool, error) {
	settings, err := rowconv.Encode(n.Settings)
	if err != nil {
		return Group{}, false, err
	}
	var estimate json.RawMessage
	if n.Estimate != nil {
		if estimate, err = rowconv.Encode(n.Estimate); err != nil {
			return Group{}, false, err
		}
	}
	var id int64
	err = st.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if id, err = q.CreateAttemptGroup(ctx, db.CreateAttemptGroupParams{Tenant: n.Tenant, Project: rowconv.Text(n.Project), Settings: settings, Estimate: estimate}); err != nil {
			return err
		}
		for i, r := range n.Runs {
			r.Settings.Attempt = &contract.Attempt{Group: id, Number: i + 1, Of: len(n.Runs)}
			r.Settings = inGroup(r.Settings, id)
			run, err := st.CreateRunIn(ctx, tx, r)
			if err != nil {
				return err
			}
			if err := q.AddAttempt(ctx, db.AddAttemptParams{GroupID: id, Number: int32(i + 1), RunID: run}); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, pgx.ErrNoRows) && n.Runs[0].IdempotencyKey != "" { // created by the same request before
		first, err := st.RunByKey(ctx, n.Tenant, n.Runs[0].IdempotencyKey, n.Runs[0].RequestDigest)
		if err != nil {
			return Group{}, false, err
		}
		if first.Settings.Attempt == nil {
			return Group{}, false, fault.New(contract.ClassHuman, store.CodeConflict,
				"the idempotency key %q was already used for a single run, %d; use a new key", n.Runs[0].IdempotencyKey, first.ID)
		}
		g, err := Read(ctx, st, first.Settings.Attempt.Group)
		return g, false, err
	}
	if err != nil {
		return Group{}, false, dberr.Explain(err, "create %d attempts", len(n.Runs))
	}
	g, err := Read(ctx, st, id)
	return g, true, err
}

// inGroup lets the calls of a run count for the budget of its group as well.
func inGroup(s contract.Settings, group int64) contract.Settings {
	s.RunBudget.Attempts = group
	if s.Deliberation != nil {
		d := *s.Deliberation
		d.Budget.Attempts = group
		s.Deliberation = &d
	}
	s.Cache = nil // attempts that get each other's responses would all be the same
	return s
}

// Read returns a group, or store.ErrNotFound.
func Read(ctx context.Context, st *store.Store, id int64) (Group, error) {
	row, err := st.Queries().GetAttemptGroup(ctx, id)
	if err != nil {
		return Group{}, dberr.Or(err, dberr.NotFound("no group of attempts %d exists", id), "read the group of attempts %d", id)
	}
	g, err := groupOf(row)
	if err != nil {
		return g, err
	}
	rows, err := st.Queries().AttemptsOfGroup(ctx, id)
	if err != nil {
		return g, dberr.Explain(err, "read the attempts of group %d", id)
	}
	g.Attempts, err = rowconv.ConvertAll(rows, func(r db.AttemptsOfGroupRow) (Attempt, error) { return attemptOf(r, g.Winner) })
	g.Instead = g.instead()
	return g, err
}

// instead returns the runs that passed and were not chosen, the best first, if the chosen one ended
// without being released, and no other one is being released or was.
func (g Group) instead() []int64 {
	var others []choice.Candidate
	for _, a := range g.Attempts {
		switch {
		case a.Chosen && (!a.Status.Terminal() || a.Status == contract.StatusDone):
			return nil
		case a.Chosen:
		case a.HeldAt != nil && (!a.Status.Terminal() || a.Status == contract.StatusDone): // a person has resumed it
			return nil
		case a.HeldAt != nil && a.Failure != nil && a.Failure.Code == contract.CodeNotChosen:
			others = append(others, choice.Candidate{Number: a.Number, RunID: a.RunID, Major: a.Major, Medium: a.Medium, Lines: a.Lines})
		}
	}
	if g.Winner == 0 {
		return nil
	}
	slices.SortFunc(others, choice.Compare)
	return rowconv.Convert(others, func(c choice.Candidate) int64 { return c.RunID })
}

func groupOf(row db.OrchestratorAttemptGroup) (Group, error) {
	g := Group{
		ID: row.ID, Tenant: row.Tenant, Project: row.Project, CreatedAt: row.CreatedAt, StoppedBy: row.StoppedBy, StoppedAt: row.StoppedAt,
		DecidedAt: row.DecidedAt, Winner: rowconv.Deref(row.Winner), Rule: row.Rule, Reason: row.Reason, JudgeRun: rowconv.Deref(row.JudgeRun),
	}
	var err error
	if g.Settings, err = rowconv.Decode[contract.AttemptsSettings](row.Settings); err != nil {
		return g, err
	}
	g.Settings.Budget.Attempts = g.ID
	if len(row.Estimate) > 0 {
		e, err := rowconv.Decode[Estimate](row.Estimate)
		if err != nil {
			return g, err
		}
		g.Estimate = &e
	}
	return g, nil
}

func attemptOf(r db.AttemptsOfGroupRow, winner int64) (Attempt, error) {
	a := Attempt{
		Number: int(r.Number), RunID: r.RunID, Goal: r.GoalTitle, Status: contract.Status(r.Status), Phase: contract.Phase(r.Phase), WaitingFor: r.WaitingFor,
		Failure: rowconv.Failure(r.ErrorClass, r.ErrorCode, r.ErrorMessage, ""), Branch: r.ReleaseBranch, HeldAt: r.HeldAt,
		Files: int(r.Files), Lines: int(r.Lines), TestLines: int(r.TestLines), Major: int(r.Major), Medium: int(r.Medium),
		Tokens: r.Tokens, MicroUSD: r.MicroUsd, Estimated: r.PriceEstimated, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
		Chosen: r.RunID == winner, WorkflowID: r.WorkflowID,
	}
	settings, err := rowconv.Decode[contract.Settings](r.Settings)
	if err != nil {
		return a, err
	}
	a.Model = settings.Models[contract.AgentBuilder]
	if len(r.Workspace) > 0 {
		ws, err := rowconv.Decode[contract.Workspace](r.Workspace)
		if err != nil {
			return a, err
		}
		a.Workspace = &ws
	}
	return a, nil
}

// Held is what an attempt consists of when it has passed its verification.
type Held struct {
	RunID     int64
	Workspace contract.Workspace
	Files     int
	Lines     int
	TestLines int
	Major     int
	Medium    int
}

// Hold stores what an attempt consists of that waits for the choice. A repeat replaces it.
func Hold(ctx context.Context, st *store.Store, h Held) error {
	ws, err := rowconv.Encode(h.Workspace)
	if err != nil {
		return err
	}
	n, err := st.Queries().HoldAttempt(ctx, db.HoldAttemptParams{
		RunID: h.RunID, Workspace: ws, Files: int32(h.Files), Lines: int32(h.Lines), TestLines: int32(h.TestLines), Major: int32(h.Major), Medium: int32(h.Medium),
	})
	if err == nil && n == 0 {
		return dberr.NotFound("run %d is not one of several attempts", h.RunID)
	}
	return dberr.Explain(err, "store what attempt %d consists of", h.RunID)
}

// Decide stores the choice of a group once: a later one changes nothing. A group that a person has
// stopped chooses no attempt, whatever the decision. It returns the choice that counts.
func Decide(ctx context.Context, st *store.Store, d contract.AttemptsDecision) (contract.AttemptsDecision, error) {
	fresh := false
	err := st.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		row, err := q.LockAttemptGroup(ctx, d.Group)
		if err != nil {
			return err
		}
		if row.DecidedAt != nil {
			d.Winner, d.Rule, d.Reason, d.JudgeRun = rowconv.Deref(row.Winner), row.Rule, row.Reason, rowconv.Deref(row.JudgeRun)
			return nil
		}
		if row.StoppedAt != nil {
			d.Winner, d.Rule, d.Reason = 0, contract.RuleStopped, "stopped by "+row.StoppedBy
		}
		d.Reason = fault.Clip(rowconv.Text(telemetry.Redact(d.Reason)), maxReason)
		fresh = true
		if err := q.DecideAttempts(ctx, db.DecideAttemptsParams{ID: d.Group, Winner: optional(d.Winner), Rule: d.Rule, Reason: d.Reason, JudgeRun: optional(d.JudgeRun)}); err != nil {
			return err
		}
		return q.TellEndedAttempts(ctx, db.TellEndedAttemptsParams{GroupID: d.Group, Everyone: d.Winner == 0})
	})
	if err == nil && fresh {
		telemetry.CountChoice(d.Rule)
	}
	return d, dberr.Or(err, dberr.NotFound("no group of attempts %d exists", d.Group), "store the choice of group %d", d.Group)
}

func optional(id int64) *int64 {
	if id == 0 {
		return nil
	}
	return &id
}

// ChoiceFor returns the choice of a group as one of its attempts sees it. workflowRun identifies the
// workflow run that asks: an attempt that learned that another one was chosen, and then is resumed by a
// person, asks with another, and is released.
func ChoiceFor(ctx context.Context, st *store.Store, group, run int64, workflowRun string) (contract.Choice, error) {
	var out contract.Choice
	err := st.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		row, err := q.LockAttemptGroup(ctx, group)
		if err != nil || row.DecidedAt == nil {
			return err
		}
		out = contract.Choice{Made: true, Winner: rowconv.Deref(row.Winner), Rule: row.Rule, Reason: row.Reason}
		if out.Winner == run {
			out.Chosen = true
			return nil
		}
		told, err := q.AttemptToldTo(ctx, run)
		if err != nil {
			return err
		}
		if told != "" && told != workflowRun {
			out.Chosen, out.Reason = true, "a person resumed it after the choice"
			return nil
		}
		return q.TellAttempt(ctx, db.TellAttemptParams{RunID: run, ToldTo: workflowRun})
	})
	return out, dberr.Or(err, dberr.NotFound("run %d is not an attempt of group %d", run, group), "read the choice of group %d", group)
}

// Stop records that a person stopped all attempts of a group. It reports false if the choice was made
// before.
func Stop(ctx context.Context, st *store.Store, group int64, by string) (bool, error) {
	n, err := st.Queries().StopAttempts(ctx, db.StopAttemptsParams{ID: group, StoppedBy: rowconv.Text(by)})
	return n > 0, dberr.Explain(err, "stop the attempts of group %d", group)
}

// State returns how far the attempts of a group are.
func (g Group) State() contract.AttemptsState {
	s := contract.AttemptsState{Decided: g.DecidedAt != nil, Winner: g.Winner, Rule: g.Rule, Stopped: g.StoppedAt != nil, Ended: true, Ready: true}
	first := false
	for _, a := range g.Attempts {
		s.Ready = s.Ready && (a.Passed() || a.Status.Terminal()) // and none of them is paused
		s.Ended = s.Ended && a.Status.Terminal()
		first = first || a.Passed() && a.Clean()
	}
	paused := slices.ContainsFunc(g.Attempts, func(a Attempt) bool { return a.Status == contract.StatusPaused })
	s.Ready = s.Ready || g.Settings.StopAtFirst && first && !paused
	return s
}

// Usage returns what the attempts have used so far, with the judge.
func (g Group) Usage() (tokens, microUSD int64, estimated bool) {
	for _, a := range g.Attempts {
		tokens, microUSD, estimated = tokens+a.Tokens, microUSD+a.MicroUSD, estimated || a.Estimated
	}
	return tokens, microUSD, estimated
}

// Past is what earlier runs of a project cost and took: their number and medians.
type Past struct {
	Runs             int
	MicroUSD         float64
	PromptTokens     float64
	CompletionTokens float64
	Timed            int // runs whose time is known
	Seconds          float64
}

// maxPast is the number of newest earlier runs that estimates consider.
const maxPast = 50

// Earlier returns what the newest released runs of a project cost and took: those with a builder model,
// and those with any. Waits between the phases of a run do not count.
func Earlier(ctx context.Context, st *store.Store, tenant, project string, builder contract.ModelChoice) (same, every Past, err error) {
	read := func(m contract.ModelChoice) (Past, error) {
		r, err := st.Queries().EarlierRuns(ctx, db.EarlierRunsParams{Tenant: tenant, Project: rowconv.Text(project), Provider: m.Provider, Model: m.Model, Most: maxPast})
		return Past{
			Runs: int(r.Runs), MicroUSD: r.MicroUsd, PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens,
			Timed: int(r.Timed), Seconds: r.Seconds,
		}, dberr.Explain(err, "read what earlier runs cost")
	}
	if same, err = read(builder); err != nil {
		return same, every, fmt.Errorf("of the same model: %w", err)
	}
	every, err = read(contract.ModelChoice{})
	return same, every, err
}
