package contract

import "time"

// AgentLimits are the limits on an agent's errors (specification, self-heal). Above any of them it
// is revoked: for its run, or for its deliberation.
type AgentLimits struct {
	Errors     int `json:"errors"`     // in total
	Repeats    int `json:"repeats"`    // of the same error
	Violations int `json:"violations"` // actions that its role does not allow
}

// ExceededLimit is the limit that an agent has exceeded.
type ExceededLimit string

// The offences, most serious first; none is "".
const (
	ExceededViolations ExceededLimit = "violations"
	ExceededRepeats    ExceededLimit = "repeats"
	ExceededErrors     ExceededLimit = "errors"
)

// Exceeded returns the most serious limit that an agent has exceeded, given its number of errors,
// of repetitions of the last one, and of violations.
func (l AgentLimits) Exceeded(errors, same, violations int) ExceededLimit {
	switch {
	case violations > l.Violations:
		return ExceededViolations
	case same > l.Repeats:
		return ExceededRepeats
	case errors > l.Errors:
		return ExceededErrors
	}
	return ""
}

// AgentLimits returns the limits of the members.
func (s DeliberationSettings) AgentLimits() AgentLimits {
	return AgentLimits{Errors: s.ErrorLimit, Repeats: s.RepeatLimit, Violations: s.ViolationLimit}
}

// MaxUpdates is the number of commands and messages that a workflow accepts before it continues as
// new. Temporal refuses more than 2,000 updates of one workflow run.
const MaxUpdates = 1500

// TaskTimeout is how long a worker may hold a workflow task. It limits how long a run is blocked
// when a worker dies during one.
const TaskTimeout = 3 * time.Second
