package planning

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/prompt"
)

// Submitted returns the plan of a call to submit it.
func Submitted(arguments string) (contract.Plan, error) {
	var p contract.Plan
	err := json.Unmarshal([]byte(arguments), &p)
	return p.Completed(), err
}

// KeptEdits returns the edits of a plan that a person edited. If the person changed the step, but not
// the edits, these no longer fit it: the plan has none, and the agent of the step makes the change.
func KeptEdits(before, after contract.Plan) []contract.Edit {
	if reflect.DeepEqual(before.Edits, after.Edits) && !reflect.DeepEqual(before.Steps, after.Steps) {
		return nil
	}
	return after.Edits
}

// EditsText shows the edits of a plan like a patch: for each edit the path, the lines that it removes,
// and those that it adds. A text of more than most bytes ends with the number of edits that it leaves
// out.
func EditsText(edits []contract.Edit, most int) string {
	var b strings.Builder
	for i, e := range edits {
		before := b.Len()
		b.WriteString("--- " + shownEdit(e) + "\n")
		writeLines(&b, "-", e.OldText)
		writeLines(&b, "+", e.NewText)
		if b.Len() > most {
			shown := fault.Clip(b.String(), most)
			if before == 0 {
				return fmt.Sprintf("%s\n[this edit is shown in part; %d more edits are not shown]\n", shown, len(edits)-1)
			}
			return fmt.Sprintf("%s[%d of %d edits are not shown]\n", b.String()[:before], len(edits)-i, len(edits))
		}
	}
	return b.String()
}

// shownEdit names the file of an edit on one line, and says what is special about the edit.
func shownEdit(e contract.Edit) string {
	name := prompt.ShownPath(e.Path)
	switch {
	case e.OldText == "":
		return name + " (new file)"
	case e.ReplaceAll:
		return name + " (every occurrence)"
	}
	return name
}

func writeLines(b *strings.Builder, mark, text string) {
	if text == "" {
		return
	}
	for line := range strings.Lines(text) {
		b.WriteString(mark + strings.TrimRight(line, "\r\n") + "\n")
	}
}
