package prompt

// EnvironmentTask is the data for the environment agent's prompt.
type EnvironmentTask struct {
	Problem  string   // why the repository cannot be set up, or its checks cannot run
	Output   string   // the end of the failed output
	Tools    []string // of the worker
	Missing  []string // that the repository requires and the worker lacks
	Checks   []Check  // that must be able to run
	Commands []string // that its files suggest
	// Variables, each NAME=value, and the directories at the start of PATH are the same for setup
	// commands and checks.
	Variables, Path []string
	Hosts           []string // that setup commands may reach
	Hints           []string // lines in the repository about its setup
	Files           Overview
}

// Environment renders the prompt of the environment agent.
func Environment(task EnvironmentTask) (Prompt, error) { return render("environment", task) }
