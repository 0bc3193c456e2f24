package activities

// Waiting returns how many tries wait for a model call that is in flight here.
func (a *Activities) Waiting(execution int64, turn int) int {
	return a.calls.Waiting(callKey{execution, turn})
}
