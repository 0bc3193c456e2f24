package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/store/forgeevents"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// conversation is a forge with one pull request.
type conversation struct {
	forge.Service
	comments []forge.Comment
}

func (c *conversation) For(string) (forge.Service, string, string, error) {
	return c, "work", "team/app", nil
}
func (c *conversation) Named(string) (forge.Service, error) { return c, nil }

func (c *conversation) Remote(string, string) (string, error) { return "", nil }
func (*conversation) Access(context.Context, string) (forge.Access, error) {
	return forge.Access{Login: "rgpt-app"}, nil
}

func (c *conversation) Comments(context.Context, string, forge.Subject, time.Time) ([]forge.Comment, error) {
	return c.comments, nil
}

func (c *conversation) Reply(_ context.Context, _ string, _ forge.Subject, to forge.Comment, text string) (forge.Comment, error) {
	made := forge.Comment{Author: "rgpt-app", Body: text, Thread: to.Thread, URL: "https://git.example.com/answer"}
	c.comments = append(c.comments, made)
	return made, nil
}

func TestAnAnswerIsWrittenOnceAndOnlyOnThePullRequestOfTheRun(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []\n")
	talk := &conversation{}
	h.Forges = talk
	require.NoError(t, pullrequests.Save(t.Context(), h.Store, contract.PullRequest{
		RunID: h.run.ID, Forge: "work", Repo: "team/app", Number: 7, URL: "https://git.example.com/7", Title: "t", Head: "b", Base: "main",
		Commit: "c0ffee", State: contract.PullRequestOpen,
	}, true))
	_, err := forgeevents.Add(t.Context(), h.Store, []forgeevents.Event{{Forge: "work", Repo: "team/app", Number: 7, Key: "comment:5", Kind: forgeevents.Comment, Name: "a.go:3"}})
	require.NoError(t, err)
	in := contract.AnswerInput{
		RunID: h.run.ID, Message: "forge-event-1", Before: "c0ffee", Commit: "decaf",
		To: contract.CommentRef{Forge: "work", Repo: "team/app", Number: 7, Comment: "5", Thread: "t5", Event: "comment:5"},
	}
	for range 2 {
		url, err := h.Answer(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, "https://git.example.com/answer", url)
	}
	require.Len(t, talk.comments, 1)
	require.Equal(t, "t5", talk.comments[0].Thread)
	require.Contains(t, talk.comments[0].Body, "Carried out in `decaf`.")
	storetest.Query(t, h.url, func(ctx context.Context, conn *pgx.Conn) {
		var answer string
		require.NoError(t, conn.QueryRow(ctx, "SELECT answer FROM orchestrator_forge_events").Scan(&answer))
		require.Equal(t, "https://git.example.com/answer", answer)
	})

	in.Message, in.NotDone = "forge-event-2", "ann gave up (enough); see @team"
	_, err = h.Answer(t.Context(), in)
	require.NoError(t, err)
	require.Contains(t, talk.comments[1].Body, "This was not carried out: ann gave up (enough); see `@team`")
	in.To.Number = 8
	_, err = h.Answer(t.Context(), in)
	require.ErrorContains(t, err, "has no pull request 8")
	require.Len(t, talk.comments, 2)
}
