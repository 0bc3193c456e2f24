package planning

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
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

// EditsText shows the edits of a plan like a patch, in at most most bytes: for each edit the path, the
// lines that it removes, and those that it adds.
func EditsText(edits []contract.Edit, most int) string {
	var b strings.Builder
	for _, e := range edits {
		b.WriteString("--- " + e.Path + "\n")
		writeLines(&b, "-", e.OldText)
		writeLines(&b, "+", e.NewText)
		if b.Len() > most {
			break
		}
	}
	return fault.Clip(b.String(), most)
}

func writeLines(b *strings.Builder, mark, text string) {
	if text == "" {
		return
	}
	for line := range strings.Lines(text) {
		b.WriteString(mark + strings.TrimRight(line, "\r\n") + "\n")
	}
}
