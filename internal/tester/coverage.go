package tester

import (
	"context"
	"fmt"
	"os"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/verify"
)

// coverage returns the coverage that a check measured, and which of the lines that the workspace
// adds to its base are among the covered ones. It returns nil if nothing is known. A problem is
// noted, because coverage must not make a check fail.
func (s *surroundings) coverage(ctx context.Context, o *verify.Outcome) *contract.Coverage {
	p := o.Coverage
	if p == nil && o.CoverageNote == "" {
		return nil
	}
	out := &contract.Coverage{Note: telemetry.Redact(o.CoverageNote)}
	if p == nil {
		return out
	}
	out.LineCount = p.Total()
	added, err := s.host.Workspaces.AddedLines(ctx, s.task.Workspace)
	if err == nil && len(added) == 0 {
		return out
	}
	var root *os.Root
	if err == nil {
		root, err = os.OpenRoot(s.checkout)
	}
	if err != nil {
		s.host.Log.WarnContext(ctx, "Could not find the changed lines for the coverage of a check", "directory", s.task.Key, "check", s.task.Check.ID, "error", err)
		out.Note = fmt.Sprintf("the changed lines could not be found: %s", Clipped(fault.Of(err).Message, 300))
		return out
	}
	defer root.Close()
	out.Changed = p.Changed(root, added, func(p string) bool { return !pin.IsCode(p) })
	return out
}
