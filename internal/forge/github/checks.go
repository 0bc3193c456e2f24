package github

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	api "github.com/google/go-github/v88/github"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
)

// The beginnings of the IDs of checks.
const (
	isStatus = "status/"
	isRun    = "check/"
	isJob    = "job/" // a check of GitHub Actions, which has the ID of its job
)

// maxDescription is the maximum length of a status's description.
const maxDescription = 140

// SetStatus sets the status of a commit in a context.
func (s *Service) SetStatus(ctx context.Context, repo, commit string, status forge.Status) error {
	c, err := s.on(ctx, repo, "set the status %q of commit %.12s", status.Context, commit)
	if err != nil {
		return err
	}
	if err := forge.CheckCommit(commit); err != nil {
		return c.fail(err)
	}
	switch status.State {
	case forge.CheckPending, forge.CheckSuccess, forge.CheckFailure, forge.CheckError:
	default:
		return c.refuse("the state %q cannot be set", status.State)
	}
	state, description := string(status.State), forge.Cut(status.Description, maxDescription)
	request := api.RepoStatus{State: &state, Description: &description, Context: &status.Context}
	if status.URL != "" {
		request.TargetURL = &status.URL
	}
	_, _, err = s.api.Repositories.CreateStatus(c.ctx, c.owner, c.name, commit, request)
	return c.fail(err)
}

// Checks returns the last result of each status and check of a commit.
func (s *Service) Checks(ctx context.Context, repo, commit string) ([]forge.Check, error) {
	c, err := s.on(ctx, repo, "read the checks of commit %.12s", commit)
	if err != nil {
		return nil, err
	}
	if err := forge.CheckCommit(commit); err != nil {
		return nil, c.fail(err)
	}
	statuses, err := all(func(o api.ListOptions) ([]*api.RepoStatus, *api.Response, error) {
		combined, resp, err := s.api.Repositories.GetCombinedStatus(c.ctx, c.owner, c.name, commit, &o)
		if err != nil {
			return nil, resp, err
		}
		return combined.Statuses, resp, nil
	})
	if err != nil {
		return nil, c.fail(err)
	}
	runs, err := all(func(o api.ListOptions) ([]*api.CheckRun, *api.Response, error) {
		list, resp, err := s.api.Checks.ListCheckRunsForRef(c.ctx, c.owner, c.name, commit, &api.ListCheckRunsOptions{ListOptions: o})
		if err != nil {
			return nil, resp, err
		}
		return list.CheckRuns, resp, nil
	})
	if err != nil {
		return nil, c.fail(err)
	}
	out := make([]forge.Check, 0, len(statuses)+len(runs))
	for _, one := range statuses {
		out = append(out, ofStatus(one))
	}
	for _, one := range runs {
		out = append(out, ofRun(one))
	}
	if len(out) == 0 {
		return nil, nil
	}
	required, err := c.required(commit)
	if err != nil {
		return nil, c.fail(err)
	}
	for i := range out {
		out[i].Required = required[out[i].Name]
	}
	return out, nil
}

func ofStatus(s *api.RepoStatus) forge.Check {
	check := forge.Check{ID: isStatus + strconv.FormatInt(s.GetID(), 10), Name: s.GetContext(), Description: s.GetDescription(), URL: s.GetTargetURL()}
	switch state := forge.CheckState(s.GetState()); state {
	case forge.CheckPending, forge.CheckSuccess, forge.CheckFailure:
		check.State = state
	default:
		check.State = forge.CheckError
	}
	return check
}

func ofRun(r *api.CheckRun) forge.Check {
	kind := isRun
	if r.GetApp().GetSlug() == "github-actions" {
		kind = isJob
	}
	return forge.Check{
		ID: kind + strconv.FormatInt(r.GetID(), 10), Name: r.GetName(), State: stateOf(r.GetStatus(), r.GetConclusion()),
		Description: r.GetOutput().GetTitle(), URL: r.GetHTMLURL(),
	}
}

// stateOf returns the state of a check. One that waits for a person is pending; a neutral result does
// not stop a merge, and neither does a skipped one.
func stateOf(status, conclusion string) forge.CheckState {
	if status != "completed" {
		return forge.CheckPending
	}
	switch conclusion {
	case "success", "neutral":
		return forge.CheckSuccess
	case "skipped":
		return forge.CheckSkipped
	case "failure", "timed_out":
		return forge.CheckFailure
	case "action_required":
		return forge.CheckPending
	}
	return forge.CheckError // cancelled, stale, startup_failure
}

// required returns the names of the checks that the protection of the commit's base branches
// requires: those of its open pull requests, or else the default branch.
func (c *call) required(commit string) (map[string]bool, error) {
	bases, err := c.bases(commit)
	if err != nil {
		return nil, err
	}
	return c.requiredBy(bases...)
}

// RequiredChecks returns the names of the checks that merging into a branch requires.
func (s *Service) RequiredChecks(ctx context.Context, repo, base string) ([]string, error) {
	c, err := s.on(ctx, repo, "read the required checks of the branch %q", base)
	if err != nil {
		return nil, err
	}
	if err := forge.CheckBranch(base); err != nil {
		return nil, c.fail(err)
	}
	names, err := c.requiredBy(base)
	if err == nil && len(names) == 0 { // the failure of a repository that cannot be seen was left out
		_, _, err = s.api.Repositories.Get(c.ctx, c.owner, c.name)
	}
	if err != nil {
		return nil, c.fail(err)
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// requiredBy returns the names of the checks that the protection of branches requires, as far as the
// credentials can see it.
func (c *call) requiredBy(bases ...string) (names map[string]bool, err error) {
	names = map[string]bool{}
	for _, base := range bases {
		for _, add := range []func(string, map[string]bool) error{c.ruled, c.protected} {
			if failure := add(base, names); failure != nil && !hidden(failure) {
				err = failure
			}
		}
	}
	return names, err
}

// ruled adds the checks that rule sets require.
func (c *call) ruled(branch string, names map[string]bool) error {
	rules, _, err := c.api.Repositories.ListRulesForBranch(c.ctx, c.owner, c.name, escaped(branch), &api.ListOptions{PerPage: perPage})
	if err != nil {
		return err
	}
	for _, rule := range rules.RequiredStatusChecks {
		for _, check := range rule.Parameters.RequiredStatusChecks {
			names[check.Context] = true
		}
	}
	return nil
}

// protected adds the checks that the branch's own protection requires.
func (c *call) protected(branch string, names map[string]bool) error {
	found, _, err := c.api.Repositories.GetBranch(c.ctx, c.owner, c.name, branch, 1)
	if err != nil {
		return err
	}
	checks := found.GetProtection().GetRequiredStatusChecks()
	if checks == nil {
		return nil
	}
	if checks.Contexts != nil {
		for _, name := range *checks.Contexts {
			names[name] = true
		}
	}
	if checks.Checks != nil {
		for _, check := range *checks.Checks {
			names[check.Context] = true
		}
	}
	return nil
}

// escaped returns a branch's name as part of a URL, which keeps its slashes.
func escaped(branch string) string {
	return strings.ReplaceAll(url.PathEscape(branch), "%2F", "/")
}

// bases returns the base branches of a commit's open pull requests, or else the default branch.
func (c *call) bases(commit string) ([]string, error) {
	list, _, err := c.api.PullRequests.ListPullRequestsWithCommit(c.ctx, c.owner, c.name, commit, &api.ListOptions{PerPage: perPage})
	if err != nil && !hidden(err) {
		return nil, err
	}
	seen := map[string]bool{}
	var out []string
	for _, one := range list {
		if base := one.GetBase().GetRef(); one.GetState() == "open" && base != "" && !seen[base] {
			seen[base] = true
			out = append(out, base)
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	r, _, err := c.api.Repositories.Get(c.ctx, c.owner, c.name)
	if err != nil || r.GetDefaultBranch() == "" {
		return nil, err
	}
	return []string{r.GetDefaultBranch()}, nil
}

// CheckLog returns the end of a check's log: that of a job of GitHub Actions, or what another check
// has reported.
func (s *Service) CheckLog(ctx context.Context, repo string, check forge.Check, most int) (string, error) {
	c, err := s.on(ctx, repo, "read the log of the check %q", check.Name)
	if err != nil {
		return "", err
	}
	id := number(check.ID, isJob)
	if id != 0 {
		log, err := s.http.Tail(c.ctx, c.path("actions/jobs/%d/logs", id), most)
		if err == nil || !hidden(err) || fault.Is(s.http.Explain(err, "", ""), contract.CodeUnauthorized) {
			return log, c.fail(err)
		}
		// The log does not exist yet or any more.
	} else if id = number(check.ID, isRun); id == 0 {
		return "", nil // a status has no log
	}
	run, _, err := s.api.Checks.GetCheckRun(c.ctx, c.owner, c.name, id)
	if err != nil {
		return "", c.fail(err)
	}
	var parts []string
	for _, part := range []string{run.GetOutput().GetTitle(), run.GetOutput().GetSummary(), run.GetOutput().GetText()} {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return forgehttp.LastBytes(strings.Join(parts, "\n\n"), most), nil
}
