package views

import (
	"context"
	"encoding/json"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// PreparationState is the progress of a run's environment or baseline.
type PreparationState string

// The states of an environment or a baseline.
const (
	PreparationRunning PreparationState = "running"
	PreparationReady   PreparationState = "ready"
	PreparationFailed  PreparationState = "failed"
)

// RunEnvironment is the state of the environment of a run's base commit.
type RunEnvironment struct {
	State      PreparationState  `json:"state" enum:"running,ready,failed"`
	Digest     string            `json:"digest" doc:"environment digest; empty if there is no environment yet"`
	Kept       bool              `json:"kept" doc:"true if the environment was reused from an earlier run"`
	Bytes      int64             `json:"bytes" doc:"unpacked size on disk"`
	Files      int64             `json:"files"`
	DurationMS int64             `json:"duration_ms" doc:"time taken to set up or restore the environment"`
	Summary    string            `json:"summary" doc:"installed tools, such as \"go, node (pnpm)\""`
	Missing    []string          `json:"missing,omitempty" doc:"required tools that are missing on the worker"`
	SetupID    int64             `json:"setup_id,omitempty" doc:"ID of the stored setup that created the environment"`
	Failure    *contract.Failure `json:"failure,omitempty" doc:"why the setup failed; absent if the run ended before the setup finished"`
	Advice     string            `json:"advice,omitempty" doc:"what a person can do about the failure"`
}

// RunBaseline is the results of the project's own checks on a run's base commit.
type RunBaseline struct {
	State       PreparationState `json:"state" enum:"running,ready,failed"`
	Key         string           `json:"key"`
	Passed      int              `json:"passed"`
	Failed      int              `json:"failed"`
	Skipped     int              `json:"skipped"`
	Red         []string         `json:"red,omitempty" doc:"names of the checks that failed"`
	Unavailable []string         `json:"unavailable,omitempty" doc:"checks that could not start, each with its reason"`
	Unjudged    []string         `json:"unjudged,omitempty" doc:"why scans for vulnerabilities and secrets were skipped"`
	DurationMS  int64            `json:"duration_ms" doc:"wall-clock time of all checks"`
	Advice      string           `json:"advice,omitempty" doc:"what a person can do about checks that could not start"`

	Failure *contract.Failure `json:"failure,omitempty" doc:"why the checks could not run; absent if the run ended before the checks finished"`
}

// Preparation is the environment and baseline that a run prepares before its first phase; each is
// nil if the run has none.
type Preparation struct {
	Environment *RunEnvironment `json:"environment,omitempty"`
	Baseline    *RunBaseline    `json:"baseline,omitempty"`
}

// preparationEvents limits how many events of a run's preparation are read. Each
// attempt by a person adds at most five.
const preparationEvents = 1000

// PreparationEvents returns the events of a run's environment and baseline, in order.
func (v *Views) PreparationEvents(ctx context.Context, runID int64) ([]contract.Event, error) {
	rows, err := v.q.EventsOf(ctx, db.EventsOfParams{RunID: runID, Most: preparationEvents, Types: []string{
		string(contract.EventEnvironmentStarted), string(contract.EventEnvironmentReady), string(contract.EventEnvironmentError),
		string(contract.EventBaselineStarted), string(contract.EventBaselineReady),
	}})
	return rowconv.Convert(rows, func(r db.EventsOfRow) contract.Event {
		return contract.Event{RunID: r.RunID, Seq: r.Seq, Type: contract.EventType(r.EventType), Payload: r.Payload, CreatedAt: r.CreatedAt}
	}), dberr.Explain(err, "read the events of run %d", runID)
}

// Preparation returns the state of a run's environment and baseline.
func (v *Views) Preparation(ctx context.Context, run store.Run) (Preparation, error) {
	events, err := v.PreparationEvents(ctx, run.ID)
	return preparationOf(events, run), err
}

func preparationOf(events []contract.Event, run store.Run) Preparation {
	p := PreparationOf(events, run.Status.Terminal())
	if p.Environment != nil {
		p.Environment.SetupID = run.SetupID
	}
	return p
}

// PreparationOf reads events about a run's environment and baseline. The latest events of each kind
// count. If the run has ended, unfinished parts count as failed.
func PreparationOf(events []contract.Event, ended bool) (p Preparation) {
	for _, e := range events {
		switch e.Type {
		case contract.EventEnvironmentStarted:
			p = Preparation{Environment: &RunEnvironment{State: PreparationRunning}}
		case contract.EventEnvironmentReady:
			var payload struct {
				Digest string `json:"environment"`
			}
			p.Environment = &RunEnvironment{}
			readPayload(e, &payload)
			readPayload(e, p.Environment)
			p.Environment.State, p.Environment.Digest = PreparationReady, payload.Digest
		case contract.EventEnvironmentError:
			p.fail(e)
		case contract.EventBaselineStarted:
			p.Baseline = &RunBaseline{State: PreparationRunning}
		case contract.EventBaselineReady:
			var payload struct {
				Summary contract.TestSummary `json:"summary"`
				Key     string               `json:"baseline"`
			}
			p.Baseline = &RunBaseline{}
			readPayload(e, &payload)
			readPayload(e, p.Baseline)
			p.Baseline.State, p.Baseline.Key = PreparationReady, payload.Key
			p.Baseline.Passed, p.Baseline.Failed, p.Baseline.Skipped = payload.Summary.Passed, payload.Summary.Failed, payload.Summary.Skipped
		default: // about something else
		}
	}
	if ended {
		p.end()
	}
	return p
}

// fail reads a failure event. Once the environment is ready, the failure is the baseline's, which
// has no failure event of its own.
func (p *Preparation) fail(e contract.Event) {
	if p.Environment != nil && p.Environment.State == PreparationReady {
		p.Baseline = &RunBaseline{State: PreparationFailed, Failure: failureIn(e)}
		return
	}
	p.Environment = &RunEnvironment{}
	readPayload(e, p.Environment)
	p.Environment.State, p.Environment.Failure = PreparationFailed, failureIn(e)
}

// end marks unfinished parts as failed, because the run has ended.
func (p *Preparation) end() {
	if p.Environment != nil && p.Environment.State == PreparationRunning {
		p.Environment.State = PreparationFailed
	}
	if p.Baseline != nil && p.Baseline.State == PreparationRunning {
		p.Baseline.State = PreparationFailed
	}
}

// failureIn returns the failure that an event reports.
func failureIn(e contract.Event) *contract.Failure {
	var payload struct {
		Code contract.Code `json:"error_code"`
	}
	failure := &contract.Failure{}
	readPayload(e, &payload)
	readPayload(e, failure)
	failure.Code = payload.Code
	return failure
}

// readPayload reads an event's payload; fields of the wrong type are ignored.
func readPayload(e contract.Event, into any) {
	_ = json.Unmarshal(e.Payload, into) // encoded from the same fields
}
