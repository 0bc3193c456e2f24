package apiclient

import (
	"context"
	"net/http"
	"strconv"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store/flaky"
)

// FlakyTests returns at most limit flaky tests of one repository or, if repo is empty, of all.
func (c *Client) FlakyTests(ctx context.Context, repo string, limit int) ([]flaky.Test, error) {
	r := read("api", "flaky")
	r.query = parameters("repo", repo, "limit", strconv.Itoa(min(limit, maxPage)))
	list, err := ask[apitypes.FlakyList](ctx, c, r)
	return list.Tests, err
}

// Quarantine returns at most limit quarantined tests of one repository or, if repo is empty, of all.
func (c *Client) Quarantine(ctx context.Context, repo string, all bool, limit int) ([]flaky.Entry, error) {
	r := read("api", "quarantine")
	r.query = parameters("repo", repo, "all", strconv.FormatBool(all), "limit", strconv.Itoa(min(limit, maxPage)))
	list, err := ask[apitypes.QuarantineList](ctx, c, r)
	return list.Quarantine, err
}

// AddQuarantine quarantines a test.
func (c *Client) AddQuarantine(ctx context.Context, n control.NewQuarantine) (flaky.Entry, error) {
	return ask[flaky.Entry](ctx, c, command(n, "api", "quarantine"))
}

// RemoveQuarantine ends a quarantine.
func (c *Client) RemoveQuarantine(ctx context.Context, id int64, by string) (flaky.Entry, error) {
	order := command(nil, "api", "quarantine", strconv.FormatInt(id, 10))
	order.method, order.silent, order.query = http.MethodDelete, true, parameters("by", by)
	_, err := ask[struct{}](ctx, c, order)
	return flaky.Entry{ID: id}, err
}
