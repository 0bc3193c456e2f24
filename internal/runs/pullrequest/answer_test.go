package pullrequest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/runs/pullrequest"
)

// thread is a forge with one conversation, whose answers may get lost.
type thread struct {
	forge.Service
	comments []forge.Comment
	lost     int
}

func (*thread) Access(context.Context, string) (forge.Access, error) {
	return forge.Access{Login: "rgpt-app"}, nil
}

func (f *thread) Comments(_ context.Context, _ string, _ forge.Subject, since time.Time) (out []forge.Comment, _ error) {
	for _, c := range f.comments {
		if !c.CreatedAt.Before(since) {
			out = append(out, c)
		}
	}
	return out, nil
}

func (f *thread) Reply(_ context.Context, _ string, _ forge.Subject, to forge.Comment, text string) (forge.Comment, error) {
	made := forge.Comment{ID: to.ID + "a", Author: "rgpt-app", Body: text, Thread: to.Thread, CreatedAt: time.Now(), URL: "https://git.example.com/answer"}
	f.comments = append(f.comments, made)
	if f.lost > 0 {
		f.lost--
		return forge.Comment{}, errors.New("the connection was reset")
	}
	return made, nil
}

func TestACommentIsAnsweredOnceAlthoughTheForgesReplyIsLost(t *testing.T) {
	t.Parallel()
	f := &thread{lost: 1}
	r := pullrequest.Reply{Repo: "o/r", Number: 7, ID: "42/forge-event-1", Since: time.Now(), To: forge.Comment{ID: "5", Thread: "t"}, Text: "Carried out."}
	_, err := pullrequest.Answer(t.Context(), f, r)
	require.Error(t, err)
	for range 2 {
		made, err := pullrequest.Answer(t.Context(), f, r)
		require.NoError(t, err)
		require.Equal(t, "https://git.example.com/answer", made.URL)
	}
	require.Len(t, f.comments, 1)
	require.Equal(t, "Carried out.\n\n<!-- rgpt:answer id=42/forge-event-1 -->", f.comments[0].Body)
	r.ID = "42/forge-event-2"
	_, err = pullrequest.Answer(t.Context(), f, r)
	require.NoError(t, err)
	require.Len(t, f.comments, 2, "another comment")
}

func TestAMarkThatAPersonCopiedIsNoAnswer(t *testing.T) {
	t.Parallel()
	f := &thread{comments: []forge.Comment{{Author: "eve", Body: "<!-- rgpt:answer id=1 -->", CreatedAt: time.Now()}}}
	_, err := pullrequest.Answer(t.Context(), f, pullrequest.Reply{ID: "1", Since: time.Now(), Text: "Carried out."})
	require.NoError(t, err)
	require.Len(t, f.comments, 2)
}

func TestAnIDCannotEndTheMark(t *testing.T) {
	t.Parallel()
	f := &thread{}
	_, err := pullrequest.Answer(t.Context(), f, pullrequest.Reply{ID: "1 --> @everyone <!--", Text: "x"})
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(f.comments[0].Body, "-->"))
}
