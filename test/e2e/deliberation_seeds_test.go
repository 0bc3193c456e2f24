package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdktemporal "go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/temporal"
	"github.com/rocketgpt/orchestrator/test/harness"
)

const (
	// seedsEnv says how many seeded deliberations there are; without it there is
	// one of each character, and with RGPT_STRESS=full there are allSeeds.
	seedsEnv = "RGPT_SEEDS"
	allSeeds = 1000
	// seedsOnAStack are under way at the same time, on a stack of their own.
	seedsOnAStack = 50
	// seedTime is how long all of a stack may take.
	seedTime = 25 * time.Minute
)

// TestSeededDeliberationsLoseAndRepeatNothingWhateverSignalsCome lets deliberations
// go on at the same time whose models say what their seeds make up, while signals
// of their members come again, late, early, and side by side, and others that are
// forged. Each answer that was taken counts once, and nothing else does.
func TestSeededDeliberationsLoseAndRepeatNothingWhateverSignalsCome(t *testing.T) {
	t.Parallel()
	n := seeds(t)
	endings, sums := map[string]int{}, map[string]int{}
	for from := 0; from < n; from += seedsOnAStack {
		to := min(n, from+seedsOnAStack)
		t.Run(fmt.Sprintf("seeds %d to %d", from, to-1), func(t *testing.T) { seeded(t, from, to, endings, sums) })
	}
	t.Logf("%d deliberations: %v; %v", n, endings, sums)
	if n >= len(outcomeKinds()) {
		for _, want := range []string{
			"COMPLETED", "COMPLETED by GAMMA", "ORCHESTRATION_FAILED", "ORCHESTRATION_FAILED iteration_limit", "ORCHESTRATION_FAILED stuck", "TIMEOUT timeout", "FAILED", "STOPPED",
		} {
			require.Positive(t, endings[want], "no deliberation ended as %s: %v", want, endings)
		}
		for _, what := range []string{"moves sent again", "moves sent early", "moves forged", "turns sent again"} {
			require.Positive(t, sums[what], "nothing is disturbed by %s: %v", what, sums)
		}
	}
}

// seeds is how many deliberations there are.
func seeds(t *testing.T) int {
	t.Helper()
	if os.Getenv("RGPT_STRESS") == "full" {
		return allSeeds
	}
	n := len(outcomeKinds())
	if text := os.Getenv(seedsEnv); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err, seedsEnv)
		require.Positive(t, n, seedsEnv)
	}
	return n
}

// seeded lets the deliberations of some seeds go on at once, on one stack, and checks
// what became of them.
func seeded(t *testing.T, from, to int, endings, sums map[string]int) {
	began := time.Now()
	var rules harness.Rules
	var all []*seedTrial
	for seed := from; seed < to; seed++ {
		s := newScript(seed)
		rules = s.add(rules)
		all = append(all, &seedTrial{script: s, r: rand.New(rand.NewPCG(uint64(seed), 13)), early: map[string]bool{}, sums: map[string]int{}})
	}
	c := &pipelineTests{Stack: harness.Start(t, harness.Options{Scenario: rules})}
	ctx, cancel := context.WithTimeout(t.Context(), seedTime)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, d := range all {
		d.db, d.client = c.Store(t), c.Temporal(t)
		group.Go(func() error {
			if err := d.run(ctx); err != nil {
				return fmt.Errorf("seed %d, pipelines %v: %w", d.script.seed, d.chain, err)
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	over := time.Since(began)
	pipelines := c.checkSeeds(t, all, endings, sums)
	harness.CheckPipelines(t, c.Stack, c.pipelines...)
	t.Logf("%d pipelines were over after %s and checked after %s; so far: %v; %v", pipelines, over, time.Since(began), endings, sums)
}

// checkSeeds checks what became of each deliberation, counts how they ended, and
// returns how many there were, with those that recovered others.
func (c *pipelineTests) checkSeeds(t *testing.T, all []*seedTrial, endings, sums map[string]int) (pipelines int) {
	t.Helper()
	log := map[int64][]scripted.LogEntry{}
	for _, e := range c.Requests(t) {
		log[e.Run] = append(log[e.Run], e)
	}
	for _, d := range all {
		pipelines += len(d.chain)
		c.note(d.chain[0])
		for _, id := range d.chain {
			p := c.pipeline(t, id)
			endings[endingOf(p)]++
			c.checkSeed(t, d, p, log[p.RunID])
		}
		d.script.ends(t, d.result)
		for k, n := range d.sums {
			sums[k] += n
		}
	}
	return pipelines
}

// endingOf says how a deliberation ended.
func endingOf(p store.Pipeline) string {
	out := string(p.Status)
	if p.AbortReason != "" {
		out += " " + string(p.AbortReason)
	}
	if p.Consensus != nil && p.Consensus.Author == contract.Gamma {
		out += " by GAMMA"
	}
	return out
}

// seedTrial is a deliberation of a seed, with those that recover it, under faults and
// with messages from others.
type seedTrial struct {
	script *script
	db     *store.Store
	client client.Client
	chain  []int64 // pipelines
	result contract.DeliberationResult

	mu     sync.Mutex
	r      *rand.Rand
	heard  []sentMoves     // moves of members as they came first
	early  map[string]bool // turns whose moves were sent before their members'
	sums   map[string]int
	copies sync.WaitGroup
	failed []error
}

// sentMoves is what a member said, or was told.
type sentMoves struct {
	pipeline int64
	moves    contract.Moves
}

// run starts the deliberation, disturbs it and those that recover it until they
// are over, and says it all again afterwards.
func (d *seedTrial) run(ctx context.Context) error {
	p, _, err := d.db.SpawnPipeline(ctx, store.NewPipelineRow{
		Task: contract.DeliberationTask{TaskID: d.script.model(), Objective: fmt.Sprint("Deliberate as seed ", d.script.seed, " does")}, Settings: d.script.settings(),
	})
	if err != nil {
		return err
	}
	if err := temporal.StartPipeline(ctx, d.client, d.db, p); err != nil {
		return err
	}
	d.chain = []int64{p.ID}
	for i := 0; i < len(d.chain); i++ { // which grows by recoveries
		next, err := d.follow(ctx, d.chain[i])
		if err != nil {
			return err
		}
		if next != 0 {
			d.chain = append(d.chain, next)
		}
	}
	if err := d.client.GetWorkflow(ctx, contract.PipelineWorkflowID(p.ID), "").Get(ctx, &d.result); err != nil {
		return err
	}
	for _, l := range d.heard { // after the end of all
		d.send(ctx, l.pipeline, l.moves, "moves sent late")
	}
	d.copies.Wait()
	return errors.Join(d.failed...)
}

// follow disturbs a pipeline at what happens in it, until it is over or recovered.
// It returns the one that recovers it, if there is one.
func (d *seedTrial) follow(ctx context.Context, id int64) (int64, error) {
	var next int64
	err := harness.Follow(ctx, d.client, contract.PipelineWorkflowID(id), func(e *historypb.HistoryEvent) (bool, error) {
		child := e.GetChildWorkflowExecutionStartedEventAttributes()
		if child.GetWorkflowType().GetName() == contract.WorkflowDeliberation {
			_, err := fmt.Sscanf(child.GetWorkflowExecution().GetWorkflowId(), "pipeline-%d", &next)
			return true, err
		}
		if d.script.is == isStopped && e.GetEventId() == d.script.stopAt {
			d.command(ctx, id, contract.UpdateStop)
		}
		return false, d.sendNoise(ctx, id, e)
	})
	return next, err
}

// sendNoise does what a seed makes up when something happens.
func (d *seedTrial) sendNoise(ctx context.Context, id int64, e *historypb.HistoryEvent) error {
	if a := e.GetSignalExternalWorkflowExecutionInitiatedEventAttributes(); a.GetSignalName() == contract.SignalTurn {
		var turn contract.Turn
		if err := converter.GetDefaultDataConverter().FromPayloads(a.GetInput(), &turn); err != nil {
			return err
		}
		for range d.random(2) {
			d.signal(ctx, a.GetWorkflowExecution().GetWorkflowId(), contract.SignalTurn, turn, "turns sent again")
		}
		return nil
	}
	a := e.GetWorkflowExecutionSignaledEventAttributes()
	if a.GetSignalName() != contract.SignalMoves {
		return nil
	}
	var m contract.Moves
	if err := converter.GetDefaultDataConverter().FromPayloads(a.GetInput(), &m); err != nil {
		return err
	}
	if m.Turn > forgedTurn || d.known(id, m) {
		return nil
	}
	if len(d.heard) == 0 && !d.script.settings().AutoContinue && d.script.is != neverContinued {
		d.command(ctx, id, contract.UpdateContinue)
	}
	d.heard = append(d.heard, sentMoves{id, m})
	for range d.random(3) {
		d.send(ctx, id, m, "moves sent again")
	}
	for range d.random(2) { // out of their order: some that came long ago, to whatever deliberation
		l := d.heard[d.random(len(d.heard))]
		d.send(ctx, []int64{id, l.pipeline}[d.random(2)], l.moves, "moves sent late")
	}
	d.forge(ctx, id, m)
	return d.sendEarly(ctx, id, m)
}

// known reports whether moves have come before, or are not of a member at all.
func (d *seedTrial) known(id int64, m contract.Moves) bool {
	return m.ExecutionID == 0 || slices.ContainsFunc(d.heard, func(l sentMoves) bool {
		return l.moves.Token == m.Token && (l.moves.Turn == m.Turn || l.pipeline != id)
	})
}

// random returns a number below n.
func (d *seedTrial) random(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// forge says something in a member's name that it did not say.
func (d *seedTrial) forge(ctx context.Context, id int64, m contract.Moves) {
	m.ExecutionID = 0
	m.Moves, m.Bad = []contract.Move{{Kind: contract.MoveSynthesise, Key: "evil", Text: contract.Text{Head: "mine", Size: 4}}, {Kind: contract.MoveVerdict, Key: "evil"}}, nil
	switch d.random(6) {
	case 0:
		m.Token = fmt.Sprint("guess-", m.Turn)
		d.send(ctx, id, m, "moves forged")
	case 1:
		m.Turn += forgedTurn
		d.send(ctx, id, m, "moves forged")
	}
}

// sendEarly sends what a member will say in its next turns before it is asked, the last
// first or the first first. A seed of four does.
func (d *seedTrial) sendEarly(ctx context.Context, id int64, m contract.Moves) error {
	if d.script.seed%4 != 0 || d.early[turnOf(id, m.Member, m.Turn)] {
		return nil
	}
	var ahead []contract.Moves
	for next := m.Turn + 1; next <= m.Turn+2; next++ {
		a := d.script.answer(turnKey{m.Member.Agent(), m.Attempt, next})
		if !a.plain() {
			break
		}
		said, err := a.said(d.script.settings())
		if err != nil {
			return fmt.Errorf("what %s says in turn %d: %w", m.Member, next, err)
		}
		own := m
		own.Turn, own.Moves, own.Bad, own.Usage = next, said, nil, contract.Usage{}
		ahead = append(ahead, own)
	}
	if d.random(2) == 0 {
		slices.Reverse(ahead)
	}
	for _, own := range ahead {
		d.early[turnOf(id, own.Member, own.Turn)] = true
		d.mu.Lock()
		d.sums["moves sent early"]++
		d.mu.Unlock()
		if err := d.gone(d.client.SignalWorkflow(ctx, contract.PipelineWorkflowID(id), "", contract.SignalMoves, own)); err != nil {
			return err
		}
	}
	return nil
}

func turnOf(pipeline int64, m contract.Member, turn int) string {
	return fmt.Sprint(pipeline, " ", m, " ", turn)
}

// send lets moves come once more, beside whatever else happens: as a signal, or as
// the update that stands for it.
func (d *seedTrial) send(ctx context.Context, id int64, m contract.Moves, what string) {
	if d.random(6) > 0 {
		d.signal(ctx, contract.PipelineWorkflowID(id), contract.SignalMoves, m, what)
		return
	}
	d.later(what+", as updates", func() error {
		ctx, cancel := context.WithTimeout(ctx, deliberate)
		defer cancel()
		_, err := d.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: contract.PipelineWorkflowID(id), UpdateName: contract.SignalMoves, Args: []any{m}, WaitForStage: client.WorkflowUpdateStageAccepted,
		})
		return err
	})
}

func (d *seedTrial) signal(ctx context.Context, workflow, name string, arg any, what string) {
	d.later(what, func() error { return d.client.SignalWorkflow(ctx, workflow, "", name, arg) })
}

// command gives a command several times at once. Its id makes it one.
func (d *seedTrial) command(ctx context.Context, id int64, name string) {
	for range 3 {
		d.signal(ctx, contract.PipelineWorkflowID(id), name, contract.PipelineCommand{ID: name + "-1", By: "the seed"}, "commands")
	}
}

// later does something beside whatever else happens.
func (d *seedTrial) later(what string, do func() error) {
	d.mu.Lock()
	d.sums[what]++
	d.mu.Unlock()
	d.copies.Go(func() {
		if err := d.gone(do()); err != nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.failed = append(d.failed, fmt.Errorf("%s: %w", what, err))
		}
	})
}

// gone lets an error be that only says that a workflow has ended, or that it
// refuses what is forged.
func (d *seedTrial) gone(err error) error {
	var over *serviceerror.NotFound
	var refused *sdktemporal.ApplicationError
	var ending *serviceerror.WorkflowNotReady // it ended while the update was on its way
	if errors.As(err, &over) || errors.As(err, &refused) || errors.As(err, &ending) {
		return nil
	}
	return err
}

// deliberationRecord is what is kept of a deliberation, by what was said.
type deliberationRecord struct {
	messages map[string]contract.Message
	votes    map[string]contract.Vote // all that were cast
	written  map[string]contract.Entry
	errors   map[string]contract.Error
	forged   int // refusals of what no member said
	events   map[contract.EventType]int
	gamma    contract.GammaReason
}

// recordOf reads what is kept. Nothing of it is there twice.
func (c *pipelineTests) recordOf(t *testing.T, p store.Pipeline) deliberationRecord {
	t.Helper()
	m := deliberationRecord{
		messages: map[string]contract.Message{}, votes: map[string]contract.Vote{}, written: map[string]contract.Entry{}, errors: map[string]contract.Error{},
		events: map[contract.EventType]int{},
	}
	messages, err := c.Store(t).PipelineMessages(t.Context(), p.ID, 0, 0, true)
	require.NoError(t, err)
	for _, said := range messages {
		require.NotContains(t, m.messages, said.ID, "pipeline %d", p.ID)
		m.messages[said.ID] = said
	}
	entries, err := c.Store(t).PipelineEntries(t.Context(), p.ID, true, true)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Author.Valid() && e.Inherited == 0 && e.Section != contract.SectionConsensus {
			require.NotContains(t, m.written, e.Value.Head, "pipeline %d", p.ID)
			m.written[e.Value.Head] = e
		}
	}
	refused, err := c.Store(t).PipelineErrors(t.Context(), p.ID)
	require.NoError(t, err)
	for _, e := range refused {
		if e.ID == "" {
			m.forged++
			continue
		}
		require.NotContains(t, m.errors, e.ID, "pipeline %d", p.ID)
		m.errors[e.ID] = e.Error
	}
	c.countVotes(t, p, &m)
	return m
}

// countVotes reads the votes of a deliberation, and what was told of it.
func (c *pipelineTests) countVotes(t *testing.T, p store.Pipeline, m *deliberationRecord) {
	t.Helper()
	events, err := c.Store(t).PipelineEvents(t.Context(), p.ID, 0, 0)
	require.NoError(t, err)
	last := map[string]bool{}
	for _, e := range events {
		m.events[e.Type]++
		switch e.Type {
		case contract.EventVoteCast:
			var v contract.Vote
			require.NoError(t, json.Unmarshal(e.Payload, &struct {
				*contract.Vote
				Text string `json:"text"`
			}{Vote: &v}))
			require.NotContains(t, m.votes, v.ID, "pipeline %d", p.ID)
			m.votes[v.ID] = v
			last[fmt.Sprint(v.Voter, " ", v.Key, " ", v.Version)] = v.Accept
		case contract.EventGammaSpawned:
			var why struct {
				Reason contract.GammaReason `json:"reason"`
			}
			require.NoError(t, json.Unmarshal(e.Payload, &why))
			m.gamma = why.Reason
		default:
		}
	}
	votes, err := c.Store(t).PipelineVotes(t.Context(), p.ID, true)
	require.NoError(t, err)
	kept := map[string]bool{}
	for _, v := range votes {
		kept[fmt.Sprint(v.Voter, " ", v.Key, " ", v.Version)] = v.Accept
	}
	require.Len(t, votes, len(last), "pipeline %d: of each voter one vote on a version counts", p.ID)
	require.Equal(t, last, kept, "pipeline %d: its last one", p.ID)
}

// checkSeed compares what is kept of a deliberation with what its models were asked
// and said.
func (c *pipelineTests) checkSeed(t *testing.T, d *seedTrial, p store.Pipeline, log []scripted.LogEntry) {
	t.Helper()
	m := c.recordOf(t, p)
	want := contract.DeliberationMetrics{}
	said := map[string]bool{}
	for _, v := range p.Members {
		d.checkServed(t, p, v, log)
		for turn := 1; turn <= v.Turns; turn++ {
			a := d.script.answer(turnKey{v.Member.Agent(), v.Attempt, turn})
			if a.text != "" {
				id := fmt.Sprintf("%s-%d-0", v.Member, turn)
				require.Contains(t, m.errors, id, "seed %d, pipeline %d: an answer that cannot be used is refused", d.script.seed, p.ID)
				said[id] = true
				continue
			}
			d.checkTurn(t, p, v, turn, a, &m, &want, said)
		}
	}
	which := fmt.Sprintf("seed %d, pipeline %d, which %s", d.script.seed, p.ID, d.script.is)
	require.Len(t, m.messages, want.TotalMessages, "%s: nobody said the others", which)
	require.Len(t, m.votes, want.Votes, "%s: nobody cast the others", which)
	require.Len(t, m.written, want.BlackboardWrites, "%s: nobody wrote the others", which)
	for id := range m.errors {
		require.True(t, said[id], "%s: nobody did %s", which, id)
	}
	h := c.PipelineHistories(t, p)[0].History
	d.checkForged(t, which, &m, h)
	got := p.Metrics
	want.Refused = len(m.errors) + m.forged
	want.BlackboardReads = turnsGiven(h)
	want.ConflictsDetected, want.ConflictsResolved = m.events[contract.EventConflictDetected], m.events[contract.EventConflictResolved]
	want.GammaSpawned, want.GammaReason = m.events[contract.EventGammaSpawned] == 1, m.gamma
	want.Consensus = m.events[contract.EventConsensusReached] == 1
	want.Iterations, want.GammaAt, want.Start, want.End, want.ConflictsOpen = got.Iterations, got.GammaAt, got.Start, got.End, got.ConflictsOpen
	want.PerformanceScore = want.Score(p.Settings.Iterations)
	require.Equal(t, want, got, "%s: its metrics are what is counted", which)
	require.LessOrEqual(t, got.Iterations, p.Settings.Iterations, which)
	if m.gamma != "" {
		d.sums["GAMMA for "+string(m.gamma)]++
	}
	d.sums["messages"] += want.TotalMessages
	d.sums["votes"] += want.Votes
	d.sums["writes"] += want.BlackboardWrites
	d.sums["refusals"] += want.Refused
	d.sums["turns"] += want.BlackboardReads
}

// checkServed checks that each turn that was taken is one that the model answered,
// or whose moves were sent before.
func (d *seedTrial) checkServed(t *testing.T, p store.Pipeline, v contract.MemberView, log []scripted.LogEntry) {
	t.Helper()
	served := map[int]int{}
	for _, e := range log {
		if e.Agent != string(v.Member.Agent()) || e.Attempt != v.Attempt || e.Status != 200 {
			continue
		}
		served[e.Turn]++
		require.Equal(t, d.script.answer(turnKey{v.Member.Agent(), e.Attempt, e.Turn}).rule, e.Rule, "seed %d: %+v", d.script.seed, e)
	}
	for turn, n := range served {
		require.Equal(t, 1, n, "seed %d, pipeline %d: %s was asked once in turn %d", d.script.seed, p.ID, v.Member, turn)
	}
	for turn := 1; turn <= v.Turns; turn++ {
		require.True(t, served[turn] == 1 || d.early[turnOf(p.ID, v.Member, turn)], "seed %d, pipeline %d: turn %d of %s was taken, and nobody said it", d.script.seed, p.ID, turn, v.Member)
	}
	require.LessOrEqual(t, len(served), v.Turns+1, "seed %d, pipeline %d: but for what came too late, all that %s said is taken", d.script.seed, p.ID, v.Member)
}

// checkTurn checks that each move of a turn was taken once or refused once, and
// counts it.
func (d *seedTrial) checkTurn(t *testing.T, p store.Pipeline, v contract.MemberView, turn int, a *scriptedAnswer, m *deliberationRecord, want *contract.DeliberationMetrics, said map[string]bool) {
	t.Helper()
	moves, err := a.said(p.Settings)
	require.NoError(t, err)
	if last := lastError(m, v.Member, turn, len(moves)); v.Status == contract.MemberRevoked && v.Failure != nil && turn == v.Turns && last > 0 {
		moves = moves[:last] // those after the last straw are neither taken nor refused
	}
	for i, move := range moves {
		id := fmt.Sprintf("%s-%d-%d", v.Member, turn, i+1)
		which := fmt.Sprintf("seed %d, pipeline %d: %s, %+v", d.script.seed, p.ID, id, move)
		said[id] = true
		message, told := m.messages[id]
		vote, cast := m.votes[id]
		entry, wrote := m.written[move.Text.Head]
		wrote = wrote && move.Text.Head != ""
		if _, refused := m.errors[id]; refused {
			require.False(t, told || cast || wrote, "%s is refused, and counts", which)
			continue
		}
		want.Decisions++
		switch move.Kind {
		case contract.MoveMessage:
			require.True(t, told, "%s is lost", which)
			require.Equal(t, []any{v.Member, move.Text}, []any{message.From, message.Text}, which)
			want.TotalMessages++
			if move.To != "" && move.To != "ALL" {
				want.DirectMessages++
			}
		case contract.MoveVote:
			require.True(t, cast, "%s is lost", which)
			require.Equal(t, []any{v.Member, move.Key, *move.Accept}, []any{vote.Voter, vote.Key, vote.Accept}, which)
			want.Votes++
		case contract.MoveResolve: // an answer is kept, a withdrawal is none
			require.False(t, told || cast, which)
			if wrote {
				require.Equal(t, []any{v.Member, move.Kind}, []any{entry.Author, entry.Kind}, which)
				want.BlackboardWrites++
			}
		case contract.MoveDone, contract.MoveVerdict:
			require.False(t, told || cast || wrote, which)
		default:
			require.True(t, wrote, "%s is lost", which)
			require.Equal(t, []any{v.Member, move.Kind}, []any{entry.Author, entry.Kind}, which)
			want.BlackboardWrites++
		}
	}
}

// lastError returns the last move of a turn that was refused, from 1; 0 for none.
func lastError(m *deliberationRecord, by contract.Member, turn, moves int) int {
	for i := moves; i > 0; i-- {
		if _, refused := m.errors[fmt.Sprintf("%s-%d-%d", by, turn, i)]; refused {
			return i
		}
	}
	return 0
}

// turnsGiven counts the turns that members were told of.
func turnsGiven(h *historypb.History) int {
	n := 0
	for _, e := range h.Events {
		if e.GetSignalExternalWorkflowExecutionInitiatedEventAttributes().GetSignalName() == contract.SignalTurn {
			n++
		}
	}
	return n
}

// checkForged checks that what no member said is refused as often as it came: each
// time before the deliberation began to end, and at most as often as it came at all.
func (d *seedTrial) checkForged(t *testing.T, which string, m *deliberationRecord, h *historypb.History) {
	t.Helper()
	tokens, least, most, tasks := map[string]bool{}, 0, 0, 0
	_, deed := pointsOf(h)
	for _, e := range h.Events {
		if a := e.GetStartChildWorkflowExecutionInitiatedEventAttributes(); a.GetWorkflowType().GetName() == contract.WorkflowMember {
			var in contract.MemberInput
			require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(a.GetInput(), &in))
			tokens[in.Token] = true
		}
		if e.GetWorkflowTaskCompletedEventAttributes() != nil {
			tasks++
		}
		input := e.GetWorkflowExecutionSignaledEventAttributes().GetInput()
		name := e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName()
		if u := e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest(); u != nil {
			input, name = u.GetInput().GetArgs(), u.GetInput().GetName()
		}
		if name != contract.SignalMoves {
			continue
		}
		var said contract.Moves
		require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(input, &said))
		switch {
		case !tokens[said.Token]:
			most++
			if deed != nil && tasks < deed.task-1 {
				least++
			}
		case said.Turn > forgedTurn: // of a member that has ended it is not looked at
			most++
		}
	}
	require.GreaterOrEqual(t, m.forged, least, "%s: what is forged is refused", which)
	require.LessOrEqual(t, m.forged, most, "%s: nothing else is", which)
}
