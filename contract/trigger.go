package contract

import "time"

// TriggerInput is the input of WorkflowTrigger.
type TriggerInput struct {
	Trigger string `json:"trigger"` // name in the configuration
}

// TriggerTime is a time of a trigger's schedule that has come.
type TriggerTime struct {
	Trigger string    `json:"trigger"`
	At      time.Time `json:"at"`
}
