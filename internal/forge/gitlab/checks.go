package gitlab

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	api "gitlab.com/gitlab-org/api/client-go/v2"

	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
)

// maxDescription is the maximum length of a status's description.
const maxDescription = 255

// SetStatus sets the status of a commit in a context.
func (s *Service) SetStatus(ctx context.Context, repo, commit string, set forge.Status) error {
	c, err := s.on(ctx, repo, "set the status %q of commit %.12s", set.Context, commit)
	if err != nil {
		return err
	}
	if err := forge.CheckCommit(commit); err != nil {
		return c.fail(err)
	}
	state, ok := map[forge.CheckState]api.BuildStateValue{
		forge.CheckPending: api.Pending, forge.CheckSuccess: api.Success, forge.CheckFailure: api.Failed, forge.CheckError: api.Failed,
	}[set.State]
	if !ok {
		return c.refuse("the state %q cannot be set", set.State)
	}
	options := &api.SetCommitStatusOptions{State: state, Name: &set.Context, Description: api.Ptr(forge.Cut(set.Description, maxDescription))}
	if set.URL != "" {
		options.TargetURL = &set.URL
	}
	_, _, err = s.api.Commits.SetCommitStatus(c.repo, commit, options, c.with())
	if _, message := forgehttp.StatusOf(err); status(err, http.StatusBadRequest) && strings.Contains(message, "Cannot transition status") && set.State == forge.CheckPending {
		return nil // it is pending or running already
	}
	return c.fail(err)
}

// RequiredChecks returns no names: GitLab can only require that the whole pipeline succeeds.
func (s *Service) RequiredChecks(ctx context.Context, repo, base string) ([]string, error) {
	c, err := s.on(ctx, repo, "read the required checks of the branch %q", base)
	if err != nil {
		return nil, err
	}
	if err := forge.CheckBranch(base); err != nil {
		return nil, c.fail(err)
	}
	_, err = c.project()
	return nil, c.fail(err)
}

// RequiresPipeline reports whether merging needs a successful pipeline: a commit without one is not merged.
func (s *Service) RequiresPipeline(ctx context.Context, repo string) (bool, error) {
	c, err := s.on(ctx, repo, "read whether merging needs a pipeline")
	if err != nil {
		return false, err
	}
	project, err := c.project()
	if err != nil {
		return false, c.fail(err)
	}
	return project.OnlyAllowMergeIfPipelineSucceeds, nil
}

// Checks returns the last result of each status and job of a commit.
func (s *Service) Checks(ctx context.Context, repo, commit string) ([]forge.Check, error) {
	c, err := s.on(ctx, repo, "read the checks of commit %.12s", commit)
	if err != nil {
		return nil, err
	}
	if err := forge.CheckCommit(commit); err != nil {
		return nil, c.fail(err)
	}
	statuses, err := all(func(o api.ListOptions) ([]*api.CommitStatus, *api.Response, error) {
		return s.api.Commits.GetCommitStatuses(c.repo, commit, &api.GetCommitStatusesOptions{ListOptions: o}, c.with())
	})
	if err != nil || len(statuses) == 0 {
		return nil, c.fail(err)
	}
	project, err := c.project()
	if err != nil {
		return nil, c.fail(err)
	}
	// Several pipelines of a commit may have jobs with the same name.
	slices.SortFunc(statuses, func(a, b *api.CommitStatus) int { return int(a.ID - b.ID) })
	var out []forge.Check
	for _, one := range statuses {
		out = slices.DeleteFunc(out, func(earlier forge.Check) bool { return earlier.Name == one.Name })
		out = append(out, check(one, project.OnlyAllowMergeIfPipelineSucceeds))
	}
	return out, nil
}

// check converts a status or job. required: merging needs a successful pipeline.
func check(s *api.CommitStatus, required bool) forge.Check {
	out := forge.Check{
		ID: strconv.FormatInt(s.ID, 10), Name: s.Name, State: checkState(s), Description: s.Description, URL: s.TargetURL, Required: required && !s.AllowFailure,
	}
	if s.Status == "failed" && s.AllowFailure {
		out.Description = strings.TrimSpace(out.Description + " (failed, which is allowed)")
	}
	return out
}

func checkState(s *api.CommitStatus) forge.CheckState {
	switch s.Status {
	case "success":
		return forge.CheckSuccess
	case "skipped":
		return forge.CheckSkipped
	case "canceled", "canceling":
		return forge.CheckError
	case "failed":
		if s.AllowFailure {
			return forge.CheckSkipped
		}
		return forge.CheckFailure
	case "manual":
		if s.AllowFailure {
			return forge.CheckSkipped // nothing waits for it
		}
	}
	return forge.CheckPending
}

// CheckLog returns the end of a job's log.
func (s *Service) CheckLog(ctx context.Context, repo string, check forge.Check, most int) (string, error) {
	c, err := s.on(ctx, repo, "read the log of the check %q", check.Name)
	if err != nil {
		return "", err
	}
	id, _ := strconv.ParseInt(check.ID, 10, 64)
	if id <= 0 {
		return "", nil // not one of GitLab's
	}
	address, err := c.path("jobs/%d/trace", id)
	if err != nil {
		return "", c.fail(err)
	}
	log, err := s.http.Tail(ctx, address, most)
	if err != nil {
		return "", c.fail(c.missing(err)) // a status is no job, and has no log
	}
	return log, nil
}
