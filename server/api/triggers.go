package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
)

// OfTrigger is a request about one trigger.
type OfTrigger struct {
	Name string `path:"name" maxLength:"100" doc:"name of the trigger in the configuration"`
}

func (s *Server) triggerOperations(api huma.API) {
	op := func(method, path, id, summary string, more ...int) huma.Operation {
		return operation(method, path, id, "triggers", summary, more...)
	}
	handle(s, api, op(http.MethodGet, "/api/triggers", "list-triggers", "List the triggers of the configuration and their status"), func(ctx context.Context, _ *struct{}) (*body[apitypes.TriggerList], error) {
		list, err := s.Runs.Triggers(ctx)
		return answered(apitypes.TriggerList{Triggers: store.NotNil(list)}, err)
	})
	handle(s, api, op(http.MethodGet, "/api/triggers/{name}", "get-trigger", "Get a trigger and its status"), func(ctx context.Context, in *OfTrigger) (*body[control.Trigger], error) {
		return answered(s.Runs.Trigger(ctx, in.Name))
	})
	fire := op(http.MethodPost, "/api/triggers/{name}/fire", "fire-trigger", "Fire a trigger; its settings decide whether and when a run follows", http.StatusUnprocessableEntity)
	fire.DefaultStatus = http.StatusAccepted
	handle(s, api, fire, func(ctx context.Context, in *struct {
		OfTrigger
		Keyed
		Body *control.TriggerFire
	}) (*body[triggers.Firing], error) {
		f := given(in.Body)
		f.By = cmp.Or(f.By, contract.ByAPI)
		f.Key = cmp.Or(f.Key, in.Key)
		return answered(s.Runs.FireTrigger(ctx, in.Name, f))
	})
	handle(s, api, op(http.MethodPost, "/api/triggers/{name}/pause", "pause-trigger", "Pause a trigger: its deliveries wait", http.StatusConflict, http.StatusUnprocessableEntity), func(ctx context.Context, in *struct {
		OfTrigger
		Keyed
		Body control.TriggerPause
	}) (*body[control.Trigger], error) {
		in.Body.By = cmp.Or(in.Body.By, contract.ByAPI)
		return answered(s.Runs.PauseTrigger(ctx, in.Name, in.Body))
	})
	handle(s, api, op(http.MethodPost, "/api/triggers/{name}/resume", "resume-trigger", "End the pause of a trigger", http.StatusConflict), func(ctx context.Context, in *struct {
		OfTrigger
		Keyed
		Body *Sender
	}) (*body[control.Trigger], error) {
		return answered(s.Runs.ResumeTrigger(ctx, in.Name, cmp.Or(given(in.Body).By, contract.ByAPI)))
	})
	handle(s, api, op(http.MethodGet, "/api/trigger-deliveries", "list-trigger-deliveries", "List deliveries of triggers with their outcomes, newest first"), func(ctx context.Context, in *struct {
		Trigger string         `query:"trigger" maxLength:"100" doc:"only those of this trigger"`
		State   triggers.State `query:"state" enum:"waiting,fired,skipped,failed" doc:"only those in this state"`
		Before  int64          `query:"before" minimum:"0" doc:"next of the page before"`
		Limit   int            `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"maximum number of results"`
	}) (*body[control.TriggerDeliveries], error) {
		return answered(s.Runs.TriggerDeliveries(ctx, triggers.Filter{Trigger: in.Trigger, State: in.State, Before: in.Before, Limit: in.Limit}))
	})
	again := op(http.MethodPost, "/api/trigger-deliveries/{id}/redeliver", "redeliver-trigger", "Let a delivery that was skipped or failed wait again", http.StatusConflict)
	again.DefaultStatus = http.StatusAccepted
	handle(s, api, again, func(ctx context.Context, in *struct {
		Keyed
		ID   int64 `path:"id" minimum:"1" doc:"ID of the delivery"`
		Body *Sender
	}) (*body[triggers.Firing], error) {
		return answered(s.Runs.RedeliverTrigger(ctx, in.ID, cmp.Or(given(in.Body).By, contract.ByAPI)))
	})
}

// Sender is a request that only says who sends it.
type Sender struct {
	By string `json:"by,omitempty" maxLength:"200" doc:"who sends it; default: api"`
}
