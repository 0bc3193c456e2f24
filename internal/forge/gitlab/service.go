// Package gitlab is the client of GitLab. Its merge requests are the pull requests.
package gitlab

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"

	api "gitlab.com/gitlab-org/api/client-go/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
)

// Service is GitLab with a token.
type Service struct {
	http *forgehttp.Client
	api  *api.Client

	mu    sync.Mutex
	login string // of the credentials
}

var _ forge.Service = (*Service)(nil)

// unlimited does not delay requests: limits are errors, and callers wait.
type unlimited struct{}

// Wait returns at once.
func (unlimited) Wait(context.Context) error { return nil }

// New returns a service that uses the token of the options.
func New(o forgehttp.Options) (*Service, error) {
	o.Kind = forge.GitLab
	client := forgehttp.New(o)
	library, err := api.NewAuthSourceClient(api.Unauthenticated{}, api.WithBaseURL(client.API().String()),
		api.WithHTTPClient(client.HTTP()), api.WithoutRetries(), api.WithCustomLimiter(unlimited{}))
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the forge %s cannot be used", client)
	}
	return &Service{http: client, api: library}, nil
}

// Kind returns forge.GitLab.
func (s *Service) Kind() forge.Kind { return forge.GitLab }

// Close closes connections that are not in use.
func (s *Service) Close() { s.http.Close() }

// call is an operation on a project.
type call struct {
	*Service
	ctx  context.Context
	repo string
	what string
}

// on prepares an operation on a project. what completes "cannot …".
func (s *Service) on(ctx context.Context, repo, what string, args ...any) (*call, error) {
	if _, _, err := forge.SplitRepository(forge.GitLab, repo); err != nil {
		return nil, err
	}
	return &call{Service: s, ctx: ctx, repo: repo, what: fmt.Sprintf(what, args...)}, nil
}

// with makes a request part of the operation.
func (c *call) with() api.RequestOptionFunc { return api.WithContext(c.ctx) }

// fail returns the failure for an error of the operation.
func (c *call) fail(err error) error { return c.http.Explain(err, c.what, c.repo) }

// refuse returns the failure for a request that the forge could not serve.
func (c *call) refuse(format string, args ...any) error {
	return c.fail(fault.New(contract.ClassConfig, contract.CodeBadRequest, format, args...))
}

const (
	// perPage is the number of entries of a page, the maximum of GitLab.
	perPage = 100
	// maxPages is the maximum number of pages of a list.
	maxPages = 50
)

// all reads the pages of a list.
func all[T any](page func(o api.ListOptions) ([]T, *api.Response, error)) ([]T, error) {
	var out []T
	for number := int64(1); ; {
		got, resp, err := page(api.ListOptions{Page: number, PerPage: perPage})
		if err != nil {
			return nil, err
		}
		out = append(out, got...)
		if resp.NextPage <= number {
			return out, nil
		}
		if number = resp.NextPage; number > maxPages {
			return nil, fault.New(contract.ClassInfra, contract.CodeTooLarge, "the list has more than %d entries", maxPages*perPage)
		}
	}
}

// status reports whether an error is a response with one of the statuses.
func status(err error, wanted ...int) bool {
	got, _ := forgehttp.StatusOf(err)
	return slices.Contains(wanted, got)
}

// path returns the URL of a resource of the project.
func (c *call) path(format string, args ...any) (*url.URL, error) {
	return url.Parse(c.http.API().String() + "projects/" + url.PathEscape(c.repo) + "/" + fmt.Sprintf(format, args...))
}

// project reads the project, whose name may be in an error that could also mean another object.
func (c *call) project() (*api.Project, error) {
	p, _, err := c.api.Projects.GetProject(c.repo, nil, c.with())
	return p, err
}

// missing returns the error of a request for a part of the project, nil if only that part is missing.
func (c *call) missing(err error) error {
	if !status(err, http.StatusNotFound) {
		return err
	}
	_, err = c.project()
	return err
}

// who returns the name of the account that the credentials belong to.
func (s *Service) who(ctx context.Context) (string, error) {
	user, _, err := s.api.Users.CurrentUser(api.WithContext(ctx))
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.login = user.Username
	return user.Username, nil
}

// known is who, which asks only once.
func (s *Service) known(ctx context.Context) (string, error) {
	s.mu.Lock()
	login := s.login
	s.mu.Unlock()
	if login != "" {
		return login, nil
	}
	return s.who(ctx)
}
