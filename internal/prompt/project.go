package prompt

// Project is what agents are told of the repository's environment and of how it
// is checked, so that none of them has to find out.
type Project struct {
	Tools     []string // of the worker: "go 1.26.8"
	Installed string   // what was set up: "node (pnpm), python (uv)"; empty: nothing
	Missing   []string // tools that the repository asks for and the worker lacks
	Checks    []Check  // that judge the result
	Baseline  string   // how they ended on the base commit: "412 passed, 3 failed"; empty: they did not run
	Failing   []string // what fails there already
}

// Check is one of the project's checks: its name and the command of it, as a
// person would type it.
type Check struct{ Name, Command string }
