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
	command := operation(http.MethodPost, "/api/merge-queues/{action}", "command-merge-queue", "steering", "Add a pull request to its merge queue, remove it or move it to the end; pause or resume a queue", http.StatusConflict, http.StatusUnprocessableEntity)
	handle(s, api, command, func(ctx context.Context, in *struct {
		Keyed

		Action contract.QueueAction `path:"action" enum:"add,remove,skip,pause,resume"`
		Body   apitypes.QueueRequest
	}) (*body[contract.QueueAck], error) {
		b := in.Body
		return answered(s.Runs.CommandQueue(ctx, control.QueueRequest{
			Action: in.Action, PullRequest: b.PullRequest, Queue: contract.QueueRef{Forge: b.Forge, Repo: b.Repository, Base: b.Base},
			By: cmp.Or(b.By, contract.ByAPI), Reason: b.Reason, Key: in.id("queue-" + string(in.Action)),
		}))
	})
}
