package apiclient

import (
	"context"
	"net/http"
	"strconv"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// maxOutput is the maximum number of pieces of output per request.
const maxOutput = 500

// Environments returns at most limit stored environments, most recently used first, of one
// repository or, if repo is empty, of all.
func (c *Client) Environments(ctx context.Context, repo string, limit int) ([]control.Environment, error) {
	r := read("api", "environments")
	r.query = parameters("repo", repo, "limit", strconv.Itoa(min(limit, maxPage)))
	list, err := ask[apitypes.EnvironmentList](ctx, c, r)
	return list.Environments, err
}

// Environment returns the environment with the given digest or the beginning of it.
func (c *Client) Environment(ctx context.Context, digest string) (control.Environment, error) {
	return ask[control.Environment](ctx, c, read("api", "environments", digest))
}

// RemoveEnvironment removes an environment and its baselines.
func (c *Client) RemoveEnvironment(ctx context.Context, digest, by string) (control.Environment, error) {
	e, err := c.Environment(ctx, digest)
	if err != nil {
		return e, err
	}
	order := command(nil, "api", "environments", e.Digest)
	order.method, order.silent, order.query = http.MethodDelete, true, parameters("by", by)
	_, err = ask[struct{}](ctx, c, order)
	return e, err
}

// FindEnvironment returns the setup that would be used for a commit, based on its files.
func (c *Client) FindEnvironment(ctx context.Context, repo, base string) (control.FoundEnvironment, error) {
	r := command(apitypes.FindRequest{Repo: repo, Base: base}, "api", "environments", "find")
	r.time = createTime // its repository may have to be fetched first
	return ask[control.FoundEnvironment](ctx, c, r)
}

// Setups returns at most limit stored setups, newest first, of one repository or, if repo is empty,
// of all.
func (c *Client) Setups(ctx context.Context, repo string, limit int) ([]store.Setup, error) {
	r := read("api", "setups")
	r.query = parameters("repo", repo, "limit", strconv.Itoa(min(limit, maxPage)))
	list, err := ask[apitypes.SetupList](ctx, c, r)
	return list.Setups, err
}

// AddSetup stores a setup for a repository.
func (c *Client) AddSetup(ctx context.Context, n control.NewSetup) (store.Setup, error) {
	return ask[store.Setup](ctx, c, command(n, "api", "setups"))
}

// RevokeSetup revokes a stored setup.
func (c *Client) RevokeSetup(ctx context.Context, id int64, by string) (store.Setup, error) {
	order := command(nil, "api", "setups", strconv.FormatInt(id, 10))
	order.method, order.silent, order.query = http.MethodDelete, true, parameters("by", by)
	_, err := ask[struct{}](ctx, c, order)
	return store.Setup{ID: id}, err
}

// LiveOutput returns at most limit pieces of a run's live output that follow the piece with the id
// after.
func (c *Client) LiveOutput(ctx context.Context, id, after int64, limit int) ([]views.Output, error) {
	r := read(runPath(id, "output")...)
	r.query = parameters("after", strconv.FormatInt(after, 10), "limit", strconv.Itoa(min(limit, maxOutput)))
	list, err := ask[apitypes.OutputList](ctx, c, r)
	return list.Output, err
}
