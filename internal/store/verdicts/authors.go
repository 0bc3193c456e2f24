package verdicts

import (
	"context"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
)

// Authors returns the authors of the change of a run, as gate.approver means them: the people who
// created it or the runs whose work it continues, and who steered its agents or edited its plan, in any
// of its attempts. The unnamed are not among them.
func Authors(ctx context.Context, st *store.Store, run store.Run) ([]string, error) {
	steered, err := st.Queries().Steerers(ctx, run.ID)
	if err != nil {
		return nil, dberr.Explain(err, "read who steered run %d", run.ID)
	}
	var out []string
	for _, by := range slices.Concat(run.Settings.AuthorsBefore(), steered) {
		known := slices.ContainsFunc(out, func(author string) bool { return contract.SamePerson(author, by) })
		if !contract.Nameless(by) && !known {
			out = append(out, by)
		}
	}
	return out, nil
}
