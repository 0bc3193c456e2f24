package config

import "time"

// Deliberation configures how ALPHA, BETA and GAMMA deliberate.
type Deliberation struct {
	Mode                string        `yaml:"mode" validate:"oneof=openrouter local" doc:"Models used in deliberations. openrouter: the configured models, from any provider. local: the scripted model, which is also used where no other model is configured."`
	AutoContinue        bool          `yaml:"auto_continue" doc:"Continue automatically after the checkpoint report unless a critical failure occurred. false: wait until a person continues the deliberation."`
	PlanBy              string        `yaml:"plan_by" repo:"yes" validate:"oneof=auto planner deliberation" doc:"Planning method for runs: planner, deliberation, or auto, which starts a deliberation if the planner rates the goal's complexity above gamma_complexity_over."`
	GammaStuckAfter     time.Duration `yaml:"gamma_stuck_after" validate:"min=100ms,max=24h" doc:"GAMMA joins when an agent has made no progress for this long. Also set by GAMMA_STUCK_THRESHOLD (a duration or a number of seconds)."`
	GammaConflictAt     int           `yaml:"gamma_conflict_at" validate:"min=2,max=1000" doc:"GAMMA joins when this many proposals are unresolved. Also set by GAMMA_CONFLICT_THRESHOLD."`
	GammaComplexityOver float64       `yaml:"gamma_complexity_over" validate:"min=0,max=1" doc:"GAMMA joins when the objective's complexity exceeds this value. 0: complexity is ignored. Also set by GAMMA_COMPLEXITY_THRESHOLD."`
	AbortAfter          time.Duration `yaml:"abort_after" validate:"min=100ms,max=24h" doc:"A deliberation that has made no progress for this long is aborted."`
	Iterations          int           `yaml:"iterations" repo:"lower" validate:"min=1,max=50" doc:"Maximum number of discussion rounds before the deliberation is aborted."`
	Timeout             time.Duration `yaml:"timeout" repo:"lower" validate:"min=1s,max=24h" doc:"Maximum duration of the discussion. A task may set its own limit. Also set by ORCHESTRATION_TIMEOUT (a duration or a number of seconds)."`
	OpeningTimeout      time.Duration `yaml:"opening_timeout" repo:"lower" validate:"min=1s,max=24h" doc:"Maximum time to wait for an agent's opening turn."`
	ContinueWait        time.Duration `yaml:"continue_wait" repo:"lower" validate:"min=1s,max=8760h" doc:"Maximum time that a deliberation waits after the checkpoint report for a person to continue it. If nobody does, it is stopped."`
	Recoveries          int           `yaml:"recoveries" repo:"lower" validate:"min=0,max=10" doc:"Maximum number of consecutive attempts to recover a failed deliberation."`
	ErrorLimit          int           `yaml:"error_limit" validate:"min=1,max=1000" doc:"Maximum number of errors that an agent may cause. An agent that exceeds this limit is revoked."`
	RepeatLimit         int           `yaml:"repeat_limit" validate:"min=1,max=1000" doc:"Maximum number of times that an agent may repeat the same error. An agent that exceeds this limit is revoked."`
	ViolationLimit      int           `yaml:"violation_limit" validate:"min=0,max=1000" doc:"Maximum number of times that an agent may attempt an action outside its role. An agent that exceeds this limit is revoked."`
	MovesPerTurn        int           `yaml:"moves_per_turn" validate:"min=1,max=32" doc:"Maximum number of moves that an agent may make in one turn."`
	TextLimit           Size          `yaml:"text_limit" validate:"min=1024,max=131072" doc:"Maximum length of a move's text."`
	Entries             int           `yaml:"entries" validate:"min=10,max=1000" doc:"Maximum number of entries on the blackboard."`
}
