package pages

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// gateTab shows what the policy gate decided about the changes of a run, who approved what, and what
// reviewers found.
func (s *Server) gateTab(ctx context.Context, _ *http.Request, h *ui.RunHead) (templ.Component, error) {
	list, err := verdicts.Of(ctx, s.Store, h.Run.ID)
	if err != nil {
		return nil, err
	}
	approvals, err := s.Views.Approvals(ctx, h.Run.ID)
	if err != nil {
		return nil, err
	}
	reviews, err := verdicts.Reviews(ctx, s.Store, h.Run.ID)
	slices.Reverse(list)
	slices.Reverse(approvals)
	slices.Reverse(reviews)
	return ui.GateTab(ui.GatePage{Head: *h, Verdicts: list, Approvals: approvals, Reviews: reviews}), err
}

// policiesPage shows the policies that are in force for new runs, or why none can be created.
func (s *Server) policiesPage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	shell.Section, shell.Title = "policies", "Policies"
	p := ui.PoliciesPage{Shell: shell}
	var err error
	if p.InForce, err = s.Runs.Policies(r.Context()); err != nil {
		f := fault.Of(err)
		if f.Class != contract.ClassConfig {
			return nil, err
		}
		p.Problem = f.Message
	}
	return ui.Policies(p), nil
}

// ledgerRows is the number of entries on a page of the ledger.
const ledgerRows = 100

// ledgerPage lists entries of the audit ledger, newest first.
func (s *Server) ledgerPage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	q, err := param.Query(r)
	if err != nil {
		return nil, err
	}
	shell.Section, shell.Title = "ledger", "Ledger"
	p := ui.LedgerPage{Shell: shell, Run: q.Get("run"), Action: q.Get("action"), Name: q.Get("name")}
	f := chain.Filter{Action: p.Action, Name: p.Name, Limit: ledgerRows + 1}
	for name, to := range map[string]*int64{"run": &f.RunID, "before": &f.Before} {
		if text := q.Get(name); text != "" {
			if *to, err = strconv.ParseInt(text, 10, 64); err != nil || *to < 1 {
				return nil, fault.New(contract.ClassHuman, contract.CodeInvalidConfig, "%s must be a positive number", name)
			}
		}
	}
	if p.Entries, err = s.Runs.Ledger(r.Context(), f); err != nil {
		return nil, err
	}
	if len(p.Entries) > ledgerRows {
		p.Entries = p.Entries[:ledgerRows]
		older := url.Values{"before": {fmt.Sprint(p.Entries[ledgerRows-1].Seq)}}
		for name, text := range map[string]string{"run": p.Run, "action": p.Action, "name": p.Name} {
			if text != "" {
				older.Set(name, text)
			}
		}
		p.Older = "/ledger?" + older.Encode()
	}
	kept, err := chain.Checkpoints(r.Context(), s.Store)
	if n := len(kept); n > 0 {
		p.Checkpoint = &kept[n-1].Checkpoint
	}
	return ui.Ledger(p), err
}
