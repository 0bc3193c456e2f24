package pullrequest

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/forge"
)

// Reply is an answer to a comment on a pull request.
type Reply struct {
	Repo   string
	Number int64
	ID     string // of what is answered; the same ID is answered once
	To     forge.Comment
	Since  time.Time // when the comment was written, by the clock of the forge
	Text   string
}

// unmarked matches what cannot be part of a mark.
var unmarked = regexp.MustCompile(`[^A-Za-z0-9_./-]`)

// Answer answers a comment in its thread, unless an earlier attempt did: then it returns that answer.
// The answer of an earlier attempt is recognised by a mark that is not visible, and by its author.
func Answer(ctx context.Context, service forge.Service, r Reply) (forge.Comment, error) {
	access, err := service.Access(ctx, r.Repo)
	if err != nil {
		return forge.Comment{}, err
	}
	on := forge.OnPullRequest(r.Number)
	since := r.Since
	if !since.IsZero() {
		since = since.Add(-time.Minute) // forges round times
	}
	before, err := service.Comments(ctx, r.Repo, on, since)
	if err != nil {
		return forge.Comment{}, err
	}
	mark := fmt.Sprintf("<!-- rgpt:answer id=%s -->", unmarked.ReplaceAllString(r.ID, "_"))
	for _, c := range before {
		if strings.EqualFold(c.Author, access.Login) && strings.Contains(c.Body, mark) {
			return c, nil
		}
	}
	return service.Reply(ctx, r.Repo, on, r.To, r.Text+"\n\n"+mark)
}
