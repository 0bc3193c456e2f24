package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

// The targets for deliberations. They are printed next to the measurements; missing one is not a
// failure.
const (
	aimSeen   = 100 * time.Millisecond // p95, from a message to the other agent's call, when idle
	aimEvents = 1500                   // of all workflows of a deliberation
)

// The objectives of the deliberations, by which the scenario distinguishes them.
const (
	topicDebate   = "Bench of agents that speak at the same time."
	topicDialogue = "Bench of agents that wait for each other."
	topicEndless  = "Bench of agents that never agree."
)

const (
	deliberationTokens = 100 // of each prompt
	answerTokens       = 10
	dialogueFrom       = 2 // first turn after the opening, from which BETA only writes and waits
	spokenTurns        = 4 // last turn with messages; after it, the agents vote
	idleRuns           = 20
	warmRuns           = 2
)

// marked returns the mark by which a message can be found in the prompts of other agents.
func marked(agent contract.Agent, turn int) string {
	return fmt.Sprintf("[said by %s in turn %d]", agent, turn)
}

// deliberationRules returns the responses of ALPHA, BETA and GAMMA. In a debate, both speak in each
// turn, independently of each other. In a dialogue, BETA is done until it receives a message, so
// the recipient of a message is always waiting.
func deliberationRules() []map[string]any {
	move := func(kind contract.MoveKind, more ...any) map[string]any {
		m := map[string]any{"move": string(kind)}
		for i := 0; i+1 < len(more); i += 2 {
			m[more[i].(string)] = more[i+1] //nolint:forcetypeassert // written below
		}
		return m
	}
	var rules []map[string]any
	rule := func(topic string, agent contract.Agent, turn int, moves ...map[string]any) {
		when := map[string]any{"agent": string(agent), "contains": topic}
		if turn > 0 {
			when["turn"] = turn
		}
		rules = append(rules, map[string]any{
			"when": when, "reply": map[string]any{"json": map[string]any{"moves": moves}},
			"usage": map[string]any{"prompt_tokens": deliberationTokens, "completion_tokens": answerTokens},
		})
	}
	say := func(agent contract.Agent, turn int) map[string]any {
		to := contract.Beta
		if agent == contract.AgentBeta {
			to = contract.Alpha
		}
		return move(contract.MoveMessage, "to", string(to), "text", "What about this? "+marked(agent, turn))
	}
	alpha, beta, gamma := contract.AgentAlpha, contract.AgentBeta, contract.AgentGamma
	accept := move(contract.MoveVote, "key", "s1", "version", 1, "accept", true, "text", "Yes.")
	for _, topic := range []string{topicDebate, topicDialogue, topicEndless} {
		rule(topic, alpha, 1, move(contract.MoveAnalyse, "complexity_score", 0.4, "text", "Two ways."), move(contract.MovePropose, "key", "p1", "text", "One way."))
		rule(topic, beta, 1, move(contract.MovePropose, "key", "p2", "text", "Another way."))
	}
	synthesise := move(contract.MoveSynthesise, "key", "s1", "from", []string{"p1", "p2"}, "text", "Both ways.")
	rule(topicDebate, alpha, 2, say(alpha, 2))
	rule(topicDebate, beta, 2, synthesise, say(beta, 2))
	for turn := 3; turn <= spokenTurns; turn++ {
		rule(topicDebate, alpha, turn, say(alpha, turn))
		rule(topicDebate, beta, turn, say(beta, turn))
	}
	rule(topicDialogue, alpha, 2, say(alpha, 2))
	rule(topicDialogue, beta, dialogueFrom, synthesise, move(contract.MoveDone, "text", "Until I am asked."))
	for turn := 3; turn <= spokenTurns; turn++ {
		rule(topicDialogue, beta, turn, say(beta, turn))
		rule(topicDialogue, alpha, turn, say(alpha, turn))
	}
	hm := move(contract.MoveMessage, "to", "ALL", "text", "Let me think.")
	for _, agent := range []contract.Agent{alpha, beta} {
		rule(topicDebate, agent, 0, accept)
		rule(topicDialogue, agent, 0, accept)
	}
	for _, agent := range []contract.Agent{alpha, beta, gamma} {
		rule(topicEndless, agent, 0, hm)
	}
	return rules
}

// deliberationResult has the cost of deliberations and of bare signals.
type deliberationResult struct {
	Phases  []topicResult  `json:"phases"`
	Endless *endlessResult `json:"endless"`
	Signals []signalResult `json:"bare_signals,omitempty"`
}

// topicResult has the measurements of a number of deliberations.
type topicResult struct {
	Topic  string `json:"topic"`
	N      int    `json:"n"`
	AtOnce bool   `json:"at_once"`

	Ended     map[contract.PipelineStatus]int `json:"ended"`     // recoveries are not counted
	Recovered int                             `json:"recovered"` // followed by a recovery
	Wall      float64                         `json:"wall_seconds"`
	Decisions float64                         `json:"decisions_per_second"`
	Turns     float64                         `json:"turns_per_second"`
	EachP50   int64                           `json:"each_p50_ms"` // from spawn to decision
	EachP95   int64                           `json:"each_p95_ms"`

	Sent    int     `json:"messages"`
	Seen    int     `json:"messages_seen"`
	SeenP50 float64 `json:"seen_p50_ms"`
	SeenP95 float64 `json:"seen_p95_ms"`
	SeenMax float64 `json:"seen_max_ms"`

	EventsP50 int `json:"events_p50"` // of all workflows of one
	EventsMax int `json:"events_max"`
	Calls     int `json:"calls_p50"` // model calls of one
	Late      int `json:"late_openings"`
	Gamma     int `json:"with_gamma"`

	Load cpuLoad `json:"load"`
}

// endlessResult has the maximum size of a deliberation with its recoveries.
type endlessResult struct {
	Attempts      int `json:"attempts"`
	Calls         int `json:"calls"`
	Events        int `json:"events_max"`     // of one attempt
	All           int `json:"events_all"`     // of all attempts
	Longest       int `json:"events_history"` // of one history
	Deliberations int `json:"deliberations"`
}

// signalResult has the durations of bare round trips.
type signalResult struct {
	Pairs  int     `json:"pairs"`
	AtOnce bool    `json:"at_once"`
	N      int     `json:"round_trips"`
	P50    float64 `json:"p50_ms"`
	P95    float64 `json:"p95_ms"`
	Each   float64 `json:"per_second"`
}

func measureDeliberations(ctx context.Context, h *benchStack, o options, say func(string, ...any)) (*deliberationResult, error) {
	d := &deliberationResult{}
	if _, err := h.deliberate(ctx, topicDebate, warmRuns, false); err != nil {
		return nil, err
	}
	for _, p := range []struct {
		topic  string
		n      int
		atOnce bool
	}{{topicDialogue, idleRuns, false}, {topicDebate, idleRuns, false}, {topicDialogue, o.deliberations, true}, {topicDebate, o.deliberations, true}} {
		say("%d deliberations, %s", p.n, how(p.atOnce))
		one, err := h.deliberate(ctx, p.topic, p.n, p.atOnce)
		if err != nil {
			return nil, err
		}
		d.Phases = append(d.Phases, one)
	}
	say("Deliberations that never agree")
	var err error
	if d.Endless, err = h.disagree(ctx); err != nil || !o.bare {
		return d, err
	}
	say("Bare signals")
	d.Signals, err = h.signals(ctx, o.deliberations)
	return d, err
}

func how(atOnce bool) string {
	if atOnce {
		return "all at once"
	}
	return "one by one"
}

// deliberate runs a number of pipelines, and checks that each one that reached a decision did so
// once.
func (h *benchStack) deliberate(ctx context.Context, topic string, n int, atOnce bool) (topicResult, error) {
	r := topicResult{Topic: topic, N: n, AtOnce: atOnce, Ended: map[contract.PipelineStatus]int{}}
	h.model.forget()
	pipelines, took := make([]int64, n), make([]time.Duration, n)
	meter, begun := startMeter(h), time.Now()
	group, together := errgroup.WithContext(ctx)
	if !atOnce {
		group.SetLimit(1)
	}
	for i := range n {
		group.Go(func() (err error) {
			from := time.Now()
			pipelines[i], err = h.spawn(together, topic)
			if err != nil {
				return err
			}
			err = h.decided(together, pipelines[i])
			took[i] = time.Since(from)
			return err
		})
	}
	err := group.Wait()
	r.Load, r.Wall = meter.stop(), time.Since(begun).Seconds()
	if err != nil {
		return r, err
	}
	r.EachP50, r.EachP95 = median(took, time.Duration.Milliseconds), quantile(took, 0.95, time.Duration.Milliseconds)
	err = h.readAll(ctx, pipelines, &r)
	r.Decisions = float64(r.Ended[contract.PipelineCompleted]) / r.Wall
	return r, err
}

// lateIn counts the agents whose opening was late.
func lateIn(report contract.DeliberationReport) (n int) {
	for _, m := range report.Agents {
		if m.Status == contract.MemberTimedOut {
			n++
		}
	}
	return n
}

// readAll reads the records of pipelines and the model's log of them.
func (h *benchStack) readAll(ctx context.Context, pipelines []int64, r *topicResult) error {
	var events, calls []int
	var seen []time.Duration
	for _, id := range pipelines {
		p, err := h.store.Pipeline(ctx, id)
		if err != nil {
			return err
		}
		answered, heard := h.model.of(p.RunID)
		r.Ended[p.Status]++
		if p.RecoveredBy != 0 {
			r.Recovered++
		}
		if p.Status == contract.PipelineCompleted {
			if err := h.requireOnce(ctx, p, answered); err != nil {
				return err
			}
		}
		n, _, err := h.eventsOf(ctx, p)
		if err != nil {
			return err
		}
		report, err := h.store.PipelineReport(ctx, id, contract.ReportCheckpoint, false)
		if err != nil {
			return err
		}
		r.Late += lateIn(report)
		if p.Metrics.GammaSpawned {
			r.Gamma++
		}
		events, calls = append(events, n), append(calls, answered)
		for _, w := range heard {
			r.Sent++
			if !w.heard.IsZero() {
				seen = append(seen, w.heard.Sub(w.said))
			}
		}
		r.Turns += float64(answered) / r.Wall
	}
	same := func(n int) int { return n }
	r.EventsP50, r.EventsMax, r.Calls, r.Seen = median(events, same), slices.Max(events), median(calls, same), len(seen)
	if len(seen) == 0 {
		return fmt.Errorf("none of %d messages was delivered", r.Sent)
	}
	r.SeenP50, r.SeenP95, r.SeenMax = quantile(seen, 0.5, milli), quantile(seen, 0.95, milli), milli(slices.Max(seen))
	return nil
}

// spawn creates a pipeline and starts its workflow, as the server does.
func (h *benchStack) spawn(ctx context.Context, topic string) (int64, error) {
	p, _, err := h.store.SpawnPipeline(ctx, store.NewPipelineRow{Task: contract.DeliberationTask{Objective: topic}, Settings: h.deliberation})
	if err != nil {
		return 0, err
	}
	return p.ID, temporal.StartPipeline(ctx, h.temporal, h.store, p)
}

// decided waits for a pipeline's workflow and for its recoveries.
func (h *benchStack) decided(ctx context.Context, id int64) error {
	return h.temporal.GetWorkflow(ctx, contract.PipelineWorkflowID(id), "").Get(ctx, nil)
}

// requireOnce checks that a pipeline that reached a consensus without a recovery was reported and
// paid for exactly once: its row, its events, its budget and the model agree.
func (h *benchStack) requireOnce(ctx context.Context, p store.Pipeline, answered int) error {
	events, err := h.store.Events(ctx, p.RunID, 0, 1000)
	if err != nil {
		return err
	}
	told := map[contract.EventType]int{}
	for i, e := range events {
		told[e.Type]++
		if e.Seq != int64(i+1) {
			return fmt.Errorf("event %d of pipeline %d has number %d", i+1, p.ID, e.Seq)
		}
	}
	messages, err := h.store.PipelineMessages(ctx, p.ID, 0, 0, false)
	if err != nil {
		return err
	}
	calls, err := h.store.ModelCalls(ctx, p.RunID)
	if err != nil {
		return err
	}
	budget, err := h.store.Budget(ctx, store.ScopeRun, fmt.Sprint(p.RunID))
	if err != nil {
		return err
	}
	tokens := int64(answered) * (deliberationTokens + answerTokens)
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"status", p.Status, contract.PipelineCompleted},
		{"spawned", told[contract.EventPipelineSpawned], 1},
		{"decided", told[contract.EventConsensusReached], 1},
		{"ended", told[contract.EventOrchestrationComplete], 1},
		{"members joined", told[contract.EventAgentSpawned], len(p.Members)},
		{"members ended", told[contract.EventAgentEnded], len(p.Members)},
		{"messages told", told[contract.EventAgentMessage], p.Metrics.TotalMessages},
		{"messages kept", len(messages), p.Metrics.TotalMessages},
		{"votes told", told[contract.EventVoteCast], p.Metrics.Votes},
		{"refused", p.Metrics.Refused, 0},
		{"model calls", len(calls), answered},
		{"tokens paid", budget.SpentTokens, tokens},
		{"tokens held", budget.ReservedTokens, int64(0)},
	} {
		if c.got != c.want {
			return fmt.Errorf("pipeline %d, %s: got %v, want %v", p.ID, c.what, c.got, c.want)
		}
	}
	return nil
}

// eventsOf counts the events of a pipeline's workflow and of its members' workflows, in total and
// in the longest history.
func (h *benchStack) eventsOf(ctx context.Context, p store.Pipeline) (all, longest int, err error) {
	ids := []string{contract.PipelineWorkflowID(p.ID)}
	for _, m := range p.Members {
		ids = append(ids, contract.MemberWorkflowID(p.ID, m.Member))
	}
	for _, id := range ids {
		d, err := h.temporal.DescribeWorkflowExecution(ctx, id, "")
		if err != nil {
			return 0, 0, fmt.Errorf("count the events of %s: %w", id, err)
		}
		n := int(d.GetWorkflowExecutionInfo().GetHistoryLength())
		all, longest = all+n, max(longest, n)
	}
	return all, longest, nil
}

// disagree runs pipelines that use up all their rounds and recoveries.
func (h *benchStack) disagree(ctx context.Context) (*endlessResult, error) {
	r := &endlessResult{Deliberations: warmRuns}
	for range r.Deliberations {
		id, err := h.spawn(ctx, topicEndless)
		if err != nil {
			return nil, err
		}
		if err := h.decided(ctx, id); err != nil {
			return nil, err
		}
		attempts, all, run := 0, 0, int64(0)
		for next := id; next != 0; attempts++ {
			p, err := h.store.Pipeline(ctx, next)
			if err != nil {
				return nil, err
			}
			if p.AbortReason != contract.AbortIterationLimit {
				return nil, fmt.Errorf("pipeline %d should have used up its rounds, but ended as %s (%s)", p.ID, p.Status, p.AbortReason)
			}
			n, longest, err := h.eventsOf(ctx, p)
			if err != nil {
				return nil, err
			}
			all, r.Events, r.Longest = all+n, max(r.Events, n), max(r.Longest, longest)
			run, next = p.RunID, p.RecoveredBy
		}
		answered, _ := h.model.of(run)
		r.Attempts, r.All, r.Calls = max(r.Attempts, attempts), max(r.All, all), max(r.Calls, answered)
	}
	return r, nil
}

func (d *deliberationResult) print(out io.Writer) error {
	if d == nil {
		return nil
	}
	for _, print := range []func(io.Writer) error{d.printDecisions, d.printMessages, d.printEvents} {
		if err := print(out); err != nil {
			return err
		}
	}
	return nil
}

// name describes the measurement.
func (p topicResult) name() []string {
	topic := "speak at the same time"
	if p.Topic == topicDialogue {
		topic = "wait for each other"
	}
	return []string{topic, fmt.Sprintf("%d, %s", p.N, how(p.AtOnce))}
}

// ended returns the outcomes of the deliberations.
func (p topicResult) ended() string {
	var parts []string
	for _, s := range contract.PipelineStatuses() {
		if n := p.Ended[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	return strings.Join(parts, ", ")
}

func (d *deliberationResult) printDecisions(out io.Writer) error {
	t := newTable(out, "Deliberations with zero model latency; every completed one was completed exactly once (CPU milliseconds per deliberation; other: unrelated processes, which distort the numbers)",
		"AGENTS", "DELIBERATIONS", "ENDED", "RECOVERED", "WALL", "DECISIONS/S", "TURNS/S", "EACH P50", "P95", "LATE OPENINGS", "WITH GAMMA", "WORKER", "TEMPORAL", "POSTGRES", "MODEL", "OTHER")
	for _, p := range d.Phases {
		each := func(seconds float64) string { return fmt.Sprintf("%.0f", 1000*seconds/float64(p.N)) }
		by := map[string]float64{}
		for _, u := range p.Load.Processes {
			by[u.Role] = u.CPU + u.Children
		}
		t.row(append(p.name(), p.ended(), fmt.Sprint(p.Recovered), fmt.Sprintf("%.1f s", p.Wall), fmt.Sprintf("%.2f", p.Decisions), fmt.Sprintf("%.1f", p.Turns), ms(p.EachP50), ms(p.EachP95),
			fmt.Sprint(p.Late), fmt.Sprint(p.Gamma), each(by["worker"]), each(by["temporal"]), each(by["postgres"]), each(p.Load.Bench), each(p.Load.Strangers))...)
	}
	return t.Flush()
}

// bareOf returns the bare signals measured under the same load.
func (d *deliberationResult) bareOf(atOnce bool) (signalResult, bool) {
	for _, s := range d.Signals {
		if s.AtOnce == atOnce {
			return s, true
		}
	}
	return signalResult{}, false
}

func (d *deliberationResult) printMessages(out io.Writer) error {
	t := newTable(out, "From a message to the other agent: from the first byte of the model's response that contains it to the end of the model request that contains it (bare: a signal from one workflow to another and back)",
		"WHAT", "HOW MANY", "MESSAGES", "SEEN", "P50", "P95", "MAX", "AIM FOR P95", "P50 TO BARE", "P95 TO BARE")
	tenth := func(f float64) string { return fmt.Sprintf("%.1f ms", f) }
	for _, p := range d.Phases {
		aim := ""
		if !p.AtOnce {
			aim = "< " + aimSeen.String()
		}
		cells := append(p.name(), fmt.Sprint(p.Sent), fmt.Sprint(p.Seen), tenth(p.SeenP50), tenth(p.SeenP95), tenth(p.SeenMax), aim)
		if bare, ok := d.bareOf(p.AtOnce); ok {
			cells = append(cells, ratio(p.SeenP50/bare.P50), ratio(p.SeenP95/bare.P95))
		}
		t.row(cells...)
	}
	for _, s := range d.Signals {
		t.row("bare round trip", fmt.Sprintf("%d pairs, %s", s.Pairs, how(s.AtOnce)), fmt.Sprint(s.N), "", tenth(s.P50), tenth(s.P95))
	}
	return t.Flush()
}

func (d *deliberationResult) printEvents(out io.Writer) error {
	t := newTable(out, "Events in the histories of a deliberation, including its members", "DELIBERATIONS", "HOW MANY", "MODEL CALLS", "EVENTS P50", "MAX", "AIM")
	aim := fmt.Sprintf("< %d", aimEvents)
	for _, p := range d.Phases {
		t.row(append(p.name(), fmt.Sprint(p.Calls), fmt.Sprint(p.EventsP50), fmt.Sprint(p.EventsMax), aim)...)
	}
	if e := d.Endless; e != nil {
		n := fmt.Sprint(e.Deliberations)
		t.row("never agree: all rounds, the longest attempt", n, "", "", fmt.Sprint(e.Events), aim)
		t.row("  its longest history", n, "", "", fmt.Sprint(e.Longest), "")
		t.row(fmt.Sprintf("  all %d attempts together", e.Attempts), n, fmt.Sprint(e.Calls), "", fmt.Sprint(e.All), "")
	}
	return t.Flush()
}
