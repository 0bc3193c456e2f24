package contract

import "time"

// AgentLimits are what an agent may do wrong (specification, self-heal). With more of
// one of them it is revoked: for its run, or for its deliberation.
type AgentLimits struct {
	Errors     int `json:"errors"`     // in all
	Repeats    int `json:"repeats"`    // of the same error
	Violations int `json:"violations"` // actions that its role does not have
}

// Offence is the limit that an agent is past.
type Offence string

// The offences, the gravest first; none is "".
const (
	OffenceViolations Offence = "violations"
	OffenceRepeats    Offence = "repeats"
	OffenceErrors     Offence = "errors"
)

// Past returns the gravest limit that an agent is past which made so many errors, of
// which the last one was the same so many times, and so many violations.
func (l AgentLimits) Past(errors, same, violations int) Offence {
	switch {
	case violations > l.Violations:
		return OffenceViolations
	case same > l.Repeats:
		return OffenceRepeats
	case errors > l.Errors:
		return OffenceErrors
	}
	return ""
}

// AgentLimits returns the limits of the members.
func (s DeliberationSettings) AgentLimits() AgentLimits {
	return AgentLimits{Errors: s.ErrorLimit, Repeats: s.RepeatLimit, Violations: s.ViolationLimit}
}

// MaxUpdates is how many commands and messages a workflow takes before it continues
// as new. Temporal refuses more than 2,000 updates of one workflow run.
const MaxUpdates = 1500

// TaskTimeout is how long a worker may hold a workflow task. It bounds how long
// a run stands still when a worker dies while it holds one.
const TaskTimeout = 3 * time.Second
