package deliberation

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/deliberation/state"
	"github.com/rocketgpt/orchestrator/workflows/internal/commands"
)

// handle registers the handlers of the query and the commands, and receives the members' moves.
func (d *deliberation) handle(ctx workflow.Context) error {
	if err := workflow.SetQueryHandler(ctx, contract.QueryBlackboard, func() (contract.DeliberationView, error) { return d.View(), nil }); err != nil {
		return err
	}
	handlers := commands.Commands[contract.PipelineCommand, contract.PipelineAck]{
		ID:      func(c contract.PipelineCommand) string { return c.ID },
		Accepts: d.accepts,
		Repeated: func(name string, _ contract.PipelineCommand) contract.PipelineAck {
			return contract.PipelineAck{Status: d.Status, Message: name + " was already applied"}
		},
		Refused: d.refuse,
	}
	if err := handlers.Register(ctx, nil,
		d.command(contract.UpdateContinue, d.checkContinue, d.applyContinue),
		d.command(contract.UpdateStop, nil, d.applyStop),
		d.command(contract.UpdateSwitchModel, d.checkSwitchModel, d.applySwitchModel),
		d.command(contract.UpdateRevoke, d.checkMember, d.applyRevoke),
		d.command(contract.UpdateRecordError, d.checkError, d.applyError),
		d.command(contract.UpdateFailureContext, d.checkContext, d.applyContext),
	); err != nil {
		return err
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

// command returns a command that changes the state and reports the outcome in a message.
func (d *deliberation) command(name string, check func(contract.PipelineCommand) error, apply func(workflow.Context, contract.PipelineCommand) string) commands.Command[contract.PipelineCommand, contract.PipelineAck] {
	return commands.Command[contract.PipelineCommand, contract.PipelineAck]{
		Name: name, Check: check,
		Apply: func(ctx workflow.Context, c contract.PipelineCommand) (contract.PipelineAck, error) {
			message := apply(ctx, c)
			d.dirty = true
			d.recordCommand(name, c)
			return contract.PipelineAck{Applied: true, Status: d.Status, Message: message}, nil
		},
	}
}

// recordCommand records who sent a command that was accepted, unless its first receiver has done so. A
// switch of models has an event of its own.
func (d *deliberation) recordCommand(name string, c contract.PipelineCommand) {
	if c.Passed {
		return
	}
	add := d.AddEvent
	if !d.recordsCommands {
		add = d.AddCommand
	}
	if name == contract.UpdateSwitchModel {
		return
	}
	payload := map[string]any{"command": name, "by": c.By, "reason": fault.Clip(c.Reason, contract.TextHead), "text": name + " " + whoAndWhy(c)}
	if c.Member != "" {
		payload["member"] = c.Member
	}
	if c.Mode != "" {
		payload["mode"] = c.Mode
	}
	if len(c.Models) > 0 {
		payload["models"] = c.Models
	}
	if c.Timeout > 0 {
		payload["timeout_seconds"] = c.Timeout.Seconds()
	}
	add(contract.EventPipelineCommanded, payload)
}

// refuse records why a signal had no effect, unless the pipeline is over.
func (d *deliberation) refuse(_ workflow.Context, name string, args contract.PipelineCommand, err error) {
	why := fault.Of(err)
	d.log.Warn("Rejected a signal", "signal", name, "reason", why.Message)
	if d.Ending.Finished {
		return
	}
	d.RecordRefusal(contract.Error{
		ID: fault.Clip(args.ID, state.KeyLength), Class: why.Class, Code: why.Code, Message: fault.Clip(name+": "+why.Message, contract.TextHead),
	}, 1)
}

// accepts performs the checks common to all commands, and returns why a command is rejected, if it
// is.
func (d *deliberation) accepts(name string, args contract.PipelineCommand) error {
	if len(args.Reason) > commands.MaxReason || len(args.Context) > commands.MaxReason || len(args.By) > commands.MaxReason || len(args.ID) > commands.MaxReason {
		return commands.Rejected("%s contains text longer than the %d bytes allowed", name, commands.MaxReason)
	}
	passedOn := d.recovering() && (name == contract.UpdateStop || name == contract.UpdateSwitchModel)
	if d.Ending.Finished && !passedOn {
		return commands.Rejected("pipeline %d has ended (%s)%s; %s has no effect", d.Input.PipelineID, d.Status, d.recoveryNote(), name)
	}
	return nil
}

// recovering reports whether the pipeline's recovery is running or about to start.
func (d *deliberation) recovering() bool { return d.announced && d.stop == nil }

// recoveryNote names the recovery, if there is one.
func (d *deliberation) recoveryNote() string {
	if d.Ending.RecoveredBy == 0 {
		return ""
	}
	return fmt.Sprintf(" and is being recovered by pipeline %d", d.Ending.RecoveredBy)
}

// checkModels returns why members cannot use the models of a command.
func (d *deliberation) checkModels(c contract.PipelineCommand) error {
	for _, agent := range workflow.DeterministicKeys(c.Models) {
		if !slices.ContainsFunc(contract.Members(), func(m contract.Member) bool { return m.Agent() == agent }) {
			return commands.Rejected("%q is not a member of a deliberation", fault.Clip(string(agent), state.KeyLength))
		}
		if m := c.Models[agent]; m.Provider == "" || m.Model == "" || len(m.Provider)+len(m.Model) > commands.MaxReason {
			return commands.Rejected("%s needs a provider and a model of at most %d bytes in total", agent, commands.MaxReason)
		}
	}
	return nil
}

func (d *deliberation) checkSwitchModel(c contract.PipelineCommand) error {
	if len(c.Models) == 0 {
		return commands.Rejected("switch_model needs a model for alpha, beta or gamma")
	}
	return d.checkModels(c)
}

// applySwitchModel switches members to other models from their next turn on, including
// the members of a recovery that is running.
func (d *deliberation) applySwitchModel(ctx workflow.Context, c contract.PipelineCommand) string {
	if c.Order != 0 && c.Order <= d.ordered {
		return "a newer switch was applied first"
	}
	d.ordered = max(d.ordered, c.Order)
	d.SwitchModels(c.Models, "a switch on the fly by "+sender(c))
	if c.Order == 0 && !c.Passed { // otherwise, its run or the pipeline before it recorded the switch
		d.AddEvent(contract.EventModelsSwitched, map[string]any{"models": c.Models, "by": c.By, "reason": c.Reason, "text": switched(c)})
	}
	if d.Ending.Finished { // its usage stays in its row
		d.switchRecoveryModels(ctx, c)
		return "its recovery uses the new models from the next turn on"
	}
	d.SettingsStale, d.RowStale = true, true
	return "the new models apply from the next turn on"
}

// switched describes a switch of models for people.
func switched(c contract.PipelineCommand) string {
	var out []string
	for _, m := range contract.Members() {
		if choice, ok := c.Models[m.Agent()]; ok {
			out = append(out, fmt.Sprintf("%s uses %s/%s", m, fault.Clip(choice.Provider, state.KeyLength), fault.Clip(choice.Model, state.KeyLength)))
		}
	}
	return strings.Join(out, ", ") + " from the next turn on, " + whoAndWhy(c)
}

// switchRecoveryModels sends the running recovery the models that its members must use, because of a
// command.
func (d *deliberation) switchRecoveryModels(ctx workflow.Context, c contract.PipelineCommand) {
	SwitchModels(ctx, d.successor, contract.PipelineCommand{Order: d.ordered, By: c.By, Reason: c.Reason, Models: d.Settings.Models, Passed: true})
}

// SwitchModels sends a deliberation that has been started, if any, the models that its members must
// use. If it has just ended, it does not need them.
func SwitchModels(ctx workflow.Context, child workflow.ChildWorkflowFuture, c contract.PipelineCommand) {
	if child == nil || child.IsReady() {
		return
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := child.SignalChildWorkflow(ctx, contract.UpdateSwitchModel, c).Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Warn("Could not notify a deliberation of its new models", "error", err)
		}
	})
}

func (d *deliberation) checkContinue(c contract.PipelineCommand) error {
	if err := d.checkModels(c); err != nil {
		return err
	}
	switch {
	case c.Mode != "" && !slices.Contains(contract.PipelineModes(), c.Mode):
		return commands.Rejected("unknown mode %q", fault.Clip(string(c.Mode), state.KeyLength))
	case c.Timeout < 0:
		return commands.Rejected("the exchange time limit cannot be negative")
	}
	return nil
}

// applyContinue lets the pipeline continue to its exchange. A command that arrives before the
// report takes effect when the report is ready; during the exchange it changes nothing.
func (d *deliberation) applyContinue(_ workflow.Context, c contract.PipelineCommand) string {
	if d.Status == contract.PipelineOrchestrating {
		if c.Mode != "" || c.Timeout > 0 || len(c.Models) > 0 {
			return "is already running; its models and time limit can be set only before the exchange begins"
		}
		return "is already running"
	}
	d.continued = true
	d.SettingsStale = d.SettingsStale || c.Mode != "" || c.Timeout > 0 || len(c.Models) > 0
	if c.Mode != "" {
		d.Settings.Mode = c.Mode
	}
	if c.Timeout > 0 {
		d.Settings.Timeout, d.Settings.ContinuedTimeout, d.ExchangeLimit = c.Timeout, c.Timeout, c.Timeout
	}
	d.SwitchModels(c.Models, "the command to continue, by "+sender(c))
	if d.Status != contract.PipelineReport {
		return "will continue once the opening turns are reported"
	}
	return "continues"
}

// whoAndWhy returns who gave a command, and why.
func whoAndWhy(c contract.PipelineCommand) string {
	return "by " + sender(c) + commands.Because(fault.Clip(c.Reason, contract.TextHead))
}

// sender returns who gave a command.
func sender(c contract.PipelineCommand) string {
	return fault.Clip(cmp.Or(c.By, "an unnamed service"), contract.TextHead)
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
		return "its recovery will not start"
	}
	d.cancel()
	return "is being stopped"
}

func (d *deliberation) checkMember(c contract.PipelineCommand) error {
	if !c.Member.Valid() {
		return commands.Rejected("the member must be ALPHA, BETA or GAMMA")
	}
	if s := d.Participant(c.Member); s == nil || s.Dead {
		return commands.Rejected("%s is not active", c.Member)
	}
	return nil
}

func (d *deliberation) applyRevoke(_ workflow.Context, c contract.PipelineCommand) string {
	d.Revoke(d.Participant(c.Member), whoAndWhy(c), contract.Error{Class: contract.ClassHuman, Code: contract.CodeCancelled})
	return string(c.Member) + " was revoked; the others continue"
}

func (d *deliberation) checkError(c contract.PipelineCommand) error {
	if err := d.checkMember(c); err != nil {
		return err
	}
	if c.Error == nil || c.Error.Message == "" || !slices.Contains(contract.Classes(), c.Error.Class) {
		return commands.Rejected("record_error needs an error with a class and a message")
	}
	if s := c.Error.Severity; s != "" && !slices.Contains(contract.Severities(), s) {
		return commands.Rejected("the severity %q is not one of %v", fault.Clip(string(s), state.KeyLength), contract.Severities())
	}
	if len(c.Error.Message) > commands.MaxReason || len(c.Error.Code) > state.KeyLength {
		return commands.Rejected("the error's message or code is too long")
	}
	return nil
}

// applyError counts against a member an error that someone else reported.
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
		return commands.Rejected("failure_context needs a context")
	}
	if len(d.Ending.Notes) >= state.MaxContextNotes {
		return commands.Rejected("there are already %d notes", state.MaxContextNotes)
	}
	return nil
}

// applyContext saves a note in case a failure context is written later.
func (d *deliberation) applyContext(_ workflow.Context, c contract.PipelineCommand) string {
	d.Ending.Notes = append(d.Ending.Notes, fault.Clip(c.Context, contract.TextHead))
	return "saved for the failure context"
}

// newToken returns the token with which a member proves its identity. It is random: knowing one
// token must not reveal another.
func newToken(ctx workflow.Context) string {
	var token string
	//workflowcheck:ignore
	chance := workflow.SideEffect(ctx, func(workflow.Context) any { return rand.Text() })
	if err := chance.Get(&token); err != nil {
		workflow.GetLogger(ctx).Error("Could not generate a token", "error", err)
	}
	return token
}
