package gitea_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/mergequeue"
	"github.com/rocketgpt/orchestrator/internal/workspace"
	"github.com/rocketgpt/orchestrator/test/gitea"
)

// queued returns a repository of a forge as the merge queue sees it, with a policy.
func queued(t *testing.T, s *gitea.Server, repo, method string) (mergequeue.Repository, contract.QueueRef, contract.MergePolicy) {
	t.Helper()
	to, err := url.Parse(s.URL)
	require.NoError(t, err)
	git := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}) // git needs https
	t.Cleanup(git.Close)
	authority := filepath.Join(t.TempDir(), "authority.pem")
	require.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: git.Certificate().Raw}), 0o600))
	blobs, err := artifact.Open(t.Context(), "mem://", "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = blobs.Close() })
	workspaces, err := workspace.New(workspace.Options{
		CacheDir: t.TempDir(), Blobs: blobs, NetworkEnv: []string{"GIT_SSL_CAINFO=" + authority},
		Credential: func(context.Context, string) (string, string, bool, error) {
			return s.Bot.Login, s.Bot.Token, true, nil
		},
	})
	require.NoError(t, err)
	r := mergequeue.Repository{Service: connect(t, s.URL, s.Bot), Path: repo, Remote: git.URL + "/" + repo + ".git", Workspaces: workspaces}
	return r, contract.QueueRef{Forge: "work", Repo: repo, Base: "main"}, contract.MergePolicy{
		Method: method, DeleteBranch: true, Approvals: 1, Batch: 8, CheckTime: time.Hour, CheckPoll: time.Millisecond, Prefix: "rgpt/queue/",
	}
}

// TestTheQueueMergesExactlyWhatWasTested merges a batch by each method, on a base that requires a check, and has
// moved since the branches began.
func TestTheQueueMergesExactlyWhatWasTested(t *testing.T) {
	t.Parallel()
	s := gitea.Shared(t)
	for _, method := range []string{"merge", "squash", "rebase"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			repo := s.Repository(t, map[string]string{"README.md": "# A project\n"})
			s.Collaborator(t, repo, s.Reviewer, "write")
			r, ref, policy := queued(t, s, repo, method)
			var prs []forge.PullRequest
			for i := range 3 {
				name := fmt.Sprint("change-", i)
				branch(t, s, repo, name, map[string]string{name + ".txt": "one\n"})
				s.Commit(t, repo, name, "Change it again", map[string]string{name + ".txt": "one\ntwo\n"})
				number := s.PullRequest(t, s.Bot, repo, name, "main", "Add "+name)
				prs = append(prs, mergeable(t, r.Service, repo, number))
				s.Do(t, s.Reviewer, "POST", fmt.Sprintf("/repos/%s/pulls/%d/reviews", repo, number), map[string]any{"event": "APPROVED"}, nil)
				s.Status(t, repo, prs[i].HeadCommit, "ci", "success", "")
			}
			s.Commit(t, repo, "main", "Meanwhile", map[string]string{"meanwhile.txt": "x\n"})
			s.Protect(t, repo, gitea.Protection{Branch: "main", Checks: []string{"ci"}})
			in := contract.QueueCandidateInput{Queue: ref, Policy: policy, Most: 8, At: time.Unix(1_800_000_000, 0)}
			for _, pr := range prs {
				in.Wanted = append(in.Wanted, contract.QueueWanted{Number: pr.Number, Head: pr.HeadCommit, Since: in.At})
			}
			c, err := r.Build(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, c.Commit, s.Head(t, repo, c.Branch))
			require.Equal(t, []string{"ci"}, c.Required)
			s.Status(t, repo, c.Commit, "ci", "success", "")
			checks, err := r.Checks(t.Context(), contract.QueueChecksInput{Queue: ref, Commit: c.Commit, Required: c.Required, Poll: time.Millisecond, Wait: time.Minute})
			require.NoError(t, err)
			require.Equal(t, contract.QueueGreen, checks.Result, checks.Reason)

			base := c.Base
			for i, part := range c.Parts {
				require.Equal(t, contract.QueueIncluded, part.Verdict, part.Reason)
				out := mergeQueued(t, r, contract.QueueMergeInput{Queue: ref, Policy: policy, Part: part, Base: base, OfRun: i == 0})
				require.Equal(t, []any{true, false, ""}, []any{out.Merged, out.Moved, out.Refused}, "the files are those that were tested")
				require.Equal(t, s.Head(t, repo, "main"), out.Base)
				again := mergeQueued(t, r, contract.QueueMergeInput{Queue: ref, Policy: policy, Part: part, Base: base, OfRun: i == 0})
				require.True(t, again.Merged)
				require.Equal(t, out.Base, again.Base, "a repeat merges nothing")
				base = out.Base
			}
			tree, err := r.Workspaces.TreeOf(t.Context(), r.Remote, base)
			require.NoError(t, err)
			require.Equal(t, c.Tree, tree)
			require.Equal(t, map[string][]int{"merge": {2, 2, 2}, "squash": {1, 1, 1}, "rebase": {1, 1, 1, 1, 1, 1}}[method], parents(t, s, repo, c.Base))
			_, err = r.Service.Branch(t.Context(), repo, "change-0")
			require.True(t, fault.Is(err, contract.CodeRepository), "the branch of a run is deleted: %v", err)
			require.NotEmpty(t, s.Head(t, repo, "change-1"))
		})
	}
}

// mergeQueued merges, again and again while the forge finds out whether it can.
func mergeQueued(t *testing.T, r mergequeue.Repository, in contract.QueueMergeInput) (out contract.QueueMergeResult) {
	t.Helper()
	await.Until(t, "the merge", func() bool {
		var err error
		out, err = r.Merge(t.Context(), in)
		if err != nil {
			require.Equal(t, contract.ClassInfra, fault.Of(err).Class, err)
		}
		return err == nil
	})
	return out
}

// parents returns the numbers of parents of the commits of the default branch since another one.
func parents(t *testing.T, s *gitea.Server, repo, since string) (out []int) {
	t.Helper()
	var list []struct {
		SHA     string
		Parents []struct{ SHA string }
	}
	s.Do(t, s.Owner, "GET", "/repos/"+repo+"/commits?sha=main&stat=false&files=false&limit=50", nil, &list)
	known := map[string]int{}
	for i, c := range list {
		known[c.SHA] = i
	}
	for at := list[0].SHA; at != since; at = list[known[at]].Parents[0].SHA {
		require.Contains(t, known, at)
		out = append(out, len(list[known[at]].Parents))
	}
	return out
}
