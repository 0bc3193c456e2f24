package activities

// Waiting returns how many attempts wait for a model call that is running here.
func (a *Activities) Waiting(execution int64, turn int) int {
	return a.calls.Waiting(callKey{execution, turn})
}
