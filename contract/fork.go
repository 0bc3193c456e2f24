package contract

// Fork says from where a new run goes on: a step of an old one, with the
// workspace, the conversation and the plan as they were there. The old run
// stays as it is.
type Fork struct {
	RunID  int64             `json:"run_id"`           // the old run
	Step   string            `json:"step"`             // of its plan
	Kept   []StepOutput      `json:"kept,omitempty"`   // of steps that are not done again
	Talk   *ConversationFork `json:"talk,omitempty"`   // what the step's conversation begins with; nil: anew
	Reason string            `json:"reason,omitempty"` // why, for the record
}

// ConversationFork is the part of an old execution that a new one begins with:
// its conversation and its workspace as they were after a turn.
type ConversationFork struct {
	RunID       int64 `json:"run_id"`
	ExecutionID int64 `json:"execution_id"`
	Turn        int   `json:"turn"` // the last that is taken over; 0: the opening alone
	// Instructions are what the model is told on top, empty for nothing.
	Instructions string `json:"instructions,omitempty"`
}

// StepOutput is what a completed step leaves as the output of its execution: its
// change, and who is to be credited for it. Whoever keeps the step takes it over
// from there.
type StepOutput struct {
	Change
	Credit Credit `json:"credit"`
}
