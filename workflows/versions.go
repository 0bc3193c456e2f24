package workflows

// Change is a change of the commands that a workflow issues, made while workflows of the earlier
// code may be running. Their histories do not contain it: at the place of the change,
// workflow.GetVersion with the change's ID distinguishes the two.
type Change struct {
	ID     string // passed to workflow.GetVersion
	Date   string // of the release that introduced it, YYYY-MM-DD
	Reason string
	Remove string // when the earlier code may be removed: no workflow of that age can be running or be replayed any more
}

// changes has one entry for each ID in the code below this directory. A change without an entry
// breaks the replay of the recorded histories; an entry is removed together with its code.
var changes = []Change{
	{
		ID: "labels-at-once", Date: "2026-11-27",
		Reason: "A change of a run's labels is judged at once, also while a person is asked, and can start a review. People whose comments are carried out are authors.",
		Remove: "When no run that a version before v0.2.0 created is running or can be replayed.",
	},
	{
		ID: "look-again", Date: "2026-11-27",
		Reason: "A message about a commit that the run does not know waits while the branch cannot be looked at, and a comment without effect is answered.",
		Remove: "When no run that a version before v0.2.0 created is running or can be replayed.",
	},
	{
		ID: "record-commands", Date: "2026-11-27",
		Reason: "A deliberation records commands at once, also those that it passes on to its recovery, for the audit ledger.",
		Remove: "When no deliberation of v0.1.0 runs or is replayed.",
	},
	{
		ID: "take-pushes", Date: "2026-11-27",
		Reason: "A run that watches its branch continues from what people push to it, and looks at the branch when a message is about a commit that it does not know.",
		Remove: "When no run that a version before v0.2.0 created is running or can be replayed.",
	},
	{
		ID: "update-branch", Date: "2026-11-27",
		Reason: "A run that watches the branch of its pull request brings the base into it if they conflict, or if the settings want that.",
		Remove: "When no run that a version before v0.2.0 created is running or can be replayed.",
	},
}
