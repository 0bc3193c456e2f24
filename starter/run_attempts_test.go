package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store/attempts"
)

// estimator is a backend that estimates, as often as it is asked.
type estimator struct {
	backend.Backend
	attempts, asked int
}

func (e *estimator) Estimate(context.Context, control.Creation) (control.Estimate, error) {
	e.asked++
	return control.Estimate{Attempts: e.attempts, Text: "3 attempts will probably cost a lot", Notes: []string{"the tree is dirty"}}, nil
}

func TestSeveralAttemptsAreConfirmedOnATerminalAfterTheirEstimate(t *testing.T) {
	t.Parallel()
	three := creation{Creation: control.Creation{Attempts: 3}}
	sure := three
	sure.yes = true
	for name, c := range map[string]struct {
		creation creation
		answer   string
		terminal bool
		asked    bool // the question
		refused  bool
	}{
		"yes":              {creation: three, answer: "yes\n", terminal: true, asked: true},
		"y":                {creation: three, answer: "Y\n", terminal: true, asked: true},
		"no":               {creation: three, answer: "n\n", terminal: true, asked: true, refused: true},
		"only return":      {creation: three, answer: "\n", terminal: true, asked: true, refused: true},
		"no answer":        {creation: three, terminal: true, asked: true, refused: true},
		"with --yes":       {creation: sure, terminal: true},
		"without terminal": {creation: three},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			a := newApp(strings.NewReader(c.answer), &out, &errs)
			a.asks = c.terminal
			e := &estimator{attempts: 3}
			shown, err := a.confirmAttempts(t.Context(), e, c.creation)
			require.Equal(t, []string{"the tree is dirty", "3 attempts will probably cost a lot"}, shown)
			require.Contains(t, errs.String(), "Note: 3 attempts will probably cost a lot\n")
			require.Equal(t, c.asked, strings.Contains(errs.String(), "Create 3 attempts? [y/N] "))
			require.Empty(t, out.String(), "the output belongs to the result")
			if c.refused {
				require.Equal(t, ended{exitInput}, err)
				require.Contains(t, errs.String(), "Nothing was created.")
				return
			}
			require.NoError(t, err)
		})
	}
}

func TestAnInterruptedConfirmationIsANo(t *testing.T) {
	t.Parallel()
	a := newApp(neverRead{t.Context()}, &bytes.Buffer{}, &bytes.Buffer{})
	a.asks = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	yes, err := a.confirm(ctx, "Sure?")
	require.False(t, yes)
	require.Equal(t, ended{exitStopped}, err)
}

// neverRead is an input whose person does not answer while the context lasts.
type neverRead struct{ ctx context.Context }

func (n neverRead) Read([]byte) (int, error) {
	<-n.ctx.Done()
	return 0, n.ctx.Err()
}

func TestASingleRunIsNotEstimatedBeforeItsCreation(t *testing.T) {
	t.Parallel()
	p := empty(t)
	for name, c := range map[string]control.Creation{"by default": {}, "by the request": {Attempts: 1}, "only a plan": {Attempts: 2, PlanOnly: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var errs bytes.Buffer
			a := newApp(strings.NewReader(""), &bytes.Buffer{}, &errs)
			a.env, a.dataDirFlag = p.env, p.dir
			e := &estimator{attempts: 1}
			shown, err := a.confirmAttempts(t.Context(), e, creation{Creation: c})
			require.NoError(t, err)
			require.Empty(t, shown)
			require.Zero(t, e.asked)
			require.Empty(t, errs.String())
		})
	}
}

func TestAnEstimateIsPrintedWithoutCreatingARun(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	a := newApp(strings.NewReader(""), &out, &errs)
	e := &estimator{attempts: 3} // has no Create
	require.NoError(t, a.printEstimate(t.Context(), e, creation{}))
	require.Equal(t, "Estimate: 3 attempts will probably cost a lot\n", out.String())
	require.Equal(t, "Note: the tree is dirty\n", errs.String())
	out.Reset()
	a.json = true
	require.NoError(t, a.printEstimate(t.Context(), e, creation{}))
	require.Contains(t, out.String(), `"attempts": 3`)
}

func TestAFailedWinnerIsShownWithTheAttemptsThatCanReplaceIt(t *testing.T) {
	t.Parallel()
	at := time.Now()
	g := attempts.Group{
		Winner: 7, Rule: contract.RuleSize, DecidedAt: &at, Instead: []int64{9, 8},
		Attempts: []attempts.Attempt{{Number: 1, RunID: 7, Chosen: true, Status: contract.StatusFailed}, {Number: 2, RunID: 8}, {Number: 3, RunID: 9}},
	}
	var out bytes.Buffer
	writeAttempts(&out, g)
	require.Contains(t, out.String(), "to try its release again: rgpt run resume 7\n  to test and release the next best attempt instead: rgpt run resume 9\n  to test and release another attempt that passed: rgpt run resume 8\n")
	g.Attempts[0].Status = contract.StatusDone
	out.Reset()
	writeAttempts(&out, g)
	require.NotContains(t, out.String(), "resume")
}
