package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

// Pipelines controls the pipelines of one installation: independent deliberations, and
// deliberations that plan runs.
type Pipelines struct {
	Store     *store.Store
	Feed      *feed.Feed
	Temporal  client.Client
	Artifacts *artifact.Store
	Config    *config.Config // the operator's; each pipeline freezes its own settings from it
}

// runs returns the part of the controller of runs that knows the models.
func (p *Pipelines) runs() *Runs { return &Runs{Store: p.Store, Config: p.Config} }

// Pipelines returns the controller of the same installation's pipelines.
func (r *Runs) Pipelines() *Pipelines {
	return &Pipelines{Store: r.Store, Feed: r.Feed, Temporal: r.Temporal, Artifacts: r.Artifacts, Config: r.Config}
}

// Spawning describes the pipeline to create.
type Spawning struct {
	Objective    string
	Task         *Task                 // more about the objective
	Project      string                // project whose budgets apply; empty: the project of pipelines
	AutoContinue *bool                 // nil: as configured
	ForceGamma   bool                  // GAMMA joins at the start
	Mode         contract.PipelineMode // empty: as configured
	Model        string                // model of all members, as provider/model; empty: as configured
	// Models are the models of single members (alpha, beta, gamma), as provider/model, instead of Model.
	Models  map[contract.Agent]string `json:",omitempty"`
	Effort  contract.Effort           `json:",omitempty"` // amount of reasoning of all members; empty: as configured
	Timeout int                       // time limit of the exchange in seconds; 0: the task's, or as configured
	Key     string                    // idempotency key: requests with the same key create only one pipeline
	By      string                    `json:"-"` // who creates it: a person, or a client such as contract.ByAPI
}

// Spawned is a pipeline that was created, now or by an earlier request with the same key.
type Spawned struct {
	Pipeline store.Pipeline
	Fresh    bool
	// Waiting is why the pipeline has not started yet. The worker starts it as soon as possible.
	Waiting string
}

// Check returns the errors that can be found without access to other systems.
func (s Spawning) Check() error {
	_, err := s.task()
	if err == nil {
		err = s.checkModels()
	}
	if err == nil && (s.Timeout < 0 || s.Timeout > maxSeconds) {
		err = about(FieldTimeout, wrong("the timeout is %d seconds; it must be 1 to %d seconds, or omitted", s.Timeout, maxSeconds))
	}
	return err
}

func (s Spawning) checkModels() error {
	if err := checkMode(s.Mode); err != nil {
		return about(FieldMode, err)
	}
	if err := CheckSampling(nil, s.Effort); err != nil {
		return about(FieldEffort, err)
	}
	if s.Model != "" {
		if err := CheckModel(s.Model); err != nil {
			return about(FieldModel, err)
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(s.Models)) {
		if !contract.Member(strings.ToUpper(string(agent))).Valid() || agent != contract.Agent(strings.ToLower(string(agent))) {
			return about(FieldModels, wrong("the agent %.100q has no model in a pipeline; must be one of alpha, beta and gamma", agent))
		}
		if err := CheckModel(s.Models[agent]); err != nil {
			return about(FieldOfMember(agent), err)
		}
	}
	return nil
}

func checkMode(mode contract.PipelineMode) error {
	switch mode {
	case "", contract.ModeOpenRouter, contract.ModeLocal:
		return nil
	}
	return wrong("the mode %q is invalid; use openrouter or local", mode)
}

// task returns the task with the objective, which the task or the request may contain.
func (s Spawning) task() (t Task, err error) {
	if s.Task != nil {
		t = *s.Task
	}
	own, said := strings.TrimSpace(t.Objective), strings.TrimSpace(s.Objective)
	if own != "" && said != "" && own != said {
		return t, wrong("the task and the request have different objectives; specify only one")
	}
	if t.Objective = cmp.Or(said, own); t.Objective == "" {
		return t, about(FieldObjective, wrong(`the objective is empty; specify one, such as --objective "Design a caching strategy"`))
	}
	return t, about(FieldObjective, t.Check())
}

// Spawn checks all inputs, then creates the pipeline and starts it. If it returns an error, no
// pipeline was created.
func (p *Pipelines) Spawn(ctx context.Context, s Spawning) (Spawned, error) {
	if err := s.Check(); err != nil {
		return Spawned{}, err
	}
	task, err := s.task()
	if err != nil {
		return Spawned{}, err
	}
	if most := p.Config.Execution.MaxGoalBytes.Int64(); int64(task.size()) > most {
		return Spawned{}, about(FieldObjective, wrong("the objective and task are %d bytes long in total, more than the %d allowed (execution.max_goal_bytes); shorten them", task.size(), most))
	}
	digest, err := digestOf(s)
	if err != nil {
		return Spawned{}, err
	}
	if known, err := p.known(ctx, s.Key, digest); known != nil || err != nil {
		return deref(known), err
	}
	settings, err := p.settings(ctx, s)
	if err != nil {
		return Spawned{}, err
	}
	task.TaskID = cmp.Or(task.TaskID, "task-"+uuid.NewString()[:8])
	if s.Timeout > 0 { // the request overrides the task
		task.TimeoutSeconds = s.Timeout
	}
	var out Spawned
	out.Pipeline, out.Fresh, err = p.Store.SpawnPipeline(ctx, store.NewPipelineRow{
		Tenant: store.DefaultTenant, Project: s.Project, Objective: task.Objective, Task: task.resolved(), Settings: settings,
		IdempotencyKey: s.Key, RequestDigest: digest, By: s.By,
	})
	if err != nil {
		return Spawned{}, err
	}
	p.start(ctx, &out)
	return out, nil
}

// known returns the pipeline that was already created under a key, nil if there is none.
func (p *Pipelines) known(ctx context.Context, key, digest string) (*Spawned, error) {
	if key == "" {
		return nil, nil
	}
	made, err := p.Store.PipelineByKey(ctx, store.DefaultTenant, key, digest)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := Spawned{Pipeline: made}
	p.start(ctx, &out)
	return &out, nil
}

// start starts the workflow of a new pipeline. If that fails, the worker's reconciler starts it
// later, because the pipeline exists.
func (p *Pipelines) start(ctx context.Context, s *Spawned) {
	if s.Pipeline.WorkflowID != "" {
		return
	}
	if err := temporal.StartPipeline(ctx, p.Temporal, p.Store, s.Pipeline); err != nil {
		s.Waiting = fault.Of(err).Message
	}
}

// settings resolves and freezes the settings of a pipeline, and checks that its models are
// reachable.
func (p *Pipelines) settings(ctx context.Context, s Spawning) (contract.DeliberationSettings, error) {
	settings, err := p.models(ctx, s.Mode, s.Model)
	if err != nil {
		return settings, err
	}
	if err := p.memberModels(&settings, s); err != nil {
		return settings, err
	}
	if err := p.runs().setEffort(ctx, settings.Models, s.Effort); err != nil {
		return settings, about(FieldEffort, err)
	}
	settings.ForceGamma = s.ForceGamma
	if s.AutoContinue != nil {
		settings.AutoContinue = *s.AutoContinue
	}
	if s.Timeout > 0 {
		settings.Timeout = time.Duration(s.Timeout) * time.Second
	}
	return settings, p.probe(ctx, settings, "the pipeline was not created")
}

// models returns the settings with the models of a mode, or with one model for all members. A
// scripted model always uses mode local.
func (p *Pipelines) models(ctx context.Context, mode contract.PipelineMode, name string) (contract.DeliberationSettings, error) {
	cfg := p.Config
	if name == "" {
		var err error
		if cfg, err = withChoices(ctx, p.Store, cfg, cfg); err != nil {
			return contract.DeliberationSettings{}, err
		}
	}
	settings, err := setup.Deliberation(cfg, mode)
	if err != nil || name == "" {
		return settings, err
	}
	chosen, err := Model(p.Config, name)
	if err != nil {
		return settings, about(FieldModel, err)
	}
	scripted := p.Config.Models.Providers[chosen.Provider].Kind == string(model.KindScripted)
	if mode == contract.ModeLocal && !scripted {
		return settings, about(FieldModel, wrong("local mode uses the scripted model, not %s; omit the model, or use openrouter mode", name))
	}
	deliberateWith(p.Config, &settings, chosen)
	return settings, nil
}

// memberModels sets the models that a request names for single members, and the mode that follows from
// them.
func (p *Pipelines) memberModels(settings *contract.DeliberationSettings, s Spawning) error {
	for _, m := range contract.Members() {
		agent := m.Agent()
		name := s.Models[agent]
		if name == "" {
			continue
		}
		chosen, err := Model(p.Config, name)
		if err != nil {
			return about(FieldOfMember(agent), err)
		}
		if s.Mode == contract.ModeLocal && p.Config.Models.Providers[chosen.Provider].Kind != string(model.KindScripted) {
			return about(FieldOfMember(agent), wrong("local mode uses the scripted model, not %s; omit the model, or use openrouter mode", name))
		}
		settings.Models[agent] = chosen
		settings.ModelSources[agent] = requestedModel
	}
	if len(s.Models) > 0 {
		settings.Mode = setup.ModeOf(p.Config, settings.Models)
	}
	return nil
}

// deliberateWith sets one model for all members. A scripted model uses mode local.
func deliberateWith(cfg *config.Config, s *contract.DeliberationSettings, chosen contract.ModelChoice) {
	s.Mode = contract.ModeOpenRouter
	if cfg.Models.Providers[chosen.Provider].Kind == string(model.KindScripted) {
		s.Mode = contract.ModeLocal
	}
	for agent := range s.Models {
		s.Models[agent] = chosen
	}
	s.ModelSources = requested(s.ModelSources)
}

// probe checks that the members' models are reachable, before anything is created or changed.
func (p *Pipelines) probe(ctx context.Context, s contract.DeliberationSettings, what string) error {
	var used []string
	for _, m := range s.Models {
		used = append(used, m.Provider)
	}
	return reachable(ctx, p.Config, used, s.Fallbacks, what)
}

// Continuation describes how a pipeline continues to its exchange.
type Continuation struct {
	Mode    contract.PipelineMode // empty: as spawned
	Model   string                // model of all members, as provider/model; empty: as spawned
	Effort  contract.Effort       // amount of reasoning of all members; empty: as spawned
	Timeout int                   // time limit of the exchange in seconds; 0: unchanged
	contract.PipelineCommand
}

// Continue continues a pipeline that has reported its opening turns. If sent before the report, the
// command takes effect when the report is ready.
func (p *Pipelines) Continue(ctx context.Context, id int64, c Continuation) (contract.PipelineAck, error) {
	if err := (Spawning{Mode: c.Mode, Model: c.Model, Effort: c.Effort}).checkModels(); err != nil {
		return contract.PipelineAck{}, err
	}
	if c.Timeout < 0 || c.Timeout > maxSeconds {
		return contract.PipelineAck{}, wrong("the timeout is %d seconds; it must be 1 to %d seconds, or omitted", c.Timeout, maxSeconds)
	}
	now, err := p.Store.Pipeline(ctx, id)
	if err != nil {
		return contract.PipelineAck{}, err
	}
	command := c.PipelineCommand
	command.Timeout = time.Duration(c.Timeout) * time.Second
	if c.Model != "" || c.Mode != "" && c.Mode != now.Mode { // otherwise the frozen models are kept
		settings, err := p.models(ctx, c.Mode, c.Model)
		if err != nil {
			return contract.PipelineAck{}, err
		}
		if err := p.probe(ctx, settings, fmt.Sprintf("pipeline %d was not continued", id)); err != nil {
			return contract.PipelineAck{}, err
		}
		command.Mode, command.Models = settings.Mode, settings.Models
	} else if c.Effort != "" {
		command.Models = maps.Clone(now.Settings.Models)
	}
	if err := p.runs().setEffort(ctx, command.Models, c.Effort); err != nil {
		return contract.PipelineAck{}, err
	}
	return p.send(ctx, id, contract.UpdateContinue, command)
}

// Stop stops a pipeline, or the recovery that it waits for. Its results are kept.
func (p *Pipelines) Stop(ctx context.Context, id int64, c contract.PipelineCommand) (contract.PipelineAck, error) {
	return p.send(ctx, id, contract.UpdateStop, c)
}

// Revoke removes a member from a pipeline; the others continue.
func (p *Pipelines) Revoke(ctx context.Context, id int64, m contract.Member, c contract.PipelineCommand) (contract.PipelineAck, error) {
	var err error
	if c.Member, err = member(m); err != nil {
		return contract.PipelineAck{}, err
	}
	return p.send(ctx, id, contract.UpdateRevoke, c)
}

// SwitchModel switches the model of a member, or of all members if m is empty, starting with the
// next turn. The model is named as provider/model.
func (p *Pipelines) SwitchModel(ctx context.Context, id int64, m contract.Member, name string, temperature *float64, effort contract.Effort, c contract.PipelineCommand) (contract.PipelineAck, error) {
	members := contract.Members()
	if m != "" {
		one, err := member(m)
		if err != nil {
			return contract.PipelineAck{}, err
		}
		members = []contract.Member{one}
	}
	choice, err := Model(p.Config, name)
	if err != nil {
		return contract.PipelineAck{}, err
	}
	if err := CheckSampling(temperature, effort); err != nil {
		return contract.PipelineAck{}, err
	}
	choice.Temperature, choice.Effort = temperature, effort
	if err := p.runs().checkEffort(ctx, choice); err != nil {
		return contract.PipelineAck{}, err
	}
	c.Models = map[contract.Agent]contract.ModelChoice{}
	for _, m := range members {
		c.Models[m.Agent()] = choice
	}
	return p.send(ctx, id, contract.UpdateSwitchModel, c)
}

// RecordError records an error of a member that a caller reported. Secrets are removed before the
// error becomes part of a history.
func (p *Pipelines) RecordError(ctx context.Context, id int64, e contract.Error, c contract.PipelineCommand) (contract.PipelineAck, error) {
	var err error
	if e.Member, err = member(e.Member); err != nil {
		return contract.PipelineAck{}, err
	}
	if !slices.Contains(contract.Classes(), e.Class) {
		return contract.PipelineAck{}, wrong("the error_type %q is invalid; must be one of %v", e.Class, contract.Classes())
	}
	if e.Message = strings.TrimSpace(telemetry.Redact(e.Message)); e.Message == "" {
		return contract.PipelineAck{}, wrong("the error has no message; describe the error")
	}
	if e.Severity != "" && !slices.Contains(contract.Severities(), e.Severity) {
		return contract.PipelineAck{}, wrong("the severity %q is invalid; must be one of %v", e.Severity, contract.Severities())
	}
	e.Code = cmp.Or(e.Code, contract.CodeUnknown)
	e.Message = fault.Clip(e.Message, contract.TextHead)
	c.Member, c.Error = e.Member, &e
	return p.send(ctx, id, contract.UpdateRecordError, c)
}

// KeptFailure is the failure context of a pipeline, and the response to a note for it.
type KeptFailure struct {
	PipelineID     int64                    `json:"pipeline_id"`
	Status         contract.PipelineStatus  `json:"status"`
	Message        string                   `json:"message"`
	FailureContext *contract.FailureContext `json:"failure_context,omitempty" doc:"absent unless the pipeline has failed"`
}

// FailureContext returns the failure context of a pipeline. A note for a running
// pipeline is kept in case it fails.
func (p *Pipelines) FailureContext(ctx context.Context, id int64, c contract.PipelineCommand) (KeptFailure, error) {
	var out KeptFailure
	if c.Context = strings.TrimSpace(telemetry.Redact(c.Context)); c.Context != "" {
		c.Context = fault.Clip(c.Context, contract.TextHead)
		ack, err := p.send(ctx, id, contract.UpdateFailureContext, c)
		if err != nil {
			return out, err
		}
		out.Message = ack.Message
	}
	now, err := p.Store.Pipeline(ctx, id)
	if err != nil {
		return out, err
	}
	out.PipelineID, out.Status, out.FailureContext = now.ID, now.Status, now.FailureContext
	if out.FailureContext == nil && out.Message == "" {
		out.Message = "the pipeline has not failed, so it has no failure context"
	}
	return out, nil
}

// member parses the name of a member, in upper or lower case.
func member(m contract.Member) (contract.Member, error) {
	known := contract.Member(strings.ToUpper(string(m)))
	if !known.Valid() {
		return "", wrong("the pipeline agent %q is invalid; must be one of %v", m, contract.Members())
	}
	return known, nil
}

// send sends a command as the named update to a pipeline and waits for the response. Commands with
// the same ID count as one. If the pipeline rejects the command, the error is a HUMAN_ERROR with
// the reason.
func (p *Pipelines) send(ctx context.Context, id int64, name string, c contract.PipelineCommand) (contract.PipelineAck, error) {
	now, err := p.Store.Pipeline(ctx, id) // its error is clearer
	if err != nil {
		return contract.PipelineAck{}, err
	}
	limited, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	again := c.ID != ""
	c.ID = cmp.Or(c.ID, uuid.NewString())
	c.By, c.Reason = telemetry.Redact(c.By), telemetry.Redact(c.Reason)
	ack, err := p.update(limited, id, name, c.ID, c)
	var refusal *sdktemporal.ApplicationError
	if again && errors.As(err, &refusal) {
		// Temporal always returns the same result for a rejected update, so the same command is
		// sent as a new update.
		ack, err = p.update(limited, id, name, uuid.NewString(), c)
	}
	if err != nil {
		return ack, p.commandFailure(ctx, now, name, err)
	}
	return ack, nil
}

// update sends an update to a pipeline's workflow and returns the response.
func (p *Pipelines) update(ctx context.Context, id int64, name, updateID string, c contract.PipelineCommand) (contract.PipelineAck, error) {
	var ack contract.PipelineAck
	err := update(ctx, p.Temporal, contract.PipelineWorkflowID(id), name, updateID, c, &ack)
	if errors.Is(err, errSentWithoutAnswer) {
		now, err := p.Store.Pipeline(ctx, id)
		return contract.PipelineAck{Applied: true, Status: now.Status, Message: sentWithoutAnswer(name)}, err
	}
	return ack, err
}

// commandFailure returns why a command had no effect.
func (p *Pipelines) commandFailure(ctx context.Context, was store.Pipeline, name string, err error) error {
	return sendFailure(err, fmt.Sprintf("pipeline %d", was.ID), name, func() error {
		now, lookup := p.Store.Pipeline(context.WithoutCancel(ctx), was.ID)
		switch {
		case lookup != nil || !now.Status.Terminal():
			return refused("pipeline %d has not started yet; try again in a moment", was.ID)
		case now.RecoveredBy != 0:
			return refused("pipeline %d has ended (%s) and was recovered by pipeline %d; %s has no effect", was.ID, now.Status, now.RecoveredBy, name)
		}
		return refused("pipeline %d has ended (%s); %s has no effect", was.ID, now.Status, name)
	})
}
