package contract

// PlannerSettings are the limits of the planner, which reads the repository before it plans.
type PlannerSettings struct {
	Turns    int   `json:"turns"` // model calls before there must be a plan; 1: the planner reads nothing
	Tokens   int64 `json:"tokens,omitempty"`
	MicroUSD int64 `json:"micro_usd,omitempty"`
}

// PlanState is the state that planning keeps from turn to turn. The conversation itself stays in the
// database.
type PlanState struct {
	Turn       int    `json:"turn,omitempty"`   // model calls made
	Prompt     string `json:"prompt,omitempty"` // version of the prompt
	Reads      int    `json:"reads,omitempty"`  // calls that showed the planner something
	ReadBytes  int    `json:"read_bytes,omitempty"`
	Violations int    `json:"violations,omitempty"` // actions outside the allowed tools or paths
	Usage      Usage  `json:"usage,omitzero"`
}
