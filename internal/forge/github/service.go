// Package github is the client of GitHub and GitHub Enterprise Server.
package github

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	api "github.com/google/go-github/v88/github"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
)

// Service is GitHub with a token or a GitHub App.
type Service struct {
	http *forgehttp.Client
	api  *api.Client
	app  *app // nil: a token is used
}

var _ forge.Service = (*Service)(nil)

// New returns a service that uses the token of the options.
func New(o forgehttp.Options) (*Service, error) {
	return open(o, nil)
}

// NewApp returns a service that uses a GitHub App.
func NewApp(o forgehttp.Options, settings App) (*Service, error) {
	a, err := newApp(settings)
	if err != nil {
		return nil, err
	}
	o.Token, o.Authorize, o.Rejected = nil, a.authorize, a.rejected
	return open(o, a)
}

func open(o forgehttp.Options, a *app) (*Service, error) {
	o.Kind = forge.GitHub
	client := forgehttp.New(o)
	if a != nil {
		a.use(client)
	}
	base := client.API().String()
	library, err := api.NewClient(api.WithHTTPClient(client.HTTP()), api.WithURLs(&base, nil), api.WithDisableRateLimitCheck())
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the forge %s cannot be used", client)
	}
	return &Service{http: client, api: library, app: a}, nil
}

// Kind returns forge.GitHub.
func (s *Service) Kind() forge.Kind { return forge.GitHub }

// Close closes connections that are not in use.
func (s *Service) Close() { s.http.Close() }

// call is an operation on a repository.
type call struct {
	*Service
	ctx         context.Context
	repo        string
	owner, name string
	what        string
}

// on prepares an operation on a repository. what completes "cannot …".
func (s *Service) on(ctx context.Context, repo, what string, args ...any) (*call, error) {
	owner, name, err := forge.SplitRepository(forge.GitHub, repo)
	if err != nil {
		return nil, err
	}
	return &call{Service: s, ctx: withRepository(ctx, owner, name), repo: repo, owner: owner, name: name, what: fmt.Sprintf(what, args...)}, nil
}

// fail returns the failure for an error of the operation.
func (c *call) fail(err error) error { return c.http.Explain(err, c.what, c.repo) }

// refuse returns the failure for a request that the forge could not serve.
func (c *call) refuse(format string, args ...any) error {
	return c.fail(fault.New(contract.ClassConfig, contract.CodeBadRequest, format, args...))
}

const (
	// perPage is the number of entries of a page, the maximum of GitHub.
	perPage = 100
	// maxPages is the maximum number of pages of a list.
	maxPages = 50
)

// all reads the pages of a list.
func all[T any](page func(o api.ListOptions) ([]T, *api.Response, error)) ([]T, error) {
	var out []T
	for number := 1; ; {
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
	for _, one := range wanted {
		if got == one {
			return true
		}
	}
	return false
}

// hidden reports whether an error says that the credentials may not see an object.
func hidden(err error) bool {
	_, limited := forgehttp.RateLimit(err)
	return !limited && status(err, http.StatusForbidden, http.StatusNotFound, http.StatusGone)
}

// path returns the URL of a resource of the repository.
func (c *call) path(format string, args ...any) *url.URL {
	return c.http.API().JoinPath("repos", c.owner, c.name, fmt.Sprintf(format, args...))
}
