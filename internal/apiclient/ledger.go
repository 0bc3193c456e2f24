package apiclient

import (
	"context"
	"fmt"
	"net/url"

	"github.com/rocketgpt/orchestrator/internal/ledger"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
)

// Ledger returns entries of the audit ledger, newest first.
func (c *Client) Ledger(ctx context.Context, f chain.Filter) ([]ledger.Entry, error) {
	r := read("api", "ledger")
	r.query = url.Values{}
	for name, n := range map[string]int64{"run": f.RunID, "before": f.Before, "limit": int64(f.Limit)} {
		if n != 0 {
			r.query.Set(name, fmt.Sprint(n))
		}
	}
	for name, text := range map[string]string{"action": f.Action, "name": f.Name} {
		if text != "" {
			r.query.Set(name, text)
		}
	}
	out, err := ask[struct{ Entries []ledger.Entry }](ctx, c, r)
	return out.Entries, err
}
