package prompt

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

func TestNotesAboutTheStepsOwnFilesComeFirstAndAllFit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a line of some length\n", 200)
	sources := []NoteSource{
		{Note: contract.Note{Path: "other.go", StartLine: 1, EndLine: 100, Fact: "other"}, File: long},
		{Note: contract.Note{Path: "mine.go", StartLine: 2, EndLine: 3, Fact: "mine"}, File: long},
		{Note: contract.Note{Path: "gone.go", StartLine: 1, EndLine: 1, Fact: "gone"}, Missing: true},
	}
	step := contract.Step{Files: []string{"mine.go"}}
	all := Notes(sources, step, NotesBytes)
	require.Len(t, all, 3)
	require.Equal(t, "mine.go:2-3", all[0].Name)
	require.Equal(t, "Fact: mine\n2\ta line of some length\n3\ta line of some length", all[0].Body)
	require.Contains(t, all[1].Body, "\n100\ta line")
	require.NotContains(t, all[1].Body, "\n101\t")
	require.Contains(t, all[2].Body, "does not exist")
	few := Notes(sources, step, 220)
	size := 0
	for _, n := range few {
		size += len(n.Body)
	}
	require.LessOrEqual(t, size, 220)
	require.Equal(t, "mine.go:2-3", few[0].Name)
	require.Contains(t, few[1].Body, "Read these lines yourself")
	require.Empty(t, Notes(sources, step, 5))
}
