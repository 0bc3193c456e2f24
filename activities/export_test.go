package activities

// Waiting returns how many tries wait for a model call that is under way here.
func (a *Activities) Waiting(execution int64, turn int) int {
	a.flights.mu.Lock()
	defer a.flights.mu.Unlock()
	if f := a.flights.byCall[callKey{execution, turn}]; f != nil {
		return f.waiting
	}
	return 0
}
