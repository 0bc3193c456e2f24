package workflows

import (
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// pipelineUnderTest is the id of the first deliberation; recoveries count on.
const pipelineUnderTest = 7

func text(s string) contract.Text { return contract.Text{Head: s, Size: len(s)} }

func proposes(key string) contract.Move {
	return contract.Move{Kind: contract.MovePropose, Key: key, Text: text("proposal " + key)}
}

func synthesises(key string, from ...string) contract.Move {
	return contract.Move{Kind: contract.MoveSynthesise, Key: key, From: from, Text: text("synthesis " + key)}
}

func accepts(key string, version int) contract.Move {
	yes := true
	return contract.Move{Kind: contract.MoveVote, Key: key, Version: version, Accept: &yes}
}

func rejects(key string, version int) contract.Move {
	no := false
	return contract.Move{Kind: contract.MoveVote, Key: key, Version: version, Accept: &no}
}

func tells(to, words string) contract.Move {
	return contract.Move{Kind: contract.MoveMessage, To: to, Text: text(words)}
}

func analyses(complexity float64) contract.Move {
	return contract.Move{Kind: contract.MoveAnalyse, ComplexityScore: &complexity, Text: text("analysis")}
}

func objects(key string) contract.Move {
	return contract.Move{Kind: contract.MoveObject, Key: key, Text: text("no: " + key)}
}

func resolves(key string) contract.Move {
	return contract.Move{Kind: contract.MoveResolve, Key: key, Text: text("settled: " + key)}
}

func evaluates(key string, score float64) contract.Move {
	return contract.Move{Kind: contract.MoveEvaluate, Key: key, Score: &score, Text: text("judged: " + key)}
}

func decides(key string) contract.Move {
	return contract.Move{Kind: contract.MoveVerdict, Key: key, Text: text("it is " + key)}
}

func isDone() contract.Move { return contract.Move{Kind: contract.MoveDone} }

func task() contract.DeliberationTask {
	return contract.DeliberationTask{TaskID: "t1", Objective: "Design a caching strategy"}
}

func deliberationInput(change ...func(*contract.DeliberationInput)) contract.DeliberationInput {
	model := contract.ModelChoice{Provider: "scripted", Model: "scripted"}
	in := contract.DeliberationInput{
		PipelineID: pipelineUnderTest, RunID: 70, Tenant: "local", Attempt: 1, Task: task(),
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
