package planning_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/planning"
)

func TestEditsAreShownLikeAPatch(t *testing.T) {
	t.Parallel()
	edits := []contract.Edit{{Path: "a.go", OldText: "one\ntwo", NewText: "two\r\n"}, {Path: "b.go", NewText: "new\n"}}
	require.Equal(t, "--- a.go\n-one\n-two\n+two\n--- b.go (new file)\n+new\n", planning.EditsText(edits, 1000))
	require.Equal(t, "--- a.go\n-one\n-two\n+two\n[1 of 2 edits are not shown]\n", planning.EditsText(edits, 30))
	require.Equal(t, "--- a.go\n …\n[this edit is shown in part; 1 more edits are not shown]\n", planning.EditsText(edits, 13))
	require.Equal(t, "--- \"a\\n-b\" (every occurrence)\n-x\n+y\n", planning.EditsText([]contract.Edit{{Path: "a\n-b", OldText: "x", NewText: "y", ReplaceAll: true}}, 1000))
}

func TestTheFilesOfEditsAreAmongThoseOfTheStep(t *testing.T) {
	t.Parallel()
	p, err := planning.Submitted(`{"steps": [{"files": ["a"]}], "edits": [{"path": "b", "new_text": ""}, {"path": "a", "old_text": "x", "new_text": ""}, {"path": "b", "old_text": "x", "new_text": ""}]}`)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, p.Steps[0].Files)
	_, err = planning.Submitted(`{"steps": 1}`)
	require.Error(t, err)
}

func TestEditsOfAStepThatAPersonChangedAreKeptOnlyIfTheyWereChangedToo(t *testing.T) {
	t.Parallel()
	plan := func(name string, edits ...contract.Edit) contract.Plan {
		return contract.Plan{Summary: name, Steps: []contract.Step{{ID: "a", Name: name}}, Edits: edits}
	}
	one, two := contract.Edit{Path: "a", NewText: "1"}, contract.Edit{Path: "a", NewText: "2"}
	require.Equal(t, []contract.Edit{one}, planning.KeptEdits(plan("x", one), plan("x", one)))
	require.Empty(t, planning.KeptEdits(plan("x", one), plan("y", one)))
	require.Equal(t, []contract.Edit{two}, planning.KeptEdits(plan("x", one), plan("y", two)))
	require.Empty(t, planning.KeptEdits(plan("x", one), plan("x")))
}

func TestAFileThatEditsCreateIsNotMissing(t *testing.T) {
	t.Parallel()
	p := contract.Plan{Steps: []contract.Step{{ID: "a", Name: "Make the page", Files: []string{"made.txt"}}}}
	require.Len(t, planning.Findings(p, planning.Facts{}), 1)
	p.Edits = []contract.Edit{{Path: "made.txt", NewText: "x"}}
	require.Empty(t, planning.Findings(p, planning.Facts{}))
}

func TestAPlanWithEditsNeedsNoSteps(t *testing.T) {
	t.Parallel()
	p, err := planning.Submitted(`{"summary": "Say more.\nMuch more.", "complexity_score": 0.2, "edits": [{"path": "a", "new_text": "x"}]}`)
	require.NoError(t, err)
	require.Empty(t, p.Problems())
	require.Equal(t, []contract.Step{{
		ID: "step-001", Name: "Say more.", Description: "Say more.\nMuch more.", EstimatedComplexity: contract.LevelLow, RiskLevel: contract.LevelLow,
		Dependencies: []string{}, VerificationCriteria: []string{}, Files: []string{"a"},
	}}, p.Steps)
	p, err = planning.Submitted(`{"summary": "Say more."}`)
	require.NoError(t, err)
	require.NotEmpty(t, p.Problems(), "without edits it needs steps")
}
