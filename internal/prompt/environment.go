package prompt

// EnvironmentTask is what the environment agent must know.
type EnvironmentTask struct {
	Problem  string   // why the repository cannot be set up, or its checks cannot run
	Output   string   // the end of the failed output
	Tools    []string // of the worker
	Missing  []string // that the repository asks for and the worker lacks
	Checks   []Check  // that must be able to run
	Commands []string // that its files suggest
	// Variables, each NAME=value, and the folders that come first in PATH are the same
	// for set-up commands and checks.
	Variables, Path []string
	Hosts           []string // that set-up commands may reach
	Hints           []string // lines of the repository about how its authors set it up
	Files           string   // a listing
}

// Environment renders the prompt of the environment agent.
func Environment(task EnvironmentTask) (Prompt, error) { return render("environment", task) }
