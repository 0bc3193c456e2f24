package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/runs/rerun"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/attempts"
)

// RunCommand is the part common to all commands to a run.
type RunCommand struct {
	OfRun
	Keyed
}

// command converts a request to a command. The id of the command is derived from the key, so that a
// request sent twice counts once.
func (in RunCommand) command(name string, w apitypes.Attribution) contract.Command {
	c := contract.Command{By: w.By, Reason: w.Reason}
	c.By = cmp.Or(c.By, contract.ByAPI)
	c.ID = in.id(name, in.ID)
	return c
}

func (s *Server) commandOperations(api huma.API) {
	post := func(name, summary string) huma.Operation {
		return operation(http.MethodPost, "/api/runs/{id}/"+name, name+"-run", "steering", summary, http.StatusConflict, http.StatusUnprocessableEntity)
	}
	for _, c := range []struct{ path, update, summary string }{
		{"reject", contract.UpdateReject, "Reject a run's pending request"},
		{"pause", contract.UpdatePause, "Pause a run after its current work finishes"},
		{"stop", contract.UpdateStop, "Stop a run; its partial results are kept"},
	} {
		handle(s, api, post(c.path, c.summary), func(ctx context.Context, in *struct {
			RunCommand
			Body *apitypes.AnswerRequest
		}) (*body[contract.Ack], error) {
			b := given(in.Body)
			cmd := in.command(c.path, b.Attribution)
			if err := s.answers(ctx, in.ID, b.Answered, &cmd); err != nil {
				return nil, err
			}
			return answered(s.Runs.Steer(ctx, in.ID, c.update, cmd))
		})
	}
	for _, c := range []struct{ name, summary string }{
		{contract.UpdatePause, "Pause all attempts at a run's goal"},
		{contract.UpdateResume, "Resume all paused attempts at a run's goal"},
		{contract.UpdateStop, "Stop all attempts at a run's goal; none of them is released unless one was chosen before"},
	} {
		op := operation(http.MethodPost, "/api/runs/{id}/attempts/"+c.name, c.name+"-attempts", "steering", c.summary, http.StatusConflict, http.StatusUnprocessableEntity)
		handle(s, api, op, func(ctx context.Context, in *bareCommand) (*body[attempts.Group], error) {
			return answered(s.Runs.SteerAttempts(ctx, in.ID, c.name, in.command(c.name+"-attempts", given(in.Body))))
		})
	}
	handle(s, api, post("approve", "Approve a run's pending request, optionally with an edited plan"), s.approve)
	handle(s, api, post("answer", "Answer the question of a run's planner"), s.answerInput)
	handle(s, api, post("advance", "Resume a paused run until its next phase, or start a run that has not started"), func(ctx context.Context, in *bareCommand) (*body[contract.Ack], error) {
		return answered(s.Runs.Advance(ctx, in.ID, in.command("advance", given(in.Body))))
	})
	handle(s, api, post("resume", "Resume a paused, failed or stopped run from where it left off"), func(ctx context.Context, in *bareCommand) (*body[apitypes.Resumed], error) {
		return resumed(s.Runs.Resume(ctx, in.ID, in.command("resume", given(in.Body))))
	})
	handle(s, api, post("heal", "Continue a run that needs help, or a failed run"), s.heal)
	handle(s, api, post("replay", "Repeat a finished run, starting from a given phase"), s.replay)
	fork := post("fork", "Start a new run from a step of an existing run")
	fork.DefaultStatus = http.StatusCreated
	handle(s, api, fork, s.fork)
	follow := post("follow-up", "Start a new run that continues the branch of a finished run")
	follow.DefaultStatus = http.StatusCreated
	handle(s, api, follow, s.followUp)
	handle(s, api, post("models", "Switch a run to another model, starting with the next call"), s.switchModel)
	handle(s, api, post("messages", "Send a message to a run's agents, who get it with their next turn"), s.tell)
	handle(s, api, post("labels", "Add and remove labels of a run"), s.label)
	handle(s, api, post("checks", "Report a check or review result to a run that is watching its branch"), s.check)
}

// bareCommand is a command with only a reason.
type bareCommand struct {
	RunCommand
	Body *apitypes.Attribution
}

func resumed(a control.Resumption, err error) (*body[apitypes.Resumed], error) {
	return answered(apitypes.Resumed{Answer: a.Ack, Replay: a.Replay}, err)
}

// answers binds a command to the question that the sender saw, or returns an error if a different
// question is open now. A run uses a single id for all questions about its release, even if the
// changes differ, so the time of asking distinguishes them.
func (s *Server) answers(ctx context.Context, run int64, seen apitypes.Answered, c *contract.Command) error {
	c.ApprovalID, c.Subject = seen.ApprovalID, seen.Subject
	if seen.Asked == nil {
		return nil
	}
	if _, err := s.Store.Run(ctx, run); err != nil {
		return err
	}
	open, err := s.Views.Questions(ctx, run, 1)
	if err != nil {
		return err
	}
	if len(open) == 0 || !open[0].Since.Equal(*seen.Asked) {
		return fault.New(contract.ClassHuman, contract.CodeRejected, "run %d is no longer waiting for this answer; reload its questions", run)
	}
	if c.Subject == "" { // the run compares it again when the answer arrives
		approvals, err := s.Views.Approvals(ctx, run)
		if err != nil {
			return err
		}
		for _, a := range approvals {
			if a.Status == "pending" && a.ID == open[0].ApprovalID {
				c.Subject = a.Subject
			}
		}
	}
	return nil
}

func (s *Server) approve(ctx context.Context, in *struct {
	RunCommand
	Body *apitypes.ApproveRequest
}) (*body[contract.Ack], error) {
	b := given(in.Body)
	c := in.command("approve", b.Attribution)
	if err := s.answers(ctx, in.ID, b.Answered, &c); err != nil {
		return nil, err
	}
	if b.Plan != nil {
		return answered(s.Runs.ApproveEdited(ctx, in.ID, *b.Plan, c))
	}
	return answered(s.Runs.Steer(ctx, in.ID, contract.UpdateApprove, c))
}

func (s *Server) answerInput(ctx context.Context, in *struct {
	RunCommand
	Body apitypes.InputRequest
}) (*body[contract.Ack], error) {
	c := in.command("answer", in.Body.Attribution)
	if err := s.answers(ctx, in.ID, in.Body.Answered, &c); err != nil {
		return nil, err
	}
	c.Answer = in.Body.Answer
	return answered(s.Runs.Steer(ctx, in.ID, contract.UpdateAnswer, c))
}

func (s *Server) heal(ctx context.Context, in *struct {
	RunCommand
	Body *apitypes.HealRequest
}) (*body[apitypes.Resumed], error) {
	b := given(in.Body)
	c := in.command("heal", b.Attribution)
	if err := s.answers(ctx, in.ID, b.Answered, &c); err != nil {
		return nil, err
	}
	if c.Action = b.Action; c.Action != "" && !c.Action.Valid() {
		return nil, apitypes.BadRequest(fmt.Sprintf("action %q is invalid; must be one of %v", c.Action, contract.HealActions()))
	}
	return resumed(s.Runs.Heal(ctx, in.ID, c))
}

func (s *Server) replay(ctx context.Context, in *struct {
	RunCommand
	Body apitypes.ReplayRequest
}) (*body[rerun.Result], error) {
	b := in.Body
	o := rerun.Request{RunID: in.ID, Phase: b.Phase, Step: b.Step, By: in.command("replay", b.Attribution).By, Reason: b.Reason, Key: in.id("replay", in.ID)}
	switch {
	case o.Phase == "" && o.Step != "":
		o.Phase = contract.PhaseBuilder
	case o.Phase == "":
		return nil, apitypes.BadRequest("phase: required")
	case o.Step != "" && o.Phase != contract.PhaseBuilder:
		return nil, apitypes.BadRequest("step: only the builder has steps; omit the phase or the step")
	}
	run, err := s.Store.Run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if o.Model, err = s.Runs.ModelFor(ctx, run, contract.AgentOf(o.Phase), b.ModelOverride); err != nil {
		return nil, err
	}
	return answered(s.Runs.Replay(ctx, o))
}

func (s *Server) fork(ctx context.Context, in *struct {
	RunCommand
	Body *apitypes.ForkRequest
}) (*body[apitypes.CreatedRun], error) {
	b := given(in.Body)
	o := rerun.ForkRequest{RunID: in.ID, Step: b.Step, Turn: -1, Instructions: b.Instructions, Plan: b.Plan, Reason: b.Reason, By: cmp.Or(b.By, contract.ByAPI), Key: in.id("fork", in.ID)}
	if b.Turn != nil {
		o.Turn = *b.Turn
	}
	run, err := s.Store.Run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if o.Model, err = s.Runs.ModelFor(ctx, run, contract.AgentBuilder, b.ModelOverride); err != nil {
		return nil, err
	}
	made, err := s.Runs.Fork(ctx, o)
	return answered(createdOf(made), err)
}

func (s *Server) followUp(ctx context.Context, in *struct {
	RunCommand
	Body apitypes.FollowUpRequest
}) (*body[apitypes.CreatedRun], error) {
	b := in.Body
	made, err := s.Runs.FollowUp(ctx, control.FollowUp{
		RunID: in.ID, Goal: b.Goal, Description: b.Description, Model: b.Model, Effort: b.Effort, PlanBy: b.PlanBy,
		ApprovePlan: b.ApprovePlan, ApproveRelease: b.ApproveRelease, Settings: b.Settings, Pictures: b.Pictures, By: cmp.Or(b.By, contract.ByAPI), Key: in.id("follow-up", in.ID),
	})
	return answered(createdOf(made), err)
}

func (s *Server) switchModel(ctx context.Context, in *struct {
	RunCommand
	Body apitypes.SwitchModelRequest
}) (*body[contract.Ack], error) {
	c := in.command("models", in.Body.Attribution)
	c.Agent = in.Body.Agent
	return answered(s.Runs.SwitchModel(ctx, in.ID, in.Body.Model, in.Body.Temperature, in.Body.Effort, c))
}

func (s *Server) tell(ctx context.Context, in *struct {
	RunCommand
	Body apitypes.MessageRequest
}) (*body[contract.Ack], error) {
	c := in.command("messages", apitypes.Attribution{By: in.Body.By})
	c.Text, c.Step = in.Body.Text, in.Body.Step
	return answered(s.Runs.Tell(ctx, in.ID, c))
}

func (s *Server) label(ctx context.Context, in *struct {
	RunCommand
	Body apitypes.LabelRequest
}) (*body[control.Labelled], error) {
	return answered(s.Runs.Label(ctx, in.ID, store.LabelChange{
		Add: in.Body.Add, Remove: in.Body.Remove, By: cmp.Or(in.Body.By, contract.ByAPI), Reason: in.Body.Reason,
	}))
}

func (s *Server) check(ctx context.Context, in *struct {
	RunCommand
	Body contract.CheckMessage
}) (*body[contract.Ack], error) {
	in.Body.ID = cmp.Or(in.Body.ID, in.id("check", in.ID))
	return answered(s.Runs.Check(ctx, in.ID, in.Body))
}
