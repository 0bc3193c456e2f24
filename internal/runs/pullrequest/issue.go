package pullrequest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/forge"
)

// Announcement is a comment on an issue that names the pull request for it.
type Announcement struct {
	Repo   string // of the issue, as a path on its forge
	Number int64
	// Of is the pull request, as path on its forge and number: each is announced once.
	Of   string
	Text string
}

// Announce comments on an issue, unless an earlier attempt did. The comment of an earlier attempt is
// recognised by a mark that is not visible, and by its author.
func Announce(ctx context.Context, service forge.Service, a Announcement) error {
	access, err := service.Access(ctx, a.Repo)
	if err != nil {
		return err
	}
	on := forge.OnIssue(a.Number)
	before, err := service.Comments(ctx, a.Repo, on, time.Time{})
	if err != nil {
		return err
	}
	mark := fmt.Sprintf("<!-- rgpt:pull-request of=%s -->", unmarked.ReplaceAllString(a.Of, "_"))
	for _, c := range before {
		if strings.EqualFold(c.Author, access.Login) && strings.Contains(c.Body, mark) {
			return nil
		}
	}
	_, err = service.AddComment(ctx, a.Repo, on, a.Text+"\n\n"+mark)
	return err
}
