package contract

// Fork is where a new run continues from: a step of an old one, with the workspace, the
// conversation and the plan as they were there. The old run does not change.
type Fork struct {
	RunID        int64             `json:"run_id"`           // the old run
	Step         string            `json:"step"`             // of its plan
	Kept         []StepOutput      `json:"kept,omitempty"`   // of steps that are not repeated
	Conversation *ConversationFork `json:"talk,omitempty"`   // what the step's conversation begins with; nil: from scratch
	Reason       string            `json:"reason,omitempty"` // why, for the record
}

// ConversationFork is the part of an old execution that a new one begins with: its
// conversation and its workspace as they were after a turn.
type ConversationFork struct {
	RunID       int64 `json:"run_id"`
	ExecutionID int64 `json:"execution_id"`
	Turn        int   `json:"turn"` // the last turn that is kept; 0: only the opening
	// Instructions are extra instructions for the model, empty for none.
	Instructions string `json:"instructions,omitempty"`
}

// StepOutput is what a completed step leaves as the output of its execution: its
// change, and who gets credit for it. A run that keeps the step reads it from there.
type StepOutput struct {
	Change
	Credit Credit `json:"credit"`
}
