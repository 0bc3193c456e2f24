package apiclient

import (
	"context"
	"strconv"

	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/control"
)

// BrainSearch finds the files of a repository that matter for a question.
func (c *Client) BrainSearch(ctx context.Context, q control.BrainQuery) (brain.Answer, error) {
	r := read("api", "brain", "search")
	r.query = parameters("repo", q.Repo, "rev", q.Rev, "query", q.Text, "path", q.Paths, "lang", q.Lang,
		"limit", number(q.Limit), "tokens", number(q.Tokens), "explain", strconv.FormatBool(q.Explain))
	if q.KeepOrder {
		r.query.Set("rerank", "false")
	}
	r.time = createTime // its repository may have to be fetched and indexed first
	return ask[brain.Answer](ctx, c, r)
}

// BrainMap describes a repository within a number of tokens.
func (c *Client) BrainMap(ctx context.Context, repo, rev, goal string, tokens int) (control.BrainMap, error) {
	r := read("api", "brain", "map")
	r.query = parameters("repo", repo, "rev", rev, "goal", goal, "tokens", number(tokens))
	r.time = createTime
	return ask[control.BrainMap](ctx, c, r)
}

// number returns a parameter's text; empty for 0, which stands for the default.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
