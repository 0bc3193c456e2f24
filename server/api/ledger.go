package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
)

func (s *Server) ledgerOperations(api huma.API) {
	inForce := operation(http.MethodGet, "/api/policies", "get-policies", "system", "Get the policies and limits of the gate that are in force for new runs")
	handle(s, api, inForce, func(ctx context.Context, _ *struct{}) (*body[control.PoliciesInForce], error) {
		return answered(s.Runs.Policies(ctx))
	})
	op := operation(http.MethodGet, "/api/ledger", "list-ledger", "system", "List entries of the audit ledger, newest first")
	handle(s, api, op, func(ctx context.Context, in *struct {
		Run    int64  `query:"run" minimum:"0" doc:"only entries about this run"`
		Action string `query:"action" doc:"only this action, such as approval.granted"`
		Name   string `query:"name" doc:"only entries of this person, agent or part of the system"`
		Before int64  `query:"before" minimum:"0" doc:"only entries with a lower number"`
		Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"maximum number of results"`
	}) (*body[apitypes.LedgerList], error) {
		entries, err := s.Runs.Ledger(ctx, chain.Filter{RunID: in.Run, Action: in.Action, Name: in.Name, Before: in.Before, Limit: in.Limit})
		list := apitypes.LedgerList{Entries: make([]apitypes.LedgerEntry, len(entries))}
		for i, e := range entries {
			list.Entries[i] = apitypes.LedgerEntry(e)
		}
		return answered(list, err)
	})
}
