package deliberation

import (
	"crypto/rand"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/deliberation/state"
	"github.com/rocketgpt/orchestrator/workflows/internal/flow"
)

// pipelineCommand is one thing that a person or service can ask of a pipeline, as
// an update and as a signal of the same name.
type pipelineCommand struct {
	name string
	// check says why the command makes no sense now; it changes nothing.
	check func(d *deliberation, c contract.PipelineCommand) error
	// apply changes the state and says what happened.
	apply func(d *deliberation, ctx workflow.Context, c contract.PipelineCommand) string
}

// pipelineCommands in a fixed order: registration must be the same at each replay.
var pipelineCommands = []pipelineCommand{
	{contract.UpdateContinue, (*deliberation).checkContinue, (*deliberation).applyContinue},
	{contract.UpdateStop, nil, (*deliberation).applyStop},
	{contract.UpdateSwitchModel, (*deliberation).checkSwitchModel, (*deliberation).applySwitchModel},
	{contract.UpdateRevoke, (*deliberation).checkMember, (*deliberation).applyRevoke},
	{contract.UpdateRecordError, (*deliberation).checkError, (*deliberation).applyError},
	{contract.UpdateFailureContext, (*deliberation).checkContext, (*deliberation).applyContext},
}

// handle registers the query, the updates and the signals, and listens to the
// members.
func (d *deliberation) handle(ctx workflow.Context) error {
	if err := workflow.SetQueryHandler(ctx, contract.QueryBlackboard, func() (contract.DeliberationView, error) { return d.View(), nil }); err != nil {
		return err
	}
	for _, c := range pipelineCommands {
		if err := d.handleCommand(ctx, c); err != nil {
			return err
		}
	}
	if err := d.acceptMoveUpdates(ctx); err != nil {
		return err
	}
	moves := workflow.GetSignalChannel(ctx, contract.SignalMoves)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var m contract.Moves
			if !moves.Receive(ctx, &m) {
				return
			}
			d.Receive(m, workflow.Now(ctx))
			d.dirty = true
		}
	})
	return nil
}

func (d *deliberation) handleCommand(ctx workflow.Context, c pipelineCommand) error {
	update := func(ctx workflow.Context, args contract.PipelineCommand) (contract.PipelineAck, error) {
		return d.apply(ctx, c, args), nil
	}
	validator := func(_ workflow.Context, args contract.PipelineCommand) error { return d.validate(c, args) }
	if err := workflow.SetUpdateHandlerWithOptions(ctx, c.name, update, workflow.UpdateHandlerOptions{Validator: validator}); err != nil {
		return err
	}
	signals := workflow.GetSignalChannel(ctx, c.name)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var args contract.PipelineCommand
			if !signals.Receive(ctx, &args) {
				return
			}
			if err := d.validate(c, args); err != nil {
				d.refuse(c, args, fault.Of(err))
				continue
			}
			d.apply(ctx, c, args)
		}
	})
	return nil
}

// refuse says why a signal had no effect. It cannot be answered, so that is
// recorded, as long as the pipeline is not over.
func (d *deliberation) refuse(c pipelineCommand, args contract.PipelineCommand, why *contract.Failure) {
	d.log.Warn("Refused a signal", "signal", c.name, "reason", why.Message)
	if d.Ending.Finished {
		return
	}
	d.RecordRefusal(contract.Error{
		ID: fault.Clip(args.ID, state.KeyLength), Class: why.Class, Code: why.Code, Message: fault.Clip(c.name+": "+why.Message, contract.TextHead),
	}, 1)
}

// validate says why a command cannot be accepted. It must not change anything.
func (d *deliberation) validate(c pipelineCommand, args contract.PipelineCommand) error {
	if d.applied(args) {
		return nil // acknowledged again
	}
	if len(args.Reason) > flow.MaxReason || len(args.Context) > flow.MaxReason || len(args.By) > flow.MaxReason || len(args.ID) > flow.MaxReason {
		return flow.Rejected("the words of %s are more than the %d bytes allowed", c.name, flow.MaxReason)
	}
	passedOn := d.recovering() && (c.name == contract.UpdateStop || c.name == contract.UpdateSwitchModel)
	if d.Ending.Finished && !passedOn {
		return flow.Rejected("pipeline %d has ended (%s)%s; %s changes nothing any more", d.Input.PipelineID, d.Status, d.recoveryNote(), c.name)
	}
	if c.check == nil {
		return nil
	}
	return c.check(d, args)
}

// recovering reports whether the pipeline's recovery is under way, or about to be.
func (d *deliberation) recovering() bool { return d.announced && d.stop == nil }

// recoveryNote names the recovery, if there is one.
func (d *deliberation) recoveryNote() string {
	if d.Ending.RecoveredBy == 0 {
		return ""
	}
	return fmt.Sprintf(" and is recovered by pipeline %d", d.Ending.RecoveredBy)
}

// apply applies a command once.
func (d *deliberation) apply(ctx workflow.Context, c pipelineCommand, args contract.PipelineCommand) contract.PipelineAck {
	if d.applied(args) {
		return contract.PipelineAck{Status: d.Status, Message: c.name + " had been applied before"}
	}
	d.seen[args.ID] = struct{}{}
	words := c.apply(d, ctx, args)
	d.dirty = true
	return contract.PipelineAck{Applied: true, Status: d.Status, Message: words}
}

// applied reports whether a command with this id has been applied.
func (d *deliberation) applied(c contract.PipelineCommand) bool {
	_, done := d.seen[c.ID]
	return done && c.ID != ""
}

// checkModels says why members cannot use models.
func (d *deliberation) checkModels(c contract.PipelineCommand) error {
	for _, agent := range workflow.DeterministicKeys(c.Models) {
		if !slices.ContainsFunc(contract.Members(), func(m contract.Member) bool { return m.Agent() == agent }) {
			return flow.Rejected("no member of a deliberation is called %q", fault.Clip(string(agent), state.KeyLength))
		}
		if m := c.Models[agent]; m.Provider == "" || m.Model == "" || len(m.Provider)+len(m.Model) > flow.MaxReason {
			return flow.Rejected("%s needs a provider and a model, of at most %d bytes", agent, flow.MaxReason)
		}
	}
	return nil
}

func (d *deliberation) checkSwitchModel(c contract.PipelineCommand) error {
	if len(c.Models) == 0 {
		return flow.Rejected("switch_model needs a model for alpha, beta or gamma")
	}
	return d.checkModels(c)
}

// applySwitchModel lets members use other models from their next turn on, and those
// of a recovery that is under way.
func (d *deliberation) applySwitchModel(ctx workflow.Context, c contract.PipelineCommand) string {
	if c.Order != 0 && c.Order <= d.ordered {
		return "a newer switch came before"
	}
	d.ordered = max(d.ordered, c.Order)
	d.SwitchModels(c.Models)
	if d.Ending.Finished { // what it used stays in its row
		d.switchRecoveryModels(ctx)
		return "its recovery uses them from the next turns on"
	}
	d.SettingsStale, d.RowStale = true, true
	return "they are used from the next turns on"
}

// switchRecoveryModels tells the recovery that is under way which models its members are to
// use.
func (d *deliberation) switchRecoveryModels(ctx workflow.Context) {
	SwitchModels(ctx, d.successor, contract.PipelineCommand{Order: d.ordered, Models: d.Settings.Models})
}

// SwitchModels tells a deliberation that was started, if there is one, which models
// its members are to use. One that has just ended needs none any more.
func SwitchModels(ctx workflow.Context, child workflow.ChildWorkflowFuture, c contract.PipelineCommand) {
	if child == nil || child.IsReady() {
		return
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := child.SignalChildWorkflow(ctx, contract.UpdateSwitchModel, c).Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Warn("A deliberation was not told of its models", "error", err)
		}
	})
}

func (d *deliberation) checkContinue(c contract.PipelineCommand) error {
	if err := d.checkModels(c); err != nil {
		return err
	}
	switch {
	case c.Mode != "" && !slices.Contains(contract.PipelineModes(), c.Mode):
		return flow.Rejected("there is no mode %q", fault.Clip(string(c.Mode), state.KeyLength))
	case c.Timeout < 0:
		return flow.Rejected("the time of the exchange cannot be negative")
	}
	return nil
}

// applyContinue lets the pipeline go on to its exchange. Said before its report
// is there it counts when that is; where the exchange is under way it changes
// nothing.
func (d *deliberation) applyContinue(_ workflow.Context, c contract.PipelineCommand) string {
	if d.Status == contract.PipelineOrchestrating {
		if c.Mode != "" || c.Timeout > 0 || len(c.Models) > 0 {
			return "goes on already, with the models and the time that it has: those are chosen before the exchange begins"
		}
		return "goes on already"
	}
	d.continued = true
	d.SettingsStale = d.SettingsStale || c.Mode != "" || c.Timeout > 0 || len(c.Models) > 0
	if c.Mode != "" {
		d.Settings.Mode = c.Mode
	}
	if c.Timeout > 0 {
		d.Settings.Timeout, d.Settings.ContinuedTimeout, d.ExchangeLimit = c.Timeout, c.Timeout, c.Timeout
	}
	d.SwitchModels(c.Models)
	if d.Status != contract.PipelineReport {
		return "will go on once the opening work is reported"
	}
	return "goes on"
}

// whoAndWhy says who gave a command, and why.
func whoAndWhy(c contract.PipelineCommand) string {
	by := c.By
	if by == "" {
		by = "an unnamed service"
	}
	return "by " + fault.Clip(by, contract.TextHead) + flow.Because(fault.Clip(c.Reason, contract.TextHead))
}

func (d *deliberation) applyStop(_ workflow.Context, c contract.PipelineCommand) string {
	why := &fault.New(contract.ClassHuman, contract.CodeCancelled, "stopped %s; partial results are kept", whoAndWhy(c)).Failure
	if d.stop == nil {
		d.stop, d.stopper = why, &c
	}
	if d.recovery != nil {
		d.recovery()
		return "its recovery is being stopped"
	}
	if d.announced {
		return "its recovery will not begin"
	}
	d.cancel()
	return "is being stopped"
}

func (d *deliberation) checkMember(c contract.PipelineCommand) error {
	if !c.Member.Valid() {
		return flow.Rejected("a member is needed: ALPHA, BETA or GAMMA")
	}
	if s := d.Participant(c.Member); s == nil || s.Dead {
		return flow.Rejected("%s is not there, or no longer", c.Member)
	}
	return nil
}

func (d *deliberation) applyRevoke(_ workflow.Context, c contract.PipelineCommand) string {
	d.Revoke(d.Participant(c.Member), whoAndWhy(c), contract.Error{Class: contract.ClassHuman, Code: contract.CodeCancelled})
	return string(c.Member) + " is revoked; the others go on"
}

func (d *deliberation) checkError(c contract.PipelineCommand) error {
	if err := d.checkMember(c); err != nil {
		return err
	}
	if c.Error == nil || c.Error.Message == "" || !slices.Contains(contract.Classes(), c.Error.Class) {
		return flow.Rejected("record_error needs an error with a class and a message")
	}
	if s := c.Error.Severity; s != "" && !slices.Contains(contract.Severities(), s) {
		return flow.Rejected("the severity %q is none of %v", fault.Clip(string(s), state.KeyLength), contract.Severities())
	}
	if len(c.Error.Message) > flow.MaxReason || len(c.Error.Code) > state.KeyLength {
		return flow.Rejected("the error's message or code is too long")
	}
	return nil
}

// applyError counts an error that somebody else saw against a member.
func (d *deliberation) applyError(_ workflow.Context, c contract.PipelineCommand) string {
	e := *c.Error
	e.ID, e.Message = fault.Clip(c.ID, state.KeyLength), fault.Clip(e.Message, contract.TextHead)
	s := d.Participant(c.Member)
	d.RecordError(s, e, 0)
	if s.Dead {
		return "recorded; " + string(c.Member) + " is revoked"
	}
	return "recorded"
}

func (d *deliberation) checkContext(c contract.PipelineCommand) error {
	if c.Context == "" {
		return flow.Rejected("failure_context needs a context")
	}
	if len(d.Ending.Notes) >= state.MaxContextNotes {
		return flow.Rejected("%d notes are kept already", state.MaxContextNotes)
	}
	return nil
}

// applyContext keeps a note for the failure context, if there will be one.
func (d *deliberation) applyContext(_ workflow.Context, c contract.PipelineCommand) string {
	d.Ending.Notes = append(d.Ending.Notes, fault.Clip(c.Context, contract.TextHead))
	return "kept for the failure context"
}

// newToken makes what a member shows to be itself. It is of chance: who knows one
// token must not know another's.
func newToken(ctx workflow.Context) string {
	var token string
	//workflowcheck:ignore
	chance := workflow.SideEffect(ctx, func(workflow.Context) any { return rand.Text() })
	if err := chance.Get(&token); err != nil {
		workflow.GetLogger(ctx).Error("Could not read a token", "error", err)
	}
	return token
}
