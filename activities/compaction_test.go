package activities

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/prompt"
)

func TestAnAttemptInShortKeepsNamesErrorsAndTheLastResultsWithinItsBound(t *testing.T) {
	t.Parallel()
	past := attempt{before: "Files changed: first.go"}
	for i := range 40 {
		past.calls = append(past.calls, pastCall{
			turn: i + 1, tool: "read_file", target: fmt.Sprintf("file-%02d.go", i), reads: true, result: strings.Repeat("x", 5000), resultLength: 5000,
		})
	}
	past.calls = append(past.calls,
		pastCall{turn: 41, tool: "edit_file", target: "changed.go", result: "Replaced 1 occurrence."},
		pastCall{turn: 42, tool: "run_command", target: "go vet", failed: true, result: "changed.go:3: no such thing"})
	for _, most := range []int{3000, 1200, minEarlier} {
		text := past.summary(most)
		require.LessOrEqual(t, len(text), most+len("[40 earlier calls omitted]")+1)
		for _, told := range []string{
			"Files changed: changed.go", "Files read: file-39.go", "no such thing", "Before that: Files changed: first.go",
			"turn 42: run_command go vet", "earlier calls omitted]",
		} {
			require.Contains(t, text, told, "in %d bytes", most)
		}
		require.NotContains(t, text, "turn 1:", "what is oldest goes first")
	}
	require.Contains(t, past.summary(3000), "[5000-byte result omitted]")
}

func TestAShortListingKeepsTopLevelFilesAndCountsTheRest(t *testing.T) {
	t.Parallel()
	files := []string{"a/b/c/deep.go", "a/b/d.go", "go.mod", "main.go"}
	require.Equal(t, "go.mod\nmain.go\n… and 2 more", shortListing(files, 20))
	require.Equal(t, "a/b/d.go\ngo.mod\nmain.go\n… and 1 more", shortListing(files, 30))
	require.Equal(t, strings.Join(files, "\n"), shortListing(files, 100))
	require.Equal(t, "… and 4 more", shortListing(files, 0))
}

func TestAPlannersRequestTakesNoMoreThanItsShare(t *testing.T) {
	t.Parallel()
	var files []string
	for i := range 1400 {
		files = append(files, fmt.Sprintf("pkg/part%03d/file.go", i))
	}
	task := prompt.PlannerTask{GoalTitle: "A goal", Files: prompt.Overview{Text: plannerList(files, 1)}, Excerpts: []prompt.Excerpt{{Name: "README.md", Text: strings.Repeat("It is a project.\n", 200)}}}
	whole, err := plannerPrompt(task, files, 0)
	require.NoError(t, err)
	for halved := 1; halved <= 3; halved++ {
		p, err := plannerPrompt(task, files, halved)
		require.NoError(t, err)
		require.LessOrEqual(t, lengthOf(p), lengthOf(whole)>>halved)
		require.Equal(t, whole.System, p.System, "the rules stay whole")
		require.Contains(t, p.Task, "A goal")
		require.Contains(t, p.Task, "more")
	}
}
