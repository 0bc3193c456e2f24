package gitea

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	sdk "code.gitea.io/sdk/gitea"
	"github.com/gobwas/glob"

	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
)

const (
	// maxContext and maxDescription are the numbers of bytes of a status that are sent: the forge has
	// no limits, but shows both on one line.
	maxContext     = 255
	maxDescription = 255
)

// statusStates are the forge's names of states.
var statusStates = map[forge.CheckState]sdk.StatusState{
	forge.CheckPending: sdk.StatusPending, forge.CheckSuccess: sdk.StatusSuccess,
	forge.CheckFailure: sdk.StatusFailure, forge.CheckError: sdk.StatusError,
}

// SetStatus sets the status of a commit in a context.
func (s *Service) SetStatus(ctx context.Context, repo, commit string, status forge.Status) error {
	c, err := s.begin(ctx, repo, fmt.Sprintf("set the status %q of commit %s", fault.Clip(status.Context, maxShown), fault.Clip(commit, maxShown)))
	if err != nil {
		return err
	}
	if err := c.checkCommit(commit); err != nil {
		return err
	}
	state, ok := statusStates[status.State]
	if !ok {
		return c.refuse("a status cannot be %q", status.State)
	}
	if status.Context == "" || len(status.Context) > maxContext {
		return c.refuse("its context has %d bytes; expected 1 to %d", len(status.Context), maxContext)
	}
	_, _, err = c.api.CreateStatus(c.owner, c.name, commit, sdk.CreateStatusOption{
		State: state, Context: status.Context, Description: fault.Clip(status.Description, maxDescription), TargetURL: status.URL,
	})
	return c.explain(orMissing(err, func() error {
		_, _, err := c.api.GetSingleCommit(c.owner, c.name, commit)
		return err
	}))
}

// Checks returns the last result of each status of a commit. Those of Actions are among them. A
// check is required if the protection of the base of an open pull request of the commit requires it,
// or that of the default branch if no such pull request exists.
func (s *Service) Checks(ctx context.Context, repo, commit string) ([]forge.Check, error) {
	c, err := s.begin(ctx, repo, "read the checks of commit "+fault.Clip(commit, maxShown))
	if err != nil {
		return nil, err
	}
	if err := c.checkCommit(commit); err != nil {
		return nil, err
	}
	all, err := pages(func(page sdk.ListOptions) ([]*sdk.Status, *sdk.Response, error) {
		return c.api.ListStatuses(c.owner, c.name, commit, sdk.ListStatusesOption{ListOptions: page})
	})
	if err != nil {
		return nil, c.explain(err)
	}
	last := latest(all)
	if len(last) == 0 {
		return nil, nil
	}
	required, err := c.required(commit)
	if err != nil {
		return nil, c.explain(err)
	}
	checks := make([]forge.Check, 0, len(last))
	for _, st := range last {
		checks = append(checks, forge.Check{
			ID: strconv.FormatInt(st.ID, 10), Name: st.Context, State: checkState(st.State),
			Description: st.Description, URL: c.target(st.TargetURL), Required: required(st.Context),
		})
	}
	return checks, nil
}

// latest returns the last status of each context, sorted by the context.
func latest(all []*sdk.Status) []*sdk.Status {
	// The numbers of statuses grow; their times are only precise to the second.
	slices.SortFunc(all, func(a, b *sdk.Status) int {
		if n := strings.Compare(a.Context, b.Context); n != 0 {
			return n
		}
		return int(b.ID - a.ID)
	})
	return slices.CompactFunc(all, func(a, b *sdk.Status) bool { return a.Context == b.Context })
}

// checkState converts a state. A required check with a warning prevents a merge, so it is a failure.
func checkState(s sdk.StatusState) forge.CheckState {
	switch s {
	case sdk.StatusSuccess:
		return forge.CheckSuccess
	case sdk.StatusFailure, sdk.StatusWarning:
		return forge.CheckFailure
	case sdk.StatusError:
		return forge.CheckError
	case "skipped": // of later versions
		return forge.CheckSkipped
	case sdk.StatusPending:
	}
	return forge.CheckPending
}

// target returns the address of a check's page. Those of Actions have no host.
func (c *call) target(raw string) string {
	if strings.HasPrefix(raw, "/") && !strings.HasPrefix(raw, "//") {
		raw = c.client.Site() + raw
	}
	return address(raw)
}

// required returns a function that reports whether a context is required.
func (c *call) required(commit string) (func(string) bool, error) {
	p, err := c.open(func(p forge.PullRequest) bool { return p.HeadCommit == commit })
	if err != nil {
		return nil, err
	}
	var base string
	if p != nil {
		base = p.Base
	} else {
		r, _, err := c.api.GetRepo(c.owner, c.name)
		if err != nil {
			return nil, err
		}
		base = r.DefaultBranch
	}
	branch, _, err := c.api.GetRepoBranch(c.owner, c.name, base)
	if err != nil {
		return nil, err
	}
	if !branch.EnableStatusCheck {
		return func(string) bool { return false }, nil
	}
	return func(name string) bool { return requires(branch.StatusCheckContexts, name) }, nil
}

// RequiredChecks returns the contexts that the protection of a branch requires by name. Patterns, and a
// protection that requires all statuses, name none.
func (s *Service) RequiredChecks(ctx context.Context, repo, base string) ([]string, error) {
	c, err := s.begin(ctx, repo, fmt.Sprintf("read the required checks of the branch %q", fault.Clip(base, maxShown)))
	if err != nil {
		return nil, err
	}
	if err := c.checkBranch(base); err != nil {
		return nil, err
	}
	branch, _, err := c.api.GetRepoBranch(c.owner, c.name, base)
	if err != nil || !branch.EnableStatusCheck {
		return nil, c.explain(err)
	}
	names := slices.DeleteFunc(slices.Clone(branch.StatusCheckContexts), func(pattern string) bool {
		return strings.ContainsAny(pattern, `*?[{\`)
	})
	slices.Sort(names)
	return slices.Compact(names), nil
}

// requires reports whether patterns of contexts include one. Without a pattern, all are required.
func requires(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool {
		if pattern == name {
			return true
		}
		g, err := glob.Compile(pattern)
		return err == nil && g.Match(name)
	})
}

// CheckLog returns no log: the forge's API has none for statuses, and none for Actions up to version
// 1.23.
func (s *Service) CheckLog(ctx context.Context, repo string, check forge.Check, _ int) (string, error) {
	_, err := s.begin(ctx, repo, fmt.Sprintf("read the log of the check %q", fault.Clip(check.Name, maxShown)))
	return "", err
}
