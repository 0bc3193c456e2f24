package workflows

// Change is a change of the commands that a workflow gives, made while workflows of
// the code before may be under way. Their histories know nothing of it: at the place
// of the change, workflow.GetVersion with the change's ID tells both apart.
type Change struct {
	ID     string // as workflow.GetVersion gets it
	Date   string // of the release that brought it, YYYY-MM-DD
	Reason string
	Remove string // when the code before may go: nothing of that age can be under way, or be replayed, any more
}

// changes has one entry for each ID in the code below this folder. A change without
// one breaks the replay of the recorded histories; an entry goes with its code. v0.1.0
// is the first release: it has none.
var changes = []Change{}
