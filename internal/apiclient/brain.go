package apiclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/control"
)

// indexPoll is how often a client asks how far an indexing is.
const indexPoll = 500 * time.Millisecond

// IndexRepository indexes a commit of a repository on the server's host, and waits for it. If ctx ends,
// the server still indexes it. progress may be nil.
func (c *Client) IndexRepository(ctx context.Context, repo, rev string, progress func(brain.Progress)) (control.Indexed, error) {
	r := command(apitypes.IndexRequest{Repo: repo, Rev: rev}, "api", "brain", "index")
	r.time = createTime // its repository may have to be fetched first
	started, err := ask[control.Indexing](ctx, c, r)
	if err != nil {
		return control.Indexed{}, err
	}
	ticker := time.NewTicker(indexPoll)
	defer ticker.Stop()
	for {
		stats, err := c.BrainStats(ctx)
		if err != nil {
			return control.Indexed{}, err
		}
		at := slices.IndexFunc(stats.Indexing, func(x control.Indexing) bool {
			return x.ID == started.ID && x.Started.Equal(started.Started)
		})
		if at < 0 {
			return control.Indexed{}, errors.New("the server does not know the indexing any more; if it was restarted, try again")
		}
		switch x := stats.Indexing[at]; {
		case x.State == control.IndexingFailed:
			return control.Indexed{}, fmt.Errorf("index %s: %s", x.Repo, x.Error)
		case x.State == control.IndexingDone && x.Indexed != nil:
			return *x.Indexed, nil
		case progress != nil:
			progress(x.Progress)
		}
		select {
		case <-ctx.Done():
			return control.Indexed{}, context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// BrainStats returns what is indexed on the server's host and in the database.
func (c *Client) BrainStats(ctx context.Context) (control.BrainStats, error) {
	return ask[control.BrainStats](ctx, c, read("api", "brain", "stats"))
}
