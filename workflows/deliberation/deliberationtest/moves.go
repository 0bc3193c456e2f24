// Package deliberationtest makes inputs and moves of deliberations for tests.
package deliberationtest

import (
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// PipelineID is the id of the first deliberation; recoveries count on.
const PipelineID = 7

// Text is a text that is its own beginning.
func Text(s string) contract.Text { return contract.Text{Head: s, Size: len(s)} }

// Proposes is a proposal.
func Proposes(key string) contract.Move {
	return contract.Move{Kind: contract.MovePropose, Key: key, Text: Text("proposal " + key)}
}

// Synthesises merges proposals.
func Synthesises(key string, from ...string) contract.Move {
	return contract.Move{Kind: contract.MoveSynthesise, Key: key, From: from, Text: Text("synthesis " + key)}
}

// Accepts is a vote for a version.
func Accepts(key string, version int) contract.Move {
	yes := true
	return contract.Move{Kind: contract.MoveVote, Key: key, Version: version, Accept: &yes}
}

// Rejects is a vote against a version.
func Rejects(key string, version int) contract.Move {
	no := false
	return contract.Move{Kind: contract.MoveVote, Key: key, Version: version, Accept: &no}
}

// Tells is a message; to "" means everybody.
func Tells(to, words string) contract.Move {
	return contract.Move{Kind: contract.MoveMessage, To: to, Text: Text(words)}
}

// Analyses is an analysis that finds a complexity.
func Analyses(complexity float64) contract.Move {
	return contract.Move{Kind: contract.MoveAnalyse, ComplexityScore: &complexity, Text: Text("analysis")}
}

// Objects is an objection.
func Objects(key string) contract.Move {
	return contract.Move{Kind: contract.MoveObject, Key: key, Text: Text("no: " + key)}
}

// Resolves settles an objection or withdraws a proposal.
func Resolves(key string) contract.Move {
	return contract.Move{Kind: contract.MoveResolve, Key: key, Text: Text("settled: " + key)}
}

// Evaluates scores an entry.
func Evaluates(key string, score float64) contract.Move {
	return contract.Move{Kind: contract.MoveEvaluate, Key: key, Score: &score, Text: Text("judged: " + key)}
}

// Decides is GAMMA's verdict.
func Decides(key string) contract.Move {
	return contract.Move{Kind: contract.MoveVerdict, Key: key, Text: Text("it is " + key)}
}

// Done says that a member has nothing to add.
func Done() contract.Move { return contract.Move{Kind: contract.MoveDone} }

// Task is a small objective.
func Task() contract.DeliberationTask {
	return contract.DeliberationTask{TaskID: "t1", Objective: "Design a caching strategy"}
}

// Input starts a deliberation with the scripted model; the settings are those that
// tests assume, unless changed.
func Input(change ...func(*contract.DeliberationInput)) contract.DeliberationInput {
	model := contract.ModelChoice{Provider: "scripted", Model: "scripted"}
	in := contract.DeliberationInput{
		PipelineID: PipelineID, RunID: 70, Tenant: "local", Attempt: 1, Task: Task(),
		Settings: contract.DeliberationSettings{
			Mode: contract.ModeLocal, AutoContinue: true, ModelTimeout: time.Minute,
			Models:          map[contract.Agent]contract.ModelChoice{contract.AgentAlpha: model, contract.AgentBeta: model, contract.AgentGamma: model},
			GammaStuckAfter: 30 * time.Second, GammaConflictAt: 3, GammaComplexityOver: 0.8,
			AbortAfter: 60 * time.Second, Iterations: 10, Timeout: 120 * time.Second, OpeningTimeout: 60 * time.Second, ContinueWait: time.Hour, Recoveries: 0,
			ErrorLimit: 8, RepeatLimit: 2, ViolationLimit: 1, MovesPerTurn: 8, TextLimit: 1 << 20, Entries: 100,
		},
	}
	for _, c := range change {
		c(&in)
	}
	return in
}
