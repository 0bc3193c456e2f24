package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/admission"
	"github.com/rocketgpt/orchestrator/internal/budget"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate/review"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelcall"
	"github.com/rocketgpt/orchestrator/internal/notice"
	"github.com/rocketgpt/orchestrator/internal/route"
	"github.com/rocketgpt/orchestrator/internal/runs/followup"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/responses"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/tool"
)

// Think makes the next model call of a conversation, and further ones if its input allows that. If the
// response to one is already stored, because a worker died after the call, that response is returned at no
// cost.
func (a *Activities) Think(ctx context.Context, in contract.ThinkInput) (contract.ThinkResult, error) {
	if in.Brief != nil {
		return a.deliberate(ctx, in)
	}
	return a.turns(ctx, in)
}

// oneTurn makes one model call of an agent and the tool calls that need no decision of its workflow. It sets what
// the next turn may know.
func (a *Activities) oneTurn(ctx context.Context, in contract.ThinkInput, known *turnMemory) (contract.ThinkResult, error) {
	answer, now, err := a.turnOf(ctx, in, *known)
	known.before, known.noMessages, known.conversation = now.turn, false, nil
	if f := fault.Of(err); f != nil && f.Class == contract.ClassLLM && (f.Code == contract.CodeInvalidOutput || f.Code == contract.CodeTruncated) {
		// The model sees the problem and may fix it; the workflow counts the attempts.
		return contract.ThinkResult{Usage: answer.Usage, Bad: f.Message}, nil
	}
	if err != nil {
		return contract.ThinkResult{}, err
	}
	out := contract.ThinkResult{Usage: answer.Usage}
	if n := len(answer.ToolCalls); n > contract.TurnCallLimit {
		out.Bad = tooMany(n)
		return out, nil
	}
	for i, call := range answer.ToolCalls {
		def, known := a.toolsOf(in.Execution).Definition(call.Name)
		if call.Name == tool.Finish {
			out.Finish, out.Summary, out.Blocked = true, summaryOf(call.Arguments), blockedOf(call.Arguments)
		}
		out.Calls = append(out.Calls, contract.ToolCallRef{
			Index: i, Tool: shownName(call.Name), ReadOnly: !known || def.ReadOnly, Long: known && def.Long,
		})
	}
	if len(answer.ToolCalls) == 0 {
		out.Bad = "it called no tool"
	}
	if out.Finish {
		out.Unanswered = review.Unanswered(followup.FinishedWith(model.Message{ToolCalls: answer.ToolCalls}), in.Answer)
		if out.Unread, err = a.hasMessages(ctx, in.Execution); err != nil {
			return contract.ThinkResult{}, err
		}
	}
	if out.Bad == "" && in.Tools != nil {
		out.Done = a.callTools(ctx, in, out, callsAtHand(answer.ToolCalls, now), known.seen)
	}
	return out, nil
}

// turnOf returns the response of a turn: the plan's, or the model's.
func (a *Activities) turnOf(ctx context.Context, in contract.ThinkInput, known turnMemory) (answer model.Response, now storedResponse, err error) {
	if in.Planned {
		answer, err = a.planned(ctx, in.Execution.ID)
		return answer, now, err
	}
	var stored storedResponse
	answer, err = a.ask(ctx, question{
		stored: &stored, before: known.before, noMessages: known.noMessages, conversation: known.conversation, execution: in.Execution, turn: in.Turn, choice: in.Model, budget: in.Budget, left: in.Left, timeout: in.Timeout, tools: a.toolsOf(in.Execution).Definitions(), strict: in.Schema,
		compacts: true, fallbacks: in.Fallbacks, usable: func(r model.Response) bool { return a.usableTurn(in.Execution, r) },
	})
	if err != nil { // the call may continue, and then still sets stored
		return answer, now, err
	}
	return answer, stored, nil
}

// summaryOf returns the model's summary when it finishes, shortened.
func summaryOf(arguments string) string {
	var args struct {
		Summary string `json:"summary"`
	}
	if json.Unmarshal([]byte(arguments), &args) != nil {
		return ""
	}
	const most = 300
	if len(args.Summary) > most {
		args.Summary = strings.ToValidUTF8(args.Summary[:most], "") + "…"
	}
	return telemetry.Redact(args.Summary)
}

// blockedOf returns the obstacle that a finishing model reports, shortened.
func blockedOf(arguments string) string {
	var args struct {
		Blocked string `json:"blocked"`
	}
	if json.Unmarshal([]byte(arguments), &args) != nil {
		return ""
	}
	const most = 1000
	return telemetry.Redact(strings.TrimSpace(clipped(args.Blocked, most)))
}

// shownName returns a tool's name as the model wrote it, safe for histories.
func shownName(name string) string {
	const most = 64
	return strings.ToValidUTF8(name[:min(len(name), most)], "")
}

// countedName returns the name of a tool for metrics: all invented names count as one.
func (a *Activities) countedName(name string) string {
	_, known := a.Tools.Definition(name)
	if _, planning := planningTools.Definition(name); !known && !planning {
		return telemetry.OtherValue
	}
	return name
}

// tooMany returns the message about a turn with too many tool calls.
func tooMany(n int) string {
	return fmt.Sprintf("it called %d tools in one turn, more than the %d allowed", n, contract.TurnCallLimit)
}

// reminder is the message to a model that responded without calling a tool.
const reminder = "Your response called no tool. Call a tool to continue, or call `finish` when the step is done or cannot be done."

// unusable begins the message to a model about a response that could not be used.
const unusable = "Your response could not be used: "

// fromPerson reports whether a message of a conversation, after its opening, is what a person wrote.
// The others to the model are about its responses.
func fromPerson(m model.Message) bool {
	return m.Role == model.RoleUser && m.Text != reminder && !strings.HasPrefix(m.Text, unusable)
}

// question is one model call being prepared or made.
type question struct {
	execution contract.ExecutionRef
	turn      int
	choice    contract.ModelChoice
	fallbacks []contract.ModelChoice // to use while the choice is out
	budget    contract.RunBudget
	left      *contract.StepLeft
	timeout   time.Duration
	tools     []tool.Definition
	// schema is the form of the response. With tools, it applies to models that have none: the others
	// call tools instead, because not every provider combines the two.
	schema   *model.Schema
	strict   bool   // send the strict forms of schemas
	limits   string // the settings that limit the work; empty: execution.step
	prompt   string // version
	member   bool   // of a deliberation: more turns may follow
	compacts bool   // its conversation is compacted before it exceeds the context window

	// told contains the messages to the model before this turn, stored with the turn's reservation.
	// Messages stored by an earlier attempt take precedence; if two attempts run concurrently, each
	// sends its own, and the first ones are stored.
	told []model.Message
	// delivers contains the events with the messages of people that are part of told.
	delivers []int64

	// keep reports whether a valid response is stored in full; nil: always.
	keep func(text string) bool
	// usable reports whether a response may answer identical requests of later runs: it must not be one
	// that its reader rejects.
	usable func(model.Response) bool

	route *contract.RouteDecision // why choice makes the call

	before     *previousTurn // the turn before this one; nil: it must be read
	noMessages bool          // no message of a person waits for the agent

	conversation *readConversation // up to this turn; nil: it must be read

	// stored, if not nil, is set once the response of a model to this question is stored.
	stored *storedResponse
}

// storedResponse is a response that a model gave to a question just now; zero if it gave it earlier, or to another attempt.
type storedResponse struct {
	fresh  bool            // nobody else can have got it, because it was stored at the first attempt
	status contract.Status // of the run when it was stored; empty: unknown
	turn   *previousTurn   // as the next turn sees it
}

// unusableKept is the number of bytes of an unusable response that remain in its conversation. The
// full response would be sent again, and paid for, in each later turn.
const unusableKept = 8 << 10

// stored is a response as the database stores it.
type stored = verdict.Answer

// ask makes a model call, or joins the one in progress for the same (execution, turn), and returns
// its response.
func (a *Activities) ask(ctx context.Context, q question) (model.Response, error) {
	q.timeout = cmp.Or(q.choice.Timeout, q.timeout)
	q, err := a.withMessages(ctx, q)
	if err != nil {
		return model.Response{}, err
	}
	response, err := modelcall.Once(ctx, a.ledger(), &a.calls, q.call(), q.timeout, func(ctx context.Context, paid func()) (model.Response, error) {
		return a.call(ctx, q, paid)
	})
	notice.Idle(ctx, false) // not before the response is stored, because the activity may have to wait
	if q.strict && fault.Is(err, contract.CodeBadRequest) {
		// The form that a heal requested caused the error; other actions remain without it.
		err = fault.Wrap(err, contract.ClassLLM, contract.CodeBadRequest, "the provider rejected a request with strict schemas: %s", fault.Of(err).Message)
	}
	return response, err
}

// call reserves the budget of a call, makes it, and records its cost together with the response,
// under (execution, turn).
func (a *Activities) call(ctx context.Context, q question, paid func()) (model.Response, error) {
	routed, err := a.routeOf(ctx, q)
	if err != nil {
		return model.Response{}, err
	}
	pass := a.Admission.Choose(ctx, admission.Call{
		Execution: q.execution, Choice: routed.Choice, Fallbacks: q.fallbacks,
		Fit: func(ctx context.Context, usable []contract.ModelChoice) (contract.ModelChoice, []contract.PassedOver, error) {
			return a.standIn(ctx, q, usable)
		},
	})
	defer pass.Close()
	q.route = routed.Admitted(pass.Choice, pass.PassedOver)
	q.choice, q.timeout = pass.Choice, cmp.Or(pass.Choice.Timeout, q.timeout)
	plan, err := a.plan(ctx, q)
	if err != nil {
		return model.Response{}, err
	}
	if err := a.affordable(ctx, q, &plan); err != nil {
		return model.Response{}, err
	}
	messages, err := a.withPictures(ctx, plan.request.Messages)
	if err != nil {
		return model.Response{}, err
	}
	reserved, err := a.reserve(ctx, q, plan)
	if err != nil {
		return model.Response{}, err
	}
	if reserved.Answer != nil {
		return readStored(q, reserved.Answer.Answer)
	}
	request := plan.request
	if limit := reserved.Output; limit < plan.asked {
		request.MaxOutput = limit
		request.IdempotencyKey += fmt.Sprintf("-%d", limit) // a different request
	}
	cache := a.cacheOf(ctx, q, plan, request)
	if response, found, err := a.fromCache(ctx, q, cache, reserved.ID); found || err != nil {
		return response, err
	}
	response, err := pass.Do(ctx, request, func(r model.Request) (model.Response, error) {
		paid()
		r.Messages = messages
		hide := a.showText(ctx, q, reserved.ID.Try, &r)
		defer hide()
		return a.complete(ctx, r)
	})
	err = plan.explain(err, reserved)
	failure := fault.Of(err)
	telemetry.ObserveModelCall(q.choice, response.Latency, response.Usage, failure)
	a.ledger().ReportExcess(ctx, q.call(), reserved, response.Usage)
	if failure != nil && failure.Class != contract.ClassLLM {
		a.ledger().Fail(ctx, q.call(), reserved.ID, failure, contract.Usage{})
		return model.Response{}, err
	}
	now, unsettled := a.storeAnswer(ctx, q, reserved.ID, plan.basis, stored{Response: response, Failure: failure})
	if unsettled != nil {
		return model.Response{}, unsettled
	}
	if failure == nil {
		a.cacheResponse(ctx, q, cache, reserved.ID, response)
	}
	if q.stored != nil {
		*q.stored = now
	}
	return response, err
}

// readStored returns the response of a completed call.
func readStored(q question, raw json.RawMessage) (model.Response, error) {
	var answer stored
	if err := json.Unmarshal(raw, &answer); err != nil {
		return model.Response{}, fmt.Errorf("read the stored response of execution %d, turn %d: %w", q.execution.ID, q.turn, err)
	}
	return answer.Response, answer.Err()
}

// cacheUse is how a call uses the responses to identical requests.
type cacheUse struct {
	key responses.Key
	age time.Duration // of the oldest response that it may use
}

// cacheOf returns how a call uses the responses to identical requests: an earlier one may answer it, and
// its own may answer later ones. It returns nil if the run does not want that, or if the call must not: a
// heal, like any repeated attempt, must not get the same response again.
func (a *Activities) cacheOf(ctx context.Context, q question, p callPlan, r model.Request) *cacheUse {
	e := q.execution
	if p.basis.CacheRetention <= 0 || e.Attempt != 1 || e.Agent == contract.AgentRepair || !r.Deterministic(p.entry) {
		return nil
	}
	at := a.Config.Models.Providers[q.choice.Provider]
	digest, err := r.Digest(at.Kind, at.BaseURL, at.API, fmt.Sprint(at.Headers))
	if err != nil {
		a.Log.WarnContext(ctx, "Could not compare a request with earlier ones", "execution", e.ID, "turn", q.turn, "error", err)
		return nil
	}
	return &cacheUse{responses.Key{
		Tenant: p.basis.Tenant, Project: p.basis.Project, Repo: p.basis.Repo, Provider: q.choice.Provider, Model: q.choice.Model, Digest: digest,
	}, p.basis.CacheRetention}
}

// fromCache completes a reserved call with the response to an identical request of an earlier run, if
// there is one. It costs nothing.
func (a *Activities) fromCache(ctx context.Context, q question, use *cacheUse, id store.CallID) (model.Response, bool, error) {
	if use == nil {
		return model.Response{}, false, nil
	}
	answer, from, ok := a.lookUp(ctx, q, use)
	if !ok || !q.usable(answer.Response) { // what its reader accepts may have changed since
		telemetry.CacheLookups.WithLabelValues(telemetry.CacheMiss).Inc()
		return model.Response{}, false, nil
	}
	answer.Usage, answer.Latency, answer.Estimated = contract.Usage{Calls: 1, FromCache: 1}, 0, false
	err := a.settle(ctx, q, answer, func(ctx context.Context, raw json.RawMessage, messages []store.Message) error {
		return a.Store.CompleteFromCache(ctx, id, from, raw, messages)
	})
	if err != nil {
		return model.Response{}, false, err
	}
	telemetry.CacheLookups.WithLabelValues(telemetry.CacheHit).Inc()
	return answer.Response, true, nil
}

// lookUp returns the response to an identical request, and the call that got it. If the lookup fails,
// there is none: the model can be asked.
func (a *Activities) lookUp(ctx context.Context, q question, use *cacheUse) (answer stored, from store.CachedResponse, ok bool) {
	found, ok, err := responses.Find(ctx, a.Store, use.key, use.age)
	if err == nil && ok {
		err = json.Unmarshal(found.Answer, &answer)
	}
	if err != nil {
		a.Log.WarnContext(ctx, "Could not use a cached response; asking the model", "execution", q.execution.ID, "turn", q.turn, "error", err)
	}
	return answer, found.From, ok && err == nil
}

// cacheResponse keeps the usable response to a completed call for identical requests. If that fails, they
// are sent to the model.
func (a *Activities) cacheResponse(ctx context.Context, q question, use *cacheUse, id store.CallID, r model.Response) {
	if use == nil || !q.usable(r) {
		return
	}
	m := a.Config.Models
	limits := responses.Limits{Age: use.age, Bytes: m.CacheMaxSize.Int64(), Entries: m.CacheEntries}
	if err := responses.Keep(ctx, a.Store, use.key, id.Call, limits); err != nil {
		a.Log.WarnContext(ctx, "Could not keep a response for identical requests", "execution", q.execution.ID, "turn", q.turn, "error", err)
	}
}

// usableTurn reports whether an agent's response calls tools that it has.
func (a *Activities) usableTurn(e contract.ExecutionRef, r model.Response) bool {
	return len(r.ToolCalls) > 0 && len(r.ToolCalls) <= contract.TurnCallLimit && !slices.ContainsFunc(r.ToolCalls, func(c model.ToolCall) bool {
		_, known := a.toolsOf(e).Definition(c.Name)
		return !known
	})
}

// callPlan is a model call before it is made, and the most that it can use.
type callPlan struct {
	request model.Request
	entry   model.CatalogueEntry
	basis   store.CallBasis
	prompt  int64 // upper bound of the prompt's tokens
	asked   int64 // output limit of the request
	output  int64 // what the budgets that have been checked allow of it
	least   int64 // lowest useful limit
}

// cost returns the most that the call can cost with an output limit.
func (p callPlan) cost(output int64) int64 { return budget.Cost(p.prompt, output, p.entry) }

// plan prepares a call. If the same model has responded in the previous turn, the tokens of the
// conversation up to there are known.
func (a *Activities) plan(ctx context.Context, q question) (callPlan, error) {
	var p callPlan
	var rows []store.TranscriptEntry
	var err error
	if p.basis, rows, err = a.precedes(ctx, q); err != nil {
		return p, err
	}
	messages, err := a.seenBefore(rows, q, q.turn, q.told...)
	if err != nil {
		return p, err
	}
	p.entry, _ = a.Model.Entry(q.choice)
	p.request = q.request(messages, int64(a.Config.Models.MaxOutputTokens), p.entry)
	known, err := a.counted(rows, q, p.basis, messages)
	if err != nil {
		return p, err
	}
	p.prompt = budget.Prompt(p.request, known)
	p.asked = budget.Output(p.request.MaxOutput, p.entry)
	p.output, p.least = p.asked, int64(a.Config.Models.Budgets.MinOutputTokens)
	if p.entry.Reasons(q.choice.Effort) {
		p.least = int64(a.Config.Models.Budgets.MinReasoningTokens)
	}
	p.least = min(p.least, p.asked)
	return p, nil
}

// precedes returns what is known before a question's turn, and the conversation.
func (a *Activities) precedes(ctx context.Context, q question) (store.CallBasis, []store.TranscriptEntry, error) {
	if q.before == nil || q.before.turn != q.turn-1 {
		return a.Store.BeforeTurn(ctx, q.execution, q.turn)
	}
	rows, ok := q.conversation.take()
	if ok {
		return q.before.basis, rows, nil
	}
	rows, err := a.Store.Transcript(ctx, q.execution.ID)
	return q.before.basis, rows, err
}

// routeOf chooses the model of a call. A response that is stored needs none.
func (a *Activities) routeOf(ctx context.Context, q question) (route.Decision, error) {
	d, err := a.Router.Route(ctx, route.Call{
		Execution: q.execution, Own: q.choice, Others: q.fallbacks, Facts: func(ctx context.Context) (route.Facts, error) { return a.routeFacts(ctx, q) },
	})
	if err == nil {
		return d, nil
	}
	if _, missing := a.Store.Answer(ctx, q.execution.ID, q.turn); missing == nil {
		return route.Decision{Choice: q.choice}, nil
	}
	return d, err
}

// standIn chooses the model that makes a call while its own is out, and says why it is not one of the
// others. It returns the zero choice if none can make the call.
func (a *Activities) standIn(ctx context.Context, q question, usable []contract.ModelChoice) (contract.ModelChoice, []contract.PassedOver, error) {
	f, err := a.routeFacts(ctx, q)
	if err != nil {
		return contract.ModelChoice{}, nil, err
	}
	candidates := make([]route.Candidate, len(usable))
	for i, choice := range usable {
		candidates[i].Choice = choice
		candidates[i].Entry, candidates[i].Known = a.Model.Entry(choice)
	}
	d, _ := route.StandIn(f.Need(q.execution), candidates)
	return d.Choice, d.PassedOver, nil
}

// routeFacts finds out what a call asks of its model, for the choice among several.
func (a *Activities) routeFacts(ctx context.Context, q question) (route.Facts, error) {
	p, err := a.plan(ctx, q)
	if err != nil {
		return route.Facts{}, err
	}
	f := route.Facts{
		Prompt: model.EstimateTokens(p.request.Messages, p.request.Tools), Bound: budget.Prompt(p.request, budget.Known{}),
		MinOutput: min(int64(a.Config.Models.Budgets.MinOutputTokens), p.request.MaxOutput), MinReasoning: min(int64(a.Config.Models.Budgets.MinReasoningTokens), p.request.MaxOutput),
		Tools: q.needsTools(p.request.Messages), Schema: q.schema != nil || q.strict, Temperature: q.choice.Temperature != nil,
		Images:  slices.ContainsFunc(p.request.Messages, func(m model.Message) bool { return len(m.Images) > 0 }),
		Current: contract.ModelChoice{Provider: p.basis.Provider, Model: p.basis.Model},
	}
	if f.Current.Model != "" {
		f.Cached = f.Prompt
	}
	f.Left, err = a.Store.LeftOf(ctx, setup.Scopes(a.Config, q.execution.RunID, q.execution.Agent, q.budget, p.basis.Tenant, p.basis.Project, p.basis.Now()))
	if q.left != nil && q.left.MicroUSD > 0 && (f.Left < 0 || q.left.MicroUSD < f.Left) {
		f.Left = q.left.MicroUSD
	}
	return f, err
}

// counted returns the part of a conversation that the same model counted in the previous turn.
// Messages that were added right before that turn do not belong to it: if two attempts ran, each may
// have sent its own.
func (a *Activities) counted(rows []store.TranscriptEntry, q question, basis store.CallBasis, now []model.Message) (budget.Known, error) {
	if basis.Provider != q.choice.Provider || basis.Model != q.choice.Model {
		return budget.Known{}, nil
	}
	var last stored
	if err := json.Unmarshal(basis.Answer, &last); err != nil {
		return budget.Known{}, fmt.Errorf("read the stored response of execution %d, turn %d: %w", q.execution.ID, q.turn-1, err)
	}
	if last.Estimated {
		return budget.Known{}, nil
	}
	before := slices.DeleteFunc(slices.Clone(rows), func(row store.TranscriptEntry) bool { return row.AddedBefore(q.turn - 1) })
	messages, err := a.seenBefore(before, q, q.turn-1)
	if err != nil || len(messages) > len(now) || !reflect.DeepEqual(messages, now[:len(messages)]) {
		return budget.Known{}, err // the conversation has been compacted since
	}
	return budget.Known{Messages: len(messages), Tokens: last.Usage.PromptTokens}, nil
}

// seenBefore returns the messages before a turn as the model of a question sees them.
func (a *Activities) seenBefore(rows []store.TranscriptEntry, q question, turn int, told ...model.Message) ([]model.Message, error) {
	entry, _ := a.Model.Entry(q.choice)
	limit := limitOf(entry.ContextWindow, budget.Output(int64(a.Config.Models.MaxOutputTokens), entry), a.Config.Execution.Step.CompactAt)
	if !q.compacts || limit.limit == 0 {
		return messagesBefore(rows, q.execution.ID, turn, told...)
	}
	all, err := placedBefore(rows, q.execution.ID, turn, told...)
	if err != nil {
		return nil, err
	}
	opening, turns := exchanges(all)
	return viewWithin(opening, turns, model.EstimateTokens(nil, q.request(nil, 0, entry).Tools), limit).messages, nil
}

// explain adds to the failure of a truncated response that a budget limited its length.
func (p callPlan) explain(err error, reserved store.Reserved) error {
	if !fault.Is(err, contract.CodeTruncated) || reserved.Output >= p.asked {
		return err
	}
	f := fault.Of(err)
	return fault.Wrap(err, f.Class, f.Code, "%s, which %s lowered to %d tokens", f.Message, cmp.Or(reserved.Limited, "the budget of the step"), reserved.Output)
}

// affordable lowers a call's output limit to what its step has left. It rejects the call if that is
// too little. Reading a response that is already paid for is free.
func (a *Activities) affordable(ctx context.Context, q question, p *callPlan) error {
	if q.left == nil {
		return nil
	}
	limits := cmp.Or(q.limits, "execution.step")
	what, setting, needs, has := "tokens", limits+".tokens", p.prompt+p.least, q.left.Tokens
	if cost := p.cost(p.least); q.left.MicroUSD > 0 && cost > q.left.MicroUSD {
		what, setting, needs, has = "micro-dollars", limits+".cost_usd", cost, q.left.MicroUSD
	}
	if has <= 0 || needs <= has {
		if q.left.Tokens > 0 {
			p.output = min(p.output, q.left.Tokens-p.prompt)
		}
		if q.left.MicroUSD > 0 {
			p.output = budget.Affordable(q.left.MicroUSD, p.output, p.cost)
		}
		return nil
	}
	_, err := a.Store.Answer(ctx, q.execution.ID, q.turn)
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	work, advice := "step "+q.execution.Step, "Split the step, or raise"
	if q.execution.Step == "" {
		work, advice = "the "+string(q.execution.Agent), "Raise"
	}
	return fault.New(contract.ClassLogic, contract.CodeStepBudget,
		"%s has %d %s left, but its next request can use up to %d, so the request was not sent. %s %s", work, has, what, needs, advice, setting)
}

// complete makes the call within its own span.
func (a *Activities) complete(ctx context.Context, r model.Request) (model.Response, error) {
	ctx, span := telemetry.Tracer().Start(ctx, "model.call", trace.WithAttributes(
		attribute.Int64("rgpt.run", r.Headers.Run), attribute.String("rgpt.agent", r.Headers.Agent), attribute.String("rgpt.step", r.Headers.Step),
		attribute.Int("rgpt.turn", r.Headers.Turn), attribute.String("gen_ai.system", r.Choice.Provider), attribute.String("gen_ai.request.model", r.Choice.Model),
	))
	defer span.End()
	notice.Idle(ctx, true)
	response, err := a.Model.Complete(ctx, r)
	span.SetAttributes(
		attribute.Int64("gen_ai.usage.input_tokens", response.Usage.PromptTokens),
		attribute.Int64("gen_ai.usage.output_tokens", response.Usage.CompletionTokens),
	)
	if err != nil {
		span.SetStatus(codes.Error, string(fault.Of(err).Class))
	}
	return response, err
}

// request returns the model client's request for a question.
func (q question) request(messages []model.Message, maxOutput int64, entry model.CatalogueEntry) model.Request {
	e := q.execution
	r := model.Request{
		Choice: q.choice, Messages: messages, Schema: q.schema, Strict: q.strict, MaxOutput: maxOutput, Timeout: q.timeout,
		Headers: model.Identity{
			Run: e.RunID, Agent: string(e.Agent), Phase: string(e.Phase.Running()), Step: e.Step, Attempt: e.Attempt, Turn: q.turn,
		},
		IdempotencyKey: fmt.Sprintf("rgpt-%d-%d-%d", e.RunID, e.ID, q.turn),
	}
	if q.member {
		r.Headers.Step = "" // set by its agent
	}
	switch {
	case q.schema == nil || len(q.tools) == 0:
	case q.needsTools(messages) || entry.Can(model.CapabilityTools):
		r.Schema = nil
	default:
		return r
	}
	for _, d := range q.tools {
		r.Tools = append(r.Tools, model.Tool{Name: d.Name, Description: d.Description, Parameters: d.Parameters})
	}
	return r
}

// needsTools reports whether only a model with tools can continue a conversation. A response that is
// one document can do without, unless tools have been called before.
func (q question) needsTools(messages []model.Message) bool {
	return len(q.tools) > 0 && (q.schema == nil || slices.ContainsFunc(messages, func(m model.Message) bool { return len(m.ToolCalls) > 0 }))
}

// reserve reserves the most that a call can use in all its budgets.
func (a *Activities) reserve(ctx context.Context, q question, p callPlan) (store.Reserved, error) {
	told, err := encode(q.told)
	if err != nil {
		return store.Reserved{}, err
	}
	return a.ledger().Reserve(ctx, store.Reservation{
		Execution: q.execution, Turn: q.turn, Provider: q.choice.Provider, Model: q.choice.Model, PromptVersion: q.prompt, Route: q.route,
		Prompt: p.prompt, Output: p.output, MinOutput: p.least, Cost: p.cost,
		WarnAt: a.Config.Models.Budgets.WarnAt, Scopes: setup.Scopes(a.Config, q.execution.RunID, q.execution.Agent, q.budget, p.basis.Tenant, p.basis.Project, p.basis.Now()), NewMessages: told, Delivers: q.delivers,
	})
}

// ledger books the worker's model calls.
func (a *Activities) ledger() modelcall.Ledger { return modelcall.Ledger{Store: a.Store, Log: a.Log} }

// storeAnswer stores the response and its cost. The response is paid for, so it is kept in memory
// while the database is down. This continues after the activity ends, which happens soon if
// Temporal uses the same database; the next attempt then joins the call instead of making, and
// paying for, another one. It is not fresh unless the first attempt to store it succeeded: a failed one
// may have stored it, too.
func (a *Activities) storeAnswer(ctx context.Context, q question, call store.CallID, basis store.CallBasis, answer stored) (storedResponse, error) {
	now := storedResponse{turn: &previousTurn{turn: q.turn}}
	attempts := 0
	err := a.settle(ctx, q, answer, func(ctx context.Context, raw json.RawMessage, messages []store.Message) (err error) {
		attempts++
		now.turn.basis = basis.After(q.choice, raw)
		now.status, err = a.Store.CompleteTurn(ctx, call, answer.Usage, answer.Latency, raw, messages)
		return err
	})
	now.fresh = attempts == 1
	return now, err
}

// settle calls complete with a response in the form in which it is stored, and the messages that it adds
// to the conversation, until the database accepts them.
func (a *Activities) settle(ctx context.Context, q question, answer stored, complete func(context.Context, json.RawMessage, []store.Message) error) error {
	raw, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("store the response of execution %d, turn %d: %w", q.execution.ID, q.turn, err)
	}
	messages, err := encode(answerMessages(q, answer))
	if err != nil {
		return err
	}
	return a.ledger().Settle(ctx, q.call(), func(ctx context.Context) error {
		return complete(ctx, raw, messages)
	})
}

// call identifies the call of a question.
func (q question) call() modelcall.Call {
	return modelcall.Call{Execution: q.execution, Turn: q.turn, Choice: q.choice}
}

// answerMessages returns the messages that a response adds to the conversation. An unusable
// response is stored as text, followed by a message to the model that explains the problem.
func answerMessages(q question, answer stored) []model.Message {
	if q.schema != nil && (answer.Failure == nil || !q.member) {
		message := answer.Message()
		if q.keep != nil && !q.keep(message.Text) {
			message.Text = fault.Clip(message.Text, unusableKept)
		}
		return []model.Message{message}
	}
	var wrong string
	switch n := len(answer.ToolCalls); {
	case answer.Failure != nil:
		wrong = unusable + answer.Failure.Message
	case n == 0:
		wrong = reminder
	case n > contract.TurnCallLimit:
		wrong = unusable + tooMany(n) + "."
	default:
		return []model.Message{answer.Message()}
	}
	text := answer.Text
	if answer.Failure != nil {
		text = fault.Clip(text, unusableKept)
	}
	text = cmp.Or(text, "(no text)")
	return []model.Message{{Role: model.RoleAssistant, Text: text}, {Role: model.RoleUser, Text: wrong}}
}

// conversation reads the messages before a turn.
func (a *Activities) conversation(ctx context.Context, execution int64, turn int, told ...model.Message) ([]model.Message, error) {
	rows, err := a.Store.Transcript(ctx, execution)
	if err != nil {
		return nil, err
	}
	return messagesBefore(rows, execution, turn, told...)
}

// messagesBefore returns the messages before a turn. The messages to the model before the turn come
// last, unless they are already stored. A tool call without a result, such as `finish` beside
// failed calls, gets one here: providers reject a conversation with open calls.
func messagesBefore(rows []store.TranscriptEntry, execution int64, turn int, told ...model.Message) ([]model.Message, error) {
	all, err := placedBefore(rows, execution, turn, told...)
	var out []model.Message
	for _, m := range all {
		out = append(out, m.Message)
	}
	return out, err
}

// exchanges divides a conversation into its opening and what followed each response.
func exchanges(all []placed) (opening []placed, turns []exchange) {
	for _, m := range all {
		switch {
		case m.Role == model.RoleAssistant:
			turns = append(turns, exchange{m})
		case len(turns) == 0:
			opening = append(opening, m)
		default:
			turns[len(turns)-1] = append(turns[len(turns)-1], m)
		}
	}
	return opening, turns
}

// placedBefore is messagesBefore with the ids of results.
func placedBefore(rows []store.TranscriptEntry, execution int64, turn int, told ...model.Message) ([]placed, error) {
	var out []placed
	open := map[string]bool{}
	var order []string
	answerOpen := func() {
		for _, id := range order {
			if open[id] {
				out = append(out, placed{Message: model.Message{Role: model.RoleTool, ToolCallID: id, Text: unfinished}})
			}
		}
		order, open = nil, map[string]bool{}
	}
	for _, row := range rows {
		if row.Turn >= turn {
			break
		}
		if row.AddedBefore(turn) {
			told = nil
		}
		var m model.Message
		if err := json.Unmarshal(row.Content, &m); err != nil {
			return nil, fmt.Errorf("read the conversation of execution %d at turn %d: %w", execution, row.Turn, err)
		}
		at := placed{Message: m}
		if m.Role == model.RoleTool {
			delete(open, m.ToolCallID)
			at.id = resultName(row)
		} else {
			answerOpen()
		}
		out = append(out, at)
		for _, call := range m.ToolCalls {
			open[call.ID] = true
			order = append(order, call.ID)
		}
	}
	answerOpen()
	for _, m := range told {
		out = append(out, placed{Message: m})
	}
	return out, nil
}

// unfinished is the message to a model that finished while another of its calls failed.
const unfinished = "Not finished: another call in the same turn failed. Fix that first, then call finish again."

// encode converts messages to rows.
func encode(messages []model.Message) ([]store.Message, error) {
	out := make([]store.Message, len(messages))
	for i, m := range messages {
		raw, err := json.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("store a message: %w", err)
		}
		out[i] = store.Message{Role: string(m.Role), Content: raw}
	}
	return out, nil
}
