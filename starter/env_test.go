package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/harness"
)

var madeDigest = strings.Repeat("3f2a9c1b", 8)

// withEnvironment is a run that has an environment and a baseline.
func withEnvironment(tb testing.TB, p *testEnv) int64 {
	tb.Helper()
	ctx := tb.Context()
	run, _, err := p.CreateRun(ctx, store.NewRun{Project: "app", GoalTitle: "Set up app", Settings: contract.Settings{
		PrepareOnly: true, Repo: contract.Repo{URL: "/repos/app", Base: "c0ffeec0ffeec0ffee", Tree: "beef", Branch: "main"},
	}})
	require.NoError(tb, err)
	recipe, err := environment.Recipe{
		Source: environment.SourceDetected, Projects: []environment.Project{{Dir: ".", Ecosystem: "node", Manager: "pnpm", Manifest: "package.json"}},
		Setup: []environment.Command{{Dir: "web", Shell: "pnpm install \x1b[31m"}}, Hosts: []string{"registry.npmjs.org"}, Variables: map[string]string{"A": "b"},
		Missing: []environment.MissingTool{{Name: "node", Wanted: ">=22", Have: "20", From: "package.json"}},
		Hints:   []environment.Hint{{File: "README.md", Line: 3, Text: "run make deps"}},
	}.Encode()
	require.NoError(tb, err)
	require.NoError(tb, p.SaveEnvironment(ctx, store.Environment{
		Digest: madeDigest, Repo: "/repos/app", BaseCommit: "c0ffee", Source: "detected", Recipe: recipe, Archive: artifact.Digest([]byte("archive")), Bytes: 5 << 20, Files: 7, DurationMS: 12345, RunID: run.ID,
	}))
	require.NoError(tb, p.SetRunEnvironment(ctx, run.ID, madeDigest, 0))
	_, err = p.Record(ctx, store.Source{WorkflowID: contract.RunWorkflowID(run.ID), WorkflowRunID: "first"}, contract.Record{RunID: run.ID, Seq: 1, Events: []contract.EventDraft{
		{Type: contract.EventEnvironmentStarted},
		{Type: contract.EventEnvironmentReady, Payload: map[string]any{"environment": madeDigest, "bytes": 5 << 20, "files": 7, "duration_ms": 12345, "summary": "node (pnpm)", "missing": []string{"node >=22"}}},
		{Type: contract.EventBaselineStarted, Payload: map[string]any{"checks": []string{"Node tests"}}},
		{Type: contract.EventBaselineReady, Payload: map[string]any{"summary": contract.TestSummary{Passed: 3, Failed: 1}, "red": []string{"Node tests"}, "duration_ms": 400, "baseline": "k1"}},
	}})
	require.NoError(tb, err)
	return run.ID
}

// end ends a run as done.
func (p *testEnv) end(tb testing.TB, id int64) {
	tb.Helper()
	_, err := p.Record(tb.Context(), store.Source{WorkflowID: contract.RunWorkflowID(id), WorkflowRunID: "first"}, contract.Record{
		RunID: id, Seq: 2, Run: &contract.RunChange{Phase: contract.PhasePlanner, Status: contract.StatusDone, Finished: true},
		Events: []contract.EventDraft{{Type: contract.EventRunUpdated, Payload: map[string]any{"status": contract.StatusDone}}},
	})
	require.NoError(tb, err)
}

func TestKeptEnvironmentsAreListedShownAndRemovedOnlyWhenNoRunUsesThem(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	require.Contains(t, p.ok(t, "env", "list").out, "No environments.")
	id := withEnvironment(t, p)

	list := p.ok(t, "env", "list").out
	require.Regexp(t, `3f2a9c1b3f2a  /repos/app  node \(pnpm\)  5\.0 MiB  7 +12\.3s .* yes`, list)
	require.Contains(t, p.ok(t, "env", "list", "--repo", "/repos/other").out, "No environments.")

	for _, args := range [][]string{{madeDigest}, {madeDigest[:6]}, {"run-" + id2(id)}} {
		shown := p.ok(t, append([]string{"env", "show"}, args...)...).out
		require.Contains(t, shown, "web$ pnpm install [31m")
		require.NotContains(t, shown, "\x1b")
		require.Contains(t, shown, "node >=22: 20 is installed (package.json)")
		require.Contains(t, shown, "README.md:3: run make deps")
		require.Contains(t, shown, "A=b")
	}
	require.Contains(t, p.ok(t, "env", "show", madeDigest, "--yaml").out, "environment:\n  setup:\n")
	var one struct {
		InUse bool `json:"in_use"`
		Found struct{ Commands []struct{ Shell string } }
	}
	require.NoError(t, json.Unmarshal([]byte(p.ok(t, "env", "show", madeDigest, "--json").out), &one))
	require.True(t, one.InUse)
	require.Len(t, one.Found.Commands, 1)

	refused := p.run(t, "env", "rm", madeDigest[:8])
	require.Equal(t, exitInput, refused.code)
	require.Contains(t, refused.errs, "used by a run that has not ended")
	p.end(t, id)
	draft, err := setup.Environments(p.dir).New()
	require.NoError(t, err)
	_, err = draft.Seal(t.Context(), environment.Manifest{Digest: madeDigest})
	require.NoError(t, err)
	env, err := draft.Commit(madeDigest)
	require.NoError(t, err)
	env.Close()
	require.Contains(t, p.ok(t, "env", "rm", madeDigest[:8]).out, "Removed environment")
	_, err = setup.Environments(p.dir).Open(madeDigest)
	require.ErrorIs(t, err, environment.ErrNotHere)
	require.Equal(t, exitInput, p.run(t, "env", "show", madeDigest).code)
}

func id2(id int64) string { return strings.TrimSpace(jsonOf(id)) }

func jsonOf(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}

func TestASetupIsFoundWithoutExecutingAnythingAndAPersonsSettingWins(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	proof := filepath.Join(t.TempDir(), "executed")
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{
		"package.json": `{"name": "app", "scripts": {"preinstall": "touch ` + proof + `", "test": "node --test"}, "dependencies": {"left-pad": "1.3.0"}}`,
	})
	shown := p.ok(t, "env", "show", "--repo", repo)
	require.Contains(t, shown.out, ".: node (npm), from package.json\n")
	require.Contains(t, shown.out, "registry.npmjs.org")
	require.NoFileExists(t, proof)
	left, err := os.ReadDir(filepath.Join(p.dir, "cache", "dirs"))
	require.NoError(t, err)
	require.Empty(t, left, "the checkout goes again")

	for _, wrong := range [][]string{
		{"--variable", "PATH=/x"}, {"--variable", "novalue"}, {"--host", "evil.example.com"}, {},
	} {
		r := p.run(t, append([]string{"env", "set", "--repo", repo}, wrong...)...)
		require.Equal(t, exitInput, r.code, "%v: %s", wrong, r.errs)
	}
	require.Contains(t, p.ok(t, "env", "setups").out, "No setups.")
	p.ok(t, "env", "set", "--repo", repo, "--command", "make deps", "--command", "make more", "--variable", "A=b", "--reason", "because")
	shown = p.ok(t, "env", "show", "--repo", repo, "--json")
	var found struct {
		Source   string
		Commands []struct{ Shell string }
	}
	require.NoError(t, json.Unmarshal([]byte(shown.out), &found))
	require.Equal(t, "person", found.Source)
	require.Len(t, found.Commands, 2)
	require.Equal(t, "make deps", found.Commands[0].Shell)

	said := p.ok(t, "env", "setups", "--repo", repo).out
	require.Contains(t, said, "because")
	require.Contains(t, said, "A=b; make deps; make more")
	p.ok(t, "env", "unset", "--repo", repo)
	require.Contains(t, p.ok(t, "env", "setups").out, "by ")
	require.Contains(t, p.ok(t, "env", "show", "--repo", repo, "--yaml").out, "npm")
	require.Equal(t, exitInput, p.run(t, "env", "unset", "--repo", repo).code, "nothing is left to revoke")
	require.Equal(t, exitInput, p.run(t, "env", "unset", "--id", "1").code, "it was revoked before")
	require.Equal(t, exitInput, p.run(t, "env", "unset", "--id", "99").code)
}

func TestAnEnvironmentFlagThatSaysNothingIsNamed(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{"a": "b"})
	for says, flags := range map[string][]string{
		"value 1 of --command is empty": {"--command", ""},
		"value 2 of --command is empty": {"--command", "make deps", "--command", " "},
		"value 1 of --host is empty":    {"--host", ""},
	} {
		r := p.run(t, append([]string{"env", "set", "--repo", repo}, flags...)...)
		require.Equal(t, exitInput, r.code)
		require.Contains(t, r.errs, says)
		require.NotContains(t, r.errs, "line")
	}
}

func TestARunShowsItsEnvironmentAndBaseline(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	id := id2(withEnvironment(t, p))
	text := p.ok(t, "run", "inspect", id).out
	require.Contains(t, text, "environment  3f2a9c1b3f2a  node (pnpm): 5.0 MiB, 7 files, built in 12.3s")
	require.Contains(t, text, "missing    node >=22")
	require.Contains(t, text, "baseline     3 passed, 1 failed, 0 skipped in 400ms")
	require.Contains(t, text, "fails      Node tests")
	var d struct {
		Environment views.RunEnvironment
		Baseline    views.RunBaseline
	}
	require.NoError(t, json.Unmarshal([]byte(p.ok(t, "run", "inspect", id, "--json").out), &d))
	require.Equal(t, madeDigest, d.Environment.Digest)
	require.Equal(t, int64(12345), d.Environment.DurationMS)
	require.Equal(t, views.RunBaseline{State: "ready", Key: "k1", Passed: 3, Failed: 1, Red: []string{"Node tests"}, DurationMS: 400}, d.Baseline)
	require.Regexp(t, `(?m)^environment +1 `, p.ok(t, "run", "timing", id).out)
	require.Regexp(t, `(?m)^baseline +1 `, p.ok(t, "run", "timing", id).out)
	require.Contains(t, p.ok(t, "run", "logs", id, "--environment").errs, "has no setup log")

	run, err := runID(id)
	require.NoError(t, err)
	p.end(t, run)
	watched := p.ok(t, "run", "watch", id, "--after", "1").out
	require.Contains(t, watched, "node (pnpm): 5.0 MiB")
}

func TestLiveOutputIsFollowedToTheEndOfTheRunAsWholeLines(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	id := withEnvironment(t, p)
	for _, piece := range [][2]string{{"environment", "$ npm ci\nadd"}, {"test-go-1", "ok\x1b[2J\n"}, {"environment", "ed 3\nlast"}} {
		require.NoError(t, p.AppendOutput(t.Context(), id, piece[0], piece[1]))
	}
	p.end(t, id)
	r := p.ok(t, "run", "logs", id2(id), "--follow")
	require.Equal(t, "environment  $ npm ci\ntest-go-1  ok[2J\nenvironment  added 3\nenvironment  last\n", r.out)
	require.Equal(t, 3, strings.Count(p.ok(t, "run", "logs", id2(id), "--follow", "--json").out, "\n"))
	require.Equal(t, exitInput, p.run(t, "run", "logs", id2(id), "--follow", "--environment").code)
}

// slowRun prints as many pieces of output as each page says, and then ends.
type slowRun struct {
	pages []int
	next  int
	at    []time.Time // when it was asked for output
}

func (s *slowRun) Run(context.Context, int64) (store.Run, error) {
	if s.next < len(s.pages) {
		return store.Run{Status: contract.StatusPending}, nil
	}
	return store.Run{Status: contract.StatusDone}, nil
}

func (s *slowRun) LiveOutput(_ context.Context, _, after int64, _ int) ([]views.Output, error) {
	s.at = append(s.at, time.Now())
	if s.next == len(s.pages) {
		return nil, nil
	}
	pieces := make([]views.Output, s.pages[s.next])
	s.next++
	for i := range pieces {
		pieces[i] = views.Output{ID: after + int64(i) + 1, Source: "s", Text: "x\n"}
	}
	return pieces, nil
}

func TestOutputIsAskedForWithPausesUnlessAFullPageCame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		run := &slowRun{pages: []int{outputPage, outputPage, 1, 1, 0}}
		require.NoError(t, (&app{out: &out}).followRun(t.Context(), run, 1))
		require.Equal(t, 2*outputPage+2, strings.Count(out.String(), "\n"))
		var waited []time.Duration
		for i := range run.at[1:] {
			waited = append(waited, run.at[i+1].Sub(run.at[i]))
		}
		require.Equal(t, []time.Duration{0, 0, outputPoll, outputPoll, outputPoll}, waited)
	})
}

func TestEnvironmentOfARunThatIsNoneOrAFileIsChecked(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	require.Equal(t, exitInput, p.run(t, "env", "build").code, "no repository")
	require.Equal(t, exitInput, p.run(t, "env", "build", "--repo", ".", "--env", "none").code)
	empty := filepath.Join(t.TempDir(), "empty.yaml")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	r := p.run(t, "run", "create", "--repo", ".", "--goal", "x", "--env", empty)
	require.Equal(t, exitInput, r.code)
	require.Contains(t, r.errs, "is empty")
}
