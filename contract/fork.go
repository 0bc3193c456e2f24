package contract

// Fork is the starting point of a new run: a step of an old run, with its workspace, conversation
// and plan at that time. The old run does not change.
type Fork struct {
	RunID        int64             `json:"run_id"`           // the old run
	Step         string            `json:"step"`             // of its plan
	Kept         []StepOutput      `json:"kept,omitempty"`   // outputs of steps that are not repeated
	Conversation *ConversationFork `json:"talk,omitempty"`   // beginning of the step's conversation; nil: from scratch
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

// StepOutput is the output of a completed step's execution: its change, and the credit for it. A
// run that keeps the step reads it from there.
type StepOutput struct {
	Change
	Credit Credit `json:"credit"`
}
