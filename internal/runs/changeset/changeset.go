// Package changeset describes a change set to the agents of its runs: which other repositories are
// changed for the same goal.
package changeset

import (
	"fmt"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

// Limits of the name of a repository, and of what another run has to do in it, in bytes.
const (
	maxName = 200
	maxTask = 1000
)

// Change is the change of one repository of a set.
type Change struct {
	Repository string // name
	Goal       string // what is to be done in it besides the goal of all; empty: nothing else is known
}

// begin is the beginning of the description, by which Without finds it.
const begin = "This change is one of several that belong together, each in a repository of its own."

// Describe returns what the run of one change knows of the others: data of who made the request. It is
// for the end of the description of its goal.
func Describe(all []Change, own int) string {
	line := func(text string, most int) string { return fault.Clip(terminal.OneLine(telemetry.Redact(text)), most) }
	var others strings.Builder
	for i, c := range all {
		if i == own {
			continue
		}
		fmt.Fprintf(&others, "- %s", line(c.Repository, maxName))
		if c.Goal != "" {
			fmt.Fprintf(&others, ": %s", line(c.Goal, maxTask))
		}
		others.WriteByte('\n')
	}
	return begin + fmt.Sprintf(" Here, only %q is changed. Other runs change the repositories listed below at the same time. "+
		"Their files cannot be read or changed here; do not copy them, and agree with what the goal says about them.", line(all[own].Repository, maxName)) +
		"\n" + prompt.Fenced("other repositories", strings.TrimSpace(others.String()))
}

// Without returns the description of a goal without what Describe added to it.
func Without(description string) string {
	own, _, _ := strings.Cut(description, begin)
	return strings.TrimSpace(own)
}
