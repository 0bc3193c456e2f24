package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// outcomeKind is what the answers of a seed lead to, whatever else they say.
type outcomeKind string

// The kinds of outcome. Random answers lead to anything.
const (
	agrees         outcomeKind = "agrees"
	isDecided      outcomeKind = "is decided"
	isValidated    outcomeKind = "is validated"
	talks          outcomeKind = "talks"
	isStuck        outcomeKind = "is stuck"
	isLate         outcomeKind = "is late"
	isSilent       outcomeKind = "is silent"
	bothFail       outcomeKind = "all die"
	oneFails       outcomeKind = "one dies"
	oneInvalid     outcomeKind = "one raves"
	isRecovered    outcomeKind = "is recovered"
	recoveryFails  outcomeKind = "is in vain"
	isStopped      outcomeKind = "is stopped"
	neverContinued outcomeKind = "waits in vain"
	isRandom       outcomeKind = "is wild"
)

func outcomeKinds() []outcomeKind {
	return []outcomeKind{
		agrees, isDecided, isValidated, talks, isStuck, isLate, isSilent, bothFail, oneFails, oneInvalid, isRecovered, recoveryFails, isStopped, neverContinued, isRandom,
	}
}

// outcomeKindOf gives the first seeds one kind each; of the others every
// second is random.
func outcomeKindOf(seed int) outcomeKind {
	all := outcomeKinds()
	switch {
	case seed < len(all):
		return all[seed]
	case seed%2 == 0:
		return isRandom
	}
	return all[(seed/2)%len(all)]
}

// turnKey is a turn in which an agent is asked; an attempt or a turn of 0 is any.
type turnKey struct {
	agent         contract.Agent
	attempt, turn int
}

// scriptedAnswer is what a model answers.
type scriptedAnswer struct {
	moves   []map[string]any
	text    string // instead of moves, which cannot be used
	status  int    // instead of both, always
	busy    bool   // HTTP 500 comes before it
	latency time.Duration
	rule    int // of the stack's scenario, from 1
}

// plain reports whether the answer is one that comes, and can be used.
func (a *scriptedAnswer) plain() bool { return a.text == "" && a.status == 0 && a.latency < asleepFor }

// asleepFor is longer than anybody waits.
const asleepFor = 10 * time.Minute

// The turns that a script has answers of their own for; what is said later is the
// same in each turn.
const (
	scriptedAttempts = 3
	scriptedTurns    = 6
	noisyTurns       = 3
)

// script is what the model answers to the members of the deliberations of a seed.
type script struct {
	seed    int
	is      outcomeKind
	r       *rand.Rand
	answers map[turnKey]*scriptedAnswer
	stopAt  int64 // length of the history at which it is stopped
}

func newScript(seed int) *script {
	s := &script{seed: seed, is: outcomeKindOf(seed), r: rand.New(rand.NewPCG(uint64(seed), 11)), answers: map[turnKey]*scriptedAnswer{}}
	s.stopAt = int64(1 + s.r.IntN(120))
	for _, m := range contract.Members() {
		for turn := range scriptedTurns {
			for attempt := range scriptedAttempts {
				p := turnKey{m.Agent(), attempt + 1, turn + 1}
				s.answers[p] = s.invent(m, p)
			}
		}
		p := turnKey{agent: m.Agent()}
		s.answers[p] = &scriptedAnswer{moves: s.essential(p)}
		s.hinder(p, s.answers[p])
	}
	return s
}

// model is the name of the model that answers the seed.
func (s *script) model() string { return fmt.Sprintf("seed-%d", s.seed) }

// answer is what the model says at a place.
func (s *script) answer(p turnKey) *scriptedAnswer {
	if own, ok := s.answers[p]; ok {
		return own
	}
	return s.answers[turnKey{agent: p.agent}]
}

// invent makes up what is said at a place: what the character needs, after some
// other moves.
func (s *script) invent(m contract.Member, p turnKey) *scriptedAnswer {
	out := &scriptedAnswer{latency: time.Millisecond}
	if s.r.IntN(6) == 0 {
		out.latency = time.Duration(100+s.r.IntN(900)) * time.Millisecond
	}
	if p.turn <= noisyTurns || s.is == isRandom {
		for range s.r.IntN(4) {
			out.moves = append(out.moves, s.noise(m))
		}
	}
	out.moves = append(out.moves, s.essential(p)...)
	for i, move := range out.moves {
		move["text"] = fmt.Sprintf("seed %d, %s, attempt %d, turn %d, move %d", s.seed, m, p.attempt, p.turn, i+1)
	}
	s.hinder(p, out)
	return out
}

// noise is a move that leads to no ending by itself, except for random answers.
func (s *script) noise(m contract.Member) map[string]any {
	own := string(m.Agent())
	key := func() string {
		return []string{"alpha-p", "beta-p", "alpha-s", "beta-s", "gamma-s", "s1", "nothing", "inherited_alpha_alpha-p"}[s.r.IntN(8)]
	}
	all := []func() map[string]any{
		func() map[string]any {
			return move("message", "to", []string{"ALL", "ALPHA", "BETA", "GAMMA"}[s.r.IntN(4)])
		},
		func() map[string]any { return move("evaluate", "key", key(), "score", float64(s.r.IntN(11))/10) },
		func() map[string]any { return move("object", "key", key()) },
		func() map[string]any { return move("resolve", "key", key()) },
		func() map[string]any { return move("analyse", "complexity_score", float64(s.r.IntN(8))/10) },
		func() map[string]any { return move("synthesise", "key", own+"-s", "from", []string{key()}) },
		func() map[string]any { return move("synthesise", "key", own+"-s") },
	}
	if m != contract.Gamma {
		all = append(all,
			func() map[string]any { return move("propose", "key", own+"-p") }, func() map[string]any { return move("propose", "key", own+"-p") },
			func() map[string]any { return move("vote", "key", key(), "accept", false) },
			func() map[string]any { return move("vote", "key", key(), "accept", false, "version", 1+s.r.IntN(4)) })
	}
	if s.is == isRandom {
		all = append(all,
			func() map[string]any { return move("vote", "key", key(), "accept", true) }, func() map[string]any { return move("vote", "key", key(), "accept", true) },
			func() map[string]any { return move("done") }, func() map[string]any { return move("verdict", "key", key()) },
			func() map[string]any { return move("propose", "key", key()) }, func() map[string]any { return move("vote", "key", key()) })
	}
	return all[s.r.IntN(len(all))]()
}

// essential are the moves by which a seed's character shows at a place.
func (s *script) essential(p turnKey) []map[string]any {
	later := p.turn != 1
	accept, s1 := move("vote", "key", "s1", "accept", true), move("synthesise", "key", "s1")
	of := func(agent contract.Agent, moves ...map[string]any) []map[string]any {
		if p.agent != agent {
			return []map[string]any{move("message", "to", "ALL", "text", "go on")}
		}
		return moves
	}
	switch s.is {
	case agrees:
		switch {
		case p.agent == contract.AgentGamma:
		case p.agent == contract.AgentBeta && (p.turn == 2 || p.turn == 3 && s.seed%2 == 0):
			return []map[string]any{s1, accept}
		case later:
			return []map[string]any{accept}
		}
	case isDecided:
		switch {
		case p.agent == contract.AgentGamma:
			return []map[string]any{move("verdict", "key", "s1", "text", "It is decided.")}
		case p.turn == 1:
			return of(contract.AgentBeta, move("analyse", "complexity_score", 0.9), s1)
		}
	case isValidated:
		switch {
		case p.agent == contract.AgentGamma:
			return []map[string]any{move("verdict", "key", "s1", "text", "It holds.")}
		case p.turn == 1:
			return of(contract.AgentBeta, s1)
		default:
			return []map[string]any{accept, move("done")}
		}
	case isSilent:
		if later || p.agent == contract.AgentGamma {
			return []map[string]any{move("done")}
		}
	case oneFails, oneInvalid:
		if p.agent == contract.AgentAlpha && p.turn == 2 {
			return []map[string]any{s1, accept}
		}
		return of(contract.AgentAlpha, accept)
	case isRecovered:
		inherited := move("vote", "key", "inherited_beta_s1", "accept", true)
		switch {
		case p.attempt == 1 && p.turn == 1:
			return of(contract.AgentBeta, s1)
		case p.attempt > 1 && p.agent != contract.AgentGamma:
			return []map[string]any{inherited}
		}
	default:
	}
	return []map[string]any{move("message", "to", []string{"ALL", "ALPHA", "BETA"}[s.r.IntN(3)], "text", "go on")}
}

// hinder makes an answer fail where its kind of outcome needs that, or at random.
func (s *script) hinder(p turnKey, a *scriptedAnswer) {
	switch {
	case s.is == bothFail && p.agent != contract.AgentGamma && (p.turn == 0 || p.turn > 1+s.seed%2),
		s.is == oneFails && p.agent == contract.AgentBeta && (p.turn == 0 || p.turn > s.seed%3):
		a.status = 401
	case (s.is == isStuck || s.is == isLate) && p.turn != 1, (s.is == isStuck || s.is == isLate) && p.agent == contract.AgentGamma:
		a.latency = asleepFor
	case s.is == oneInvalid && p.agent == contract.AgentBeta:
		a.text = "I would rather talk."
	case s.is == isRandom && p.turn > 0:
		switch dice := s.r.IntN(60); {
		case dice < 6:
			a.text = strings.Repeat("{", 1+dice)
		case dice < 7:
			a.latency = asleepFor
		case dice < 8:
			a.status = 401
		case dice < 11:
			a.busy = true
		}
	}
}

// settings are those that the character needs. Nothing but what is said ends a
// deliberation by the clock, unless that is its character.
func (s *script) settings() contract.DeliberationSettings {
	m := contract.ModelChoice{Provider: "scripted", Model: s.model()}
	out := contract.DeliberationSettings{
		Mode: contract.ModeLocal, AutoContinue: s.seed%4 != 3, ModelTimeout: 20 * time.Minute,
		Models:          map[contract.Agent]contract.ModelChoice{contract.AgentAlpha: m, contract.AgentBeta: m, contract.AgentGamma: m},
		GammaStuckAfter: time.Hour, GammaConflictAt: 2 + s.seed%3, GammaComplexityOver: 0.8, AbortAfter: time.Hour, Iterations: 8,
		Timeout: time.Hour, OpeningTimeout: time.Hour, ContinueWait: time.Hour,
		ErrorLimit: 90, RepeatLimit: 90, ViolationLimit: 1, MovesPerTurn: 8, TextLimit: 64 << 10, Entries: 100,
	}
	switch s.is {
	case talks:
		out.Iterations = 3
	case isStuck:
		out.GammaStuckAfter, out.AbortAfter = time.Second, 4*time.Second
	case isLate:
		out.Timeout = 3 * time.Second
	case oneInvalid:
		out.RepeatLimit = 2
	case isRecovered:
		out.Iterations, out.Recoveries = 3, 1
	case recoveryFails:
		out.Iterations, out.Recoveries = 1, 2
	case isStopped:
		out.Iterations = 50
	case neverContinued:
		out.AutoContinue, out.ContinueWait = false, time.Second
	case isRandom:
		out.Iterations, out.Recoveries, out.ErrorLimit, out.RepeatLimit = 4, s.seed/2%2, 8, 2
		out.OpeningTimeout, out.GammaStuckAfter, out.AbortAfter = 3*time.Second, 2*time.Second, 6*time.Second
		if s.seed >= len(outcomeKinds()) { // many at once take their time
			out.OpeningTimeout, out.GammaStuckAfter, out.AbortAfter = 15*time.Second, 10*time.Second, 30*time.Second
		}
	default:
	}
	return out
}

// add adds the script's rules to those of a stack.
func (s *script) add(all harness.Rules) harness.Rules {
	for _, m := range contract.Members() {
		for attempt := range scriptedAttempts {
			for turn := range scriptedTurns {
				all = s.addOne(all, turnKey{m.Agent(), attempt + 1, turn + 1})
			}
		}
		all = s.addOne(all, turnKey{agent: m.Agent()})
	}
	return all
}

func (s *script) addOne(all harness.Rules, p turnKey) harness.Rules {
	a := s.answers[p]
	when := on("agent", string(p.agent), "model", s.model())
	if p.turn > 0 {
		when["attempt"], when["turn"] = p.attempt, p.turn
	}
	if a.busy {
		all = append(all, map[string]any{"when": when, "times": 1, "fault": map[string]any{"status": 500}})
	}
	r := map[string]any{"when": when, "latency": a.latency.String(), "usage": map[string]any{"prompt_tokens": 100 + p.turn, "completion_tokens": 10}}
	switch {
	case a.status != 0:
		r = map[string]any{"when": when, "fault": map[string]any{"status": a.status}}
	case a.text != "":
		r["reply"] = map[string]any{"text": a.text}
	default:
		if a.moves == nil {
			a.moves = []map[string]any{}
		}
		r["reply"] = map[string]any{"json": map[string]any{"moves": a.moves}}
	}
	all = append(all, r)
	a.rule = len(all)
	return all
}

// said are the moves of a plain answer as its deliberation is told of them.
func (a *scriptedAnswer) said(s contract.DeliberationSettings) ([]contract.Move, error) {
	raw, err := json.Marshal(map[string]any{"moves": a.moves})
	if err != nil {
		return nil, err
	}
	whole, err := verdict.ReadMoves(string(raw), verdict.MoveBounds{Moves: s.MovesPerTurn, Text: s.TextLimit})
	out := make([]contract.Move, len(whole))
	for i, m := range whole {
		out[i] = m.Move
		out[i].Text = contract.Text{Head: m.Whole, Size: len(m.Whole)}
	}
	return out, err
}

// ends checks that the last deliberation of a chain ended as its character lets it.
func (s *script) ends(t *testing.T, last contract.DeliberationResult) {
	t.Helper()
	code := contract.Code("")
	if last.Failure != nil {
		code = last.Failure.Code
	}
	got := []any{last.Status, last.AbortReason, last.Attempts}
	want := map[outcomeKind][]any{
		agrees: {contract.PipelineCompleted, contract.AbortReason(""), 1}, isDecided: {contract.PipelineCompleted, contract.AbortReason(""), 1},
		isValidated: {contract.PipelineCompleted, contract.AbortReason(""), 1}, talks: {contract.PipelineOrchestrationFailed, contract.AbortIterationLimit, 1},
		isStuck: {contract.PipelineOrchestrationFailed, contract.AbortStuck, 1}, isLate: {contract.PipelineTimeout, contract.AbortTimeout, 1},
		isSilent: {contract.PipelineOrchestrationFailed, contract.AbortReason(""), 1}, bothFail: {contract.PipelineFailed, contract.AbortReason(""), 1},
		oneFails: {contract.PipelineCompleted, contract.AbortReason(""), 1}, oneInvalid: {contract.PipelineCompleted, contract.AbortReason(""), 1},
		isRecovered: {contract.PipelineCompleted, contract.AbortReason(""), 2}, recoveryFails: {contract.PipelineOrchestrationFailed, contract.AbortIterationLimit, 3},
		isStopped: {contract.PipelineStopped, contract.AbortReason(""), 1}, neverContinued: {contract.PipelineStopped, contract.AbortReason(""), 1},
		isRandom: got,
	}[s.is]
	require.Equal(t, want, got, "seed %d %s: %v", s.seed, s.is, last.Failure)
	require.True(t, last.Status.Terminal(), "seed %d", s.seed)
	switch s.is {
	case isDecided:
		require.Equal(t, contract.Gamma, last.By, "seed %d", s.seed)
	case isStopped:
		require.Equal(t, contract.CodeCancelled, code, "seed %d", s.seed)
	case neverContinued:
		require.Equal(t, contract.CodeApprovalExpired, code, "seed %d", s.seed)
	default:
	}
}
