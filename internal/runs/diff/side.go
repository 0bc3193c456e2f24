// Package diff finds the differences and regressions between two runs, or between two attempts of
// one run.
//
// Load reads a side from the database and the artifact store; Compare is a pure
// function of two sides. Neither needs the repository, a workspace or a worker, so old
// runs can be compared as long as their rows and artifacts are kept.
package diff

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// Ref identifies a side: a run in its current state, or in its state at the end of an attempt of a
// phase.
type Ref struct {
	Run     int64
	Attempt int            // 0: the run as it is now
	Phase   contract.Phase // whose attempts are counted; empty: the tester's
}

// ParseRef reads RUN[@ATTEMPT]: 42, #42 and run-42 are the run in its current state, 42@2 is the
// run after the second attempt of its tester.
func ParseRef(text string) (Ref, error) {
	run, attempt, hasAttempt := strings.Cut(text, "@")
	digits := strings.TrimPrefix(strings.TrimPrefix(run, "#"), "run-")
	id, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || id <= 0 {
		return Ref{}, fmt.Errorf("%q is not a run; expected a number such as 42, or 42@2 for the second attempt of run 42", text)
	}
	ref := Ref{Run: id}
	if !hasAttempt {
		return ref, nil
	}
	if ref.Attempt, err = strconv.Atoi(attempt); err != nil || ref.Attempt <= 0 {
		return Ref{}, fmt.Errorf("%q is not an attempt; attempts are numbered from 1, as in 42@2", text)
	}
	return ref, nil
}

// String returns the reference in the format that ParseRef accepts.
func (r Ref) String() string {
	if r.Attempt == 0 {
		return strconv.FormatInt(r.Run, 10)
	}
	return fmt.Sprintf("%d@%d", r.Run, r.Attempt)
}

// Side contains all data of one run or attempt that a comparison uses. Costs, times and heals of an
// attempt include only those since the previous attempt.
type Side struct {
	Ref      Ref
	Goal     string
	Status   string // of the run, or of the attempt's execution
	Failure  *contract.Failure
	Base     string // commit that the run started from
	Repo     string
	Plan     *contract.Plan // nil: none is recorded
	Code     Code
	Tester   *store.Execution // execution of the checks; nil: nothing was tested
	Checks   []store.Check
	Findings []store.Finding
	Phases   []store.Execution // of whole phases, without their steps
	Heals    []store.HealEvent
	Models   []views.ModelUsage
	Usage    contract.Usage
	Notes    []string // remarks about the origin of the data
}

// Code is the final content of a side, as a patch against its base.
type Code struct {
	Tree  string // git tree ID; empty: no code is recorded
	Patch []byte // from Base to Tree; empty if they are the same
	Why   string // why Patch is missing although there is a Tree, or why there is no Tree
}

// known reports whether the code can be compared file by file.
func (c Code) known() bool { return c.Tree != "" && c.Why == "" }

// ended reports whether the side's tests are complete.
func (s Side) ended() bool { return s.Tester != nil && s.Tester.FinishedAt != nil }

// over reports whether this side is final.
func (s Side) over() bool { return rank(s.Status) >= 0 }

// rank orders the final states of runs and executions from good to bad. It is negative for other
// states.
func rank(status string) int {
	switch status {
	case string(contract.StatusDone), string(contract.ExecutionCompleted):
		return 0
	case string(contract.StatusCancelled): // for runs and executions
		return 1
	case string(contract.StatusFailed):
		return 2
	default:
		return -1
	}
}

// took returns the total duration of the side's attempts of a phase, and whether there were any and
// all have ended.
func (s Side) took(p contract.Phase) (total time.Duration, ended bool) {
	for _, e := range s.Phases {
		if e.Phase != p {
			continue
		}
		if e.FinishedAt == nil {
			return total, false
		}
		total += e.FinishedAt.Sub(e.StartedAt)
		ended = true
	}
	return total, ended
}
