// Package deliberationtest builds inputs and moves of deliberations for tests.
package deliberationtest

import (
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// PipelineID is the id of the first deliberation; recoveries use the ids that follow.
const PipelineID = 7

// Text returns a text that is short enough to be its own head.
func Text(s string) contract.Text { return contract.Text{Head: s, Size: len(s)} }

// Proposes returns a proposal.
func Proposes(key string) contract.Move {
	return contract.Move{Kind: contract.MovePropose, Key: key, Text: Text("proposal " + key)}
}

// Synthesises returns a synthesis of proposals.
func Synthesises(key string, from ...string) contract.Move {
	return contract.Move{Kind: contract.MoveSynthesise, Key: key, From: from, Text: Text("synthesis " + key)}
}

// Accepts returns a vote for a version.
func Accepts(key string, version int) contract.Move {
	yes := true
	return contract.Move{Kind: contract.MoveVote, Key: key, Version: version, Accept: &yes}
}

// Rejects returns a vote against a version.
func Rejects(key string, version int) contract.Move {
	no := false
	return contract.Move{Kind: contract.MoveVote, Key: key, Version: version, Accept: &no}
}

// Sends returns a message; to "" means everybody.
func Sends(to, words string) contract.Move {
	return contract.Move{Kind: contract.MoveMessage, To: to, Text: Text(words)}
}

// Analyses returns an analysis with a complexity score.
func Analyses(complexity float64) contract.Move {
	return contract.Move{Kind: contract.MoveAnalyse, ComplexityScore: &complexity, Text: Text("analysis")}
}

// Objects returns an objection.
func Objects(key string) contract.Move {
	return contract.Move{Kind: contract.MoveObject, Key: key, Text: Text("no: " + key)}
}

// Resolves returns a move that settles an objection or withdraws a proposal.
func Resolves(key string) contract.Move {
	return contract.Move{Kind: contract.MoveResolve, Key: key, Text: Text("settled: " + key)}
}

// Evaluates returns a move that scores an entry.
func Evaluates(key string, score float64) contract.Move {
	return contract.Move{Kind: contract.MoveEvaluate, Key: key, Score: &score, Text: Text("judged: " + key)}
}

// Decides returns GAMMA's verdict.
func Decides(key string) contract.Move {
	return contract.Move{Kind: contract.MoveVerdict, Key: key, Text: Text("it is " + key)}
}

// Done returns the move of a member that has nothing to add.
func Done() contract.Move { return contract.Move{Kind: contract.MoveDone} }

// Task returns a small objective.
func Task() contract.DeliberationTask {
	return contract.DeliberationTask{TaskID: "t1", Objective: "Design a caching strategy"}
}

// Input returns the input of a deliberation with the scripted model. Unless changed, the settings
// are the defaults of the tests.
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
