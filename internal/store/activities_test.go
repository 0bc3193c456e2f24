package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
)

func TestArtifactsAndTheirEventsComeOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhaseTester, "")
	artifacts := []contract.Artifact{
		{Name: "tester/1/log", Type: contract.ArtifactLog, Size: 3, Digest: "sha256:aa", ExecutionID: execution.ID},
		{Name: "tester/1/video.webm", Type: contract.ArtifactVideo, Size: 4, Digest: "sha256:bb"},
	}
	var g errgroup.Group
	for range 10 {
		g.Go(func() error { return b.AddArtifacts(t.Context(), b.First.ID, artifacts) })
	}
	require.NoError(t, g.Wait())
	require.NoError(t, b.AddArtifacts(t.Context(), b.First.ID, []contract.Artifact{
		{Name: "tester/1/log", Type: contract.ArtifactLog, Digest: "sha256:other"}, {Name: "new", Type: contract.ArtifactFile, Digest: "sha256:cc"},
	}))
	got, err := b.Artifacts(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.Equal(t, "sha256:aa", got[0].Digest)
	require.Equal(t, execution.ID, got[0].ExecutionID)
	events := b.all(t)
	requireGapless(t, events)
	require.Len(t, events, 4)
	require.Equal(t, contract.EventArtifactAdded, events[3].Type)
	require.JSONEq(t, string(raw(`{"id": %d, "name": "new", "type": "file", "size": 0, "digest": "sha256:cc"}`, got[2].ID)), string(events[3].Payload))
	require.NoError(t, b.AddArtifacts(t.Context(), b.First.ID, nil))
}

func TestCheckIsReplacedByARepeatAndItsFindingsAreAnnouncedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhaseTester, "")
	check := contract.Check{ID: "test-go-1", Category: contract.CategoryTest, Name: "go test"}
	save := func(execution contract.ExecutionRef, ok bool, findings ...contract.Finding) {
		t.Helper()
		result := contract.CheckResult{Check: check, OK: ok, Summary: contract.TestSummary{Passed: 1, Failed: len(findings)}, DurationMS: 1500}
		cases := []contract.TestCase{{Name: "TestAdd", Status: contract.TestPassed}}
		require.NoError(t, b.SaveCheck(t.Context(), execution, check.ID, result, cases, findings, "sha256:log"))
	}
	red := func(message string) contract.Finding {
		return contract.Finding{Severity: contract.SeverityMajor, Category: contract.CategoryTest, Message: message, Location: "a_test.go:3", Rule: "TestDiv"}
	}
	save(execution, false, red("one"), red("two"))
	save(execution, false, red("one"), red("two"), red("three"))
	findings, err := b.Findings(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Len(t, findings, 3)
	require.Equal(t, "test-go-1", findings[0].CheckID)
	events := b.all(t)
	requireGapless(t, events)
	require.Len(t, events, 3, "created and the two findings that were first seen")
	require.Equal(t, contract.EventFindingAdded, events[2].Type)
	checks, err := b.Checks(t.Context(), execution.ID)
	require.NoError(t, err)
	require.Len(t, checks, 1)
	require.Equal(t, 3, checks[0].Result.Summary.Failed)
	require.Equal(t, "TestAdd", checks[0].Cases[0].Name)
	require.Equal(t, 1500*time.Millisecond, checks[0].FinishedAt.Sub(checks[0].StartedAt))

	save(b.begin(t, contract.PhaseTester, ""), true)
	findings, err = b.Findings(t.Context(), b.First.ID)
	require.NoError(t, err)
	for _, f := range findings {
		require.True(t, f.Resolved)
		require.NotNil(t, f.ResolvedAt)
	}
	require.ErrorIs(t, b.SaveCheck(t.Context(), contract.ExecutionRef{ID: 4711, RunID: b.First.ID}, "x", contract.CheckResult{Check: check}, nil, nil, ""), store.ErrNotFound)
}

func TestACheckAndItsFilesAreStoredAllOrNothingWithTheirEventsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhaseTester, "")
	check := contract.Check{ID: "test-go-1", Category: contract.CategoryTest}
	finding := contract.Finding{Severity: contract.SeverityMajor, Category: contract.CategoryTest, Message: "one"}
	save := func(e contract.ExecutionRef, names ...string) error {
		var files []contract.Artifact
		for _, name := range names {
			files = append(files, contract.Artifact{ExecutionID: execution.ID, Name: name, Type: contract.ArtifactLog, Digest: "sha256:aa"})
		}
		return b.SaveCheck(t.Context(), e, check.ID, contract.CheckResult{Check: check}, nil, []contract.Finding{finding}, "sha256:aa", files...)
	}
	require.ErrorIs(t, save(contract.ExecutionRef{ID: 4711, RunID: b.First.ID}, "lost"), store.ErrNotFound)
	require.ErrorIs(t, save(contract.ExecutionRef{ID: execution.ID, RunID: 4711}, "lost"), store.ErrNotFound)
	require.NoError(t, save(execution, "log", "made"))
	require.NoError(t, save(execution, "log", "more"), "a repeat")
	files, err := b.Artifacts(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Len(t, files, 3)
	events := b.all(t)
	requireGapless(t, events)
	var types []contract.EventType
	for _, e := range events[1:] {
		types = append(types, e.Type)
	}
	require.Equal(t, []contract.EventType{contract.EventArtifactAdded, contract.EventArtifactAdded, contract.EventFindingAdded, contract.EventArtifactAdded}, types)
	checks, err := b.Checks(t.Context(), execution.ID)
	require.NoError(t, err)
	require.Len(t, checks, 1)
}

func TestTheFilesOfACheckThatIsCarriedOutAgainAreThoseOfTheOutcomeThatCounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := b.begin(t, contract.PhaseTester, ""), b.begin(t, contract.PhaseTester, "")
	check := contract.Check{ID: "test-go-1", Category: contract.CategoryTest}
	save := func(e contract.ExecutionRef, name, digest string) {
		t.Helper()
		log := contract.Artifact{ExecutionID: e.ID, Name: name, Type: contract.ArtifactLog, Size: int64(len(digest)), Digest: digest}
		require.NoError(t, b.SaveCheck(t.Context(), e, check.ID, contract.CheckResult{Check: check}, nil, nil, digest, log))
	}
	save(first, "log", "sha256:lost")
	save(first, "log", "sha256:again")
	save(first, "log", "sha256:again")
	files, err := b.Artifacts(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Equal(t, "sha256:again", files[0].Digest)
	require.EqualValues(t, len("sha256:again"), files[0].Size)
	events := b.all(t)
	requireGapless(t, events)
	require.Len(t, events, 3, "created, and the file each time that it changed")
	require.Contains(t, string(events[2].Payload), "sha256:again")

	save(second, "log", "sha256:other")
	require.NoError(t, b.AddArtifacts(t.Context(), b.First.ID, []contract.Artifact{{ExecutionID: first.ID, Name: "log", Type: contract.ArtifactLog, Digest: "sha256:late"}}))
	files, err = b.Artifacts(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Equal(t, "sha256:again", files[0].Digest, "only the outcome of a check replaces files, and only those of its own execution")
}

func TestConversationIsReadInTheOrderThatAModelNeeds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhaseBuilder, "step-001")
	message := func(role, text string) store.Message { return store.Message{Role: role, Content: raw("%q", text)} }
	opening := []store.Message{message("system", "be good"), message("user", "divide")}
	var g errgroup.Group
	for range 10 {
		g.Go(func() error { return b.OpenConversation(t.Context(), execution.ID, opening) })
	}
	require.NoError(t, g.Wait())
	require.NoError(t, b.OpenConversation(t.Context(), execution.ID, append(opening, message("user", "another"))), "what has begun stays")

	reserved, err := b.ReserveCall(t.Context(), reservation(execution, 1))
	require.NoError(t, err)
	require.NoError(t, b.CompleteCall(t.Context(), reserved.ID, used(10), 0, raw(`{}`), []store.Message{message("assistant", "calls")}))
	_, _, err = b.ToolResult(t.Context(), execution.ID, 1, 0)
	require.ErrorIs(t, err, store.ErrNotFound)
	call := func(tree string) store.ToolCall {
		return store.ToolCall{
			Tool: "edit_file", TreeBefore: "t0", StartedAt: time.Now(), FinishedAt: time.Now().Add(time.Second),
			Outcome: contract.ToolOutcome{OK: true, Workspace: contract.Workspace{Tree: tree}, Fingerprint: "f"},
		}
	}
	for _, index := range []int{1, 0} {
		kept, err := b.SaveToolResult(t.Context(), execution.ID, 1, index, call("t1"), message("tool", string(rune('0'+index))))
		require.NoError(t, err)
		require.Equal(t, "t1", kept.Workspace.Tree)
	}
	kept, err := b.SaveToolResult(t.Context(), execution.ID, 1, 0, call("other"), message("tool", "other"))
	require.NoError(t, err)
	require.Equal(t, "t1", kept.Workspace.Tree, "a repeat goes on with what is stored")
	stored, told, err := b.ToolResult(t.Context(), execution.ID, 1, 0)
	require.NoError(t, err)
	require.Equal(t, kept, stored.Outcome)
	require.Equal(t, message("tool", "0"), told)

	conversation, err := b.Conversation(t.Context(), execution.ID)
	require.NoError(t, err)
	require.Equal(t, append(opening, message("assistant", "calls"), message("tool", "0"), message("tool", "1")), conversation)
	timing, err := b.Timing(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Len(t, timing.ToolCalls, 2)
	require.Len(t, timing.ModelCalls, 1)
	require.Len(t, timing.Executions, 1)
	require.Empty(t, timing.Checks)
}

func TestPromptVersionNeverChanges(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, b.SavePrompt(t.Context(), "builder", "v1", "be good"))
	require.NoError(t, b.SavePrompt(t.Context(), "builder", "v1", "be bad"))
	text, err := b.Prompt(t.Context(), "builder", "v1")
	require.NoError(t, err)
	require.Equal(t, "be good", text)
	_, err = b.Prompt(t.Context(), "builder", "v2")
	require.ErrorIs(t, err, store.ErrNotFound)
}
