package eager

// Waits reports whether a worker polls for the activities of a queue that start here.
func (s *Starter) Waits(queue string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting[queue]) > 0
}
