package prompt

import "strings"

// Project describes the repository's environment and its checks, so that agents need not find out.
type Project struct {
	Tools     []string // of the worker: "go 1.26.8"
	Installed string   // what was set up: "node (pnpm), python (uv)"; empty if nothing
	Missing   []string // tools that the repository requires and the worker lacks
	Checks    []Check  // that judge the result
	Baseline  string   // their result on the base commit: "412 passed, 3 failed"; empty if they did not run
	Failing   []string // what already fails there
}

// Check is one of the project's checks: its id, its name and its command, as a person would type it.
type Check struct{ ID, Name, Command string }

// CheckNames returns the names of the checks, for an agent that cannot run them.
func (p *Project) CheckNames() string {
	var names []string
	for _, c := range p.Checks {
		names = append(names, c.Name)
	}
	return strings.Join(names, "\n")
}
