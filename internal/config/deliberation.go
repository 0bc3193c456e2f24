package config

import "time"

// Deliberation says how ALPHA, BETA and GAMMA deliberate.
type Deliberation struct {
	Mode                string        `yaml:"mode" validate:"oneof=openrouter local" doc:"Which models deliberate: openrouter has the configured ones, of whatever provider; local the scripted one, as has an installation without another."`
	AutoContinue        bool          `yaml:"auto_continue" doc:"Go on by itself after the report of the opening work, where nothing critical failed. Otherwise somebody has to say so."`
	PlanBy              string        `yaml:"plan_by" repo:"yes" validate:"oneof=auto planner deliberation" doc:"Who plans runs: the planner, a deliberation, or (auto) a deliberation where the planner finds the goal more complex than gamma_complexity_over."`
	GammaStuckAfter     time.Duration `yaml:"gamma_stuck_after" validate:"min=100ms,max=24h" doc:"GAMMA joins when an agent shows no progress for this long. GAMMA_STUCK_THRESHOLD sets it too, in seconds."`
	GammaConflictAt     int           `yaml:"gamma_conflict_at" validate:"min=2,max=1000" doc:"GAMMA joins when this many proposals are unresolved. GAMMA_CONFLICT_THRESHOLD sets it too."`
	GammaComplexityOver float64       `yaml:"gamma_complexity_over" validate:"min=0,max=1" doc:"GAMMA joins when the objective is found more complex than this; 0: never for that reason. GAMMA_COMPLEXITY_THRESHOLD sets it too."`
	AbortAfter          time.Duration `yaml:"abort_after" validate:"min=100ms,max=24h" doc:"A deliberation without any progress for this long is given up."`
	Iterations          int           `yaml:"iterations" repo:"lower" validate:"min=1,max=50" doc:"Rounds of exchange, after which it is given up."`
	Timeout             time.Duration `yaml:"timeout" repo:"lower" validate:"min=1s,max=24h" doc:"Longest time of the exchange. A task may name another. ORCHESTRATION_TIMEOUT sets it too, in seconds."`
	OpeningTimeout      time.Duration `yaml:"opening_timeout" repo:"lower" validate:"min=1s,max=24h" doc:"Longest time that the opening work of an agent is waited for."`
	ContinueWait        time.Duration `yaml:"continue_wait" repo:"lower" validate:"min=1s,max=8760h" doc:"How long the report waits for somebody to say that it goes on. No answer stops the deliberation."`
	Recoveries          int           `yaml:"recoveries" repo:"lower" validate:"min=0,max=10" doc:"How many deliberations may follow, one after the other, where one failed."`
	ErrorLimit          int           `yaml:"error_limit" validate:"min=1,max=1000" doc:"Errors of an agent; with more of them it is revoked."`
	RepeatLimit         int           `yaml:"repeat_limit" validate:"min=1,max=1000" doc:"Repeats of the same error of an agent; with more of them it is revoked."`
	ViolationLimit      int           `yaml:"violation_limit" validate:"min=0,max=1000" doc:"Moves that an agent's role does not have; with more of them it is revoked."`
	MovesPerTurn        int           `yaml:"moves_per_turn" validate:"min=1,max=32" doc:"Moves that an agent may make in one turn."`
	TextLimit           Size          `yaml:"text_limit" validate:"min=1024,max=131072" doc:"Longest text of one move."`
	Entries             int           `yaml:"entries" validate:"min=10,max=1000" doc:"Entries that the blackboard may have."`
}
