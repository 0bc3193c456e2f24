package scripted

// matches reports whether a rule matches a request. The cheap conditions come first:
// contains reads every message.
func (w *when) matches(r *chatRequest) bool {
	c := &r.caller
	return is(w.agent, c.agent) && is(w.phase, plainPhase(c.phase)) && is(w.step, c.step) &&
		is(w.attempt, c.attempt) && is(w.turn, c.turn) && is(w.model, r.Model) && is(w.pictures, r.pictures) &&
		(w.contains == nil || r.contains(*w.contains))
}

func is[T comparable](want *T, got T) bool { return want == nil || *want == got }

// pick returns the position of the rule for a request, or -1 if there is none, and counts the use.
func (s *Server) pick(r *chatRequest) (int, error) {
	rules := s.scenario.rules
	if i, ok := s.ledger.answered(r.key); ok && rules[i].when.matches(r) {
		return i, nil
	}
	for i := range rules {
		if s.ledger.usedUp(i) || !rules[i].when.matches(r) {
			continue
		}
		ok, err := s.ledger.use(i, r.key)
		if err != nil {
			return -1, err
		}
		if ok {
			return i, nil
		}
	}
	return -1, nil
}
