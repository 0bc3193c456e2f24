package pages

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// pullRequestRows is the number of pull requests on a page.
const pullRequestRows = 100

// pullRequestsPage lists the pull requests of runs, newest first.
func (s *Server) pullRequestsPage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	q, err := param.Query(r)
	if err != nil {
		return nil, err
	}
	shell.Section, shell.Title = "pull-requests", "Pull requests"
	f := control.PullRequestFilter{State: contract.PullRequestState(q.Get("state")), Limit: pullRequestRows}
	switch f.State {
	case "", contract.PullRequestOpen, contract.PullRequestClosed, contract.PullRequestMerged:
	default:
		return nil, fault.New(contract.ClassHuman, contract.CodeInvalidConfig, "state must be open, closed or merged")
	}
	if text := q.Get("before"); text != "" {
		if f.Before, err = strconv.ParseInt(text, 10, 64); err != nil || f.Before < 1 {
			return nil, fault.New(contract.ClassHuman, contract.CodeInvalidConfig, "before must be a positive number")
		}
	}
	page, err := s.Runs.PullRequests(r.Context(), f)
	p := ui.PullRequestsPage{Shell: shell, State: string(f.State), PullRequests: page.PullRequests}
	if page.Next > 0 {
		older := url.Values{"before": {fmt.Sprint(page.Next)}}
		if p.State != "" {
			older.Set("state", p.State)
		}
		p.Older = "/pull-requests?" + older.Encode()
	}
	return ui.PullRequests(p), err
}
