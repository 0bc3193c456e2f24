package planning_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/planning"
)

// conversation is one in which a planner has read lines 3 to 5 of a file, and has found line 9 of another.
var conversation = []model.Message{
	{Role: model.RoleUser, Text: "1\tnot a result of a tool"},
	{Role: model.RoleAssistant, ToolCalls: []model.ToolCall{
		{ID: "a", Name: "read_file", Arguments: `{"path": "./pkg/a.go", "start_line": 3, "end_line": 5}`},
		{ID: "b", Name: "search", Arguments: `{"pattern": "x"}`},
		{ID: "c", Name: "list_files", Arguments: `{}`},
		{ID: "d", Name: "ask_brain", Arguments: `{"query": "how"}`},
	}},
	{Role: model.RoleTool, ToolCallID: "a", Text: "3\tfunc A() {\n4\t     9\tsays a line of the file\n5\t}\n[lines 3 to 5 of 12]\n"},
	{Role: model.RoleTool, ToolCallID: "b", Text: "pkg/b.go:9: x := 1\n"},
	{Role: model.RoleTool, ToolCallID: "c", Text: "pkg/c.go\n1\tnothing"},
	{Role: model.RoleTool, ToolCallID: "d", Text: "pkg/e.go:7-8 (func E)\n7\tfunc E() {\n8\tpkg/f.go:1-2 (is a line of the file)\n\npkg/g.go:2-2\n2\tvar g\n"},
	{Role: model.RoleAssistant, Text: "7\tan invention"},
}

func TestANoteMayOnlyStateWhatAToolHasShown(t *testing.T) {
	t.Parallel()
	note := func(path string, from, to int) contract.Note {
		return contract.Note{Path: path, StartLine: from, EndLine: to, Fact: "it matters"}
	}
	for name, c := range map[string]struct {
		note contract.Note
		kept bool
	}{
		"the whole part":         {note("pkg/a.go", 3, 5), true},
		"a line of it":           {note("pkg/a.go", 4, 4), true},
		"no end":                 {note("pkg/a.go", 5, 0), true},
		"another form of a path": {note("./pkg//a.go", 3, 4), true},
		"a line that was found":  {note("pkg/b.go", 9, 9), true},
		"more than was read":     {note("pkg/a.go", 3, 6), false},
		"before it":              {note("pkg/a.go", 2, 3), false},
		"a number in a line":     {note("pkg/a.go", 9, 9), false},
		"around what was found":  {note("pkg/b.go", 8, 10), false},
		"only listed":            {note("pkg/c.go", 1, 1), false},
		"a part from the brain":  {note("pkg/e.go", 7, 8), true},
		"the next part":          {note("pkg/g.go", 2, 2), true},
		"a heading in a line":    {note("pkg/f.go", 2, 2), false},
		"of another part":        {note("pkg/e.go", 2, 2), false},
		"from memory":            {note("pkg/d.go", 1, 1), false},
		"no line":                {note("pkg/a.go", 0, 0), false},
		"no fact":                {contract.Note{Path: "pkg/a.go", StartLine: 3, EndLine: 3, Fact: " "}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept, dropped := planning.Notes([]contract.Note{c.note}, planning.SeenIn(conversation))
			require.Equal(t, c.kept, len(kept) == 1)
			require.Len(t, dropped, 1-len(kept))
			for _, d := range dropped {
				require.NotEmpty(t, d.Why)
			}
		})
	}
}

func TestNotesAreBounded(t *testing.T) {
	t.Parallel()
	var notes []contract.Note
	for range contract.MaxNotes + 1 {
		notes = append(notes, contract.Note{Path: "pkg/a.go", StartLine: 3, EndLine: 5, Fact: string(make([]byte, 10_000)) + "x"})
	}
	kept, dropped := planning.Notes(notes, planning.SeenIn(conversation))
	require.Len(t, kept, contract.MaxNotes)
	require.Len(t, dropped, 1)
	require.LessOrEqual(t, len(kept[0].Fact), contract.MaxNoteFact+len("…"))
	kept, _ = planning.Notes([]contract.Note{{Path: "pkg/a.go", StartLine: 1, EndLine: 1 << 40, Fact: "all"}}, planning.SeenIn(conversation))
	require.Empty(t, kept, "and not counted line by line")
}
