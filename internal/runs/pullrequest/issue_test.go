package pullrequest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgetest"
	"github.com/rocketgpt/orchestrator/internal/forge/github"
	"github.com/rocketgpt/orchestrator/internal/forge/gitlab"
	"github.com/rocketgpt/orchestrator/internal/runs/pullrequest"
)

func TestAnIssueGetsOneCommentForEachPullRequest(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (forge.Service, *forgetest.Faults, *forgetest.Repository){
		"github": func(t *testing.T) (forge.Service, *forgetest.Faults, *forgetest.Repository) {
			t.Helper()
			hub := forgetest.NewGitHub(t)
			s, err := github.New(options(t, hub.URL()))
			require.NoError(t, err)
			t.Cleanup(s.Close)
			return s, hub.Faults, hub.Repository(path)
		},
		"gitlab": func(t *testing.T) (forge.Service, *forgetest.Faults, *forgetest.Repository) {
			t.Helper()
			lab := forgetest.NewGitLab(t)
			s, err := gitlab.New(options(t, lab.URL()))
			require.NoError(t, err)
			t.Cleanup(s.Close)
			return s, lab.Faults, lab.Repository(path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service, faults, repo := open(t)
			number := repo.OpenIssue("Add notes", "")
			on := forge.OnIssue(number)
			comments := func() (own []string) {
				all, err := service.Comments(t.Context(), path, on, time.Time{})
				require.NoError(t, err)
				for _, c := range all {
					if c.Author == forgetest.Bot {
						own = append(own, c.Body)
					}
				}
				return own
			}
			said := pullrequest.Announcement{Repo: path, Number: number, Of: "work/octo/app/7", Text: "Run 42 opened a pull request for this issue: https://git.example.com/7"}
			repo.SayAs(forgetest.Stranger, on, "<!-- rgpt:pull-request of=work/octo/app/7 -->")
			faults.Add(forgetest.Fault{Method: "POST", AfterEffect: true}) // the comment is made, its answer is lost
			require.Error(t, pullrequest.Announce(t.Context(), service, said))
			for range 3 {
				require.NoError(t, pullrequest.Announce(t.Context(), service, said))
			}
			require.Equal(t, []string{said.Text + "\n\n<!-- rgpt:pull-request of=work/octo/app/7 -->"}, comments())
			said.Of = "work/octo/app/8"
			require.NoError(t, pullrequest.Announce(t.Context(), service, said))
			require.Len(t, comments(), 2)
		})
	}
}
