package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store/mergequeues"
)

func (s *Server) mergeQueueOperations(api huma.API) {
	list := operation(http.MethodGet, "/api/merge-queues", "list-merge-queues", "runs", "List merge queues with the pull requests in them, those that changed last first")
	handle(s, api, list, func(ctx context.Context, in *struct {
		Forge      string `query:"forge" maxLength:"100" doc:"only those on this forge"`
		Repository string `query:"repository" maxLength:"1000" doc:"only those of this repository"`
		Base       string `query:"base" maxLength:"255" doc:"only those of this branch"`
		Ended      int    `query:"ended" minimum:"0" maximum:"200" default:"20" doc:"maximum number of pull requests of each queue that have left it"`
	}) (*body[apitypes.MergeQueues], error) {
		queues, err := s.Runs.MergeQueues(ctx, mergequeues.Filter{QueueRef: contract.QueueRef{Forge: in.Forge, Repo: in.Repository, Base: in.Base}, Ended: in.Ended})
		return answered(apitypes.MergeQueues{MergeQueues: queues}, err)
	})
	for _, c := range []struct {
		action  contract.QueueAction
		summary string
	}{
		{contract.QueueAdd, "Add a pull request to the merge queue of its base"},
		{contract.QueueRemove, "Remove a pull request from its merge queue"},
		{contract.QueueSkip, "Move a pull request to the end of its merge queue"},
		{contract.QueuePause, "Pause a merge queue"},
		{contract.QueueResume, "Resume a merge queue"},
	} {
		name := string(c.action)
		command := operation(http.MethodPost, "/api/merge-queues/"+name, name+"-merge-queue", "steering", c.summary, http.StatusConflict, http.StatusUnprocessableEntity)
		handle(s, api, command, func(ctx context.Context, in *struct {
			Keyed

			Body apitypes.QueueRequest
		}) (*body[contract.QueueAck], error) {
			b := in.Body
			return answered(s.Runs.CommandQueue(ctx, control.QueueRequest{
				Action: c.action, PullRequest: b.PullRequest, Queue: contract.QueueRef{Forge: b.Forge, Repo: b.Repository, Base: b.Base},
				By: cmp.Or(b.By, contract.ByAPI), Reason: b.Reason, Key: in.id("queue-" + name),
			}))
		})
	}
}
