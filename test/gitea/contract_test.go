package gitea_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
	"github.com/rocketgpt/orchestrator/internal/forge/forgetest"
	service "github.com/rocketgpt/orchestrator/internal/forge/gitea"
	"github.com/rocketgpt/orchestrator/test/gitea"
)

// requestTime is the time limit of a request in the contract. A request without a response takes as
// long.
const requestTime = 30 * time.Second

// perPage is the number of entries of a page.
const perPage = 3

var stranger struct {
	sync.Once
	gitea.User
}

func TestTheClientKeepsTheContractOfAllForges(t *testing.T) {
	t.Parallel()
	s := gitea.Shared(t)
	stranger.Do(func() { stranger.User = s.User(t, "outsider") })
	forgetest.Contract(t, func(t *testing.T) forgetest.World { return world(t, s) })
}

// world returns a new repository on a real Gitea, behind a proxy with faults.
func world(t *testing.T, s *gitea.Server) forgetest.World {
	t.Helper()
	repo := s.Repository(t, map[string]string{"README.md": "# A project\n"})
	s.Collaborator(t, repo, s.Reviewer, "write")
	to, err := url.Parse(s.URL)
	require.NoError(t, err)
	transport := &http.Transport{}
	faults := &forgetest.Faults{}
	broken := faults.Wrap(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Until the body is read, the server does not notice that the client has given up.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if q := r.URL.Query(); q.Has("limit") { // lists of tests are short
			q.Set("limit", strconv.Itoa(perPage))
			r.URL.RawQuery = q.Encode()
		}
		broken.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		proxy.Close()
		transport.CloseIdleConnections()
	})
	as := func(token string) forge.Service {
		u, err := url.Parse(proxy.URL)
		require.NoError(t, err)
		svc, err := service.New(forgehttp.Options{Name: "test", Kind: forge.Gitea, URL: u, Token: forgehttp.Static(token), Timeout: requestTime})
		require.NoError(t, err)
		t.Cleanup(svc.Close)
		return svc
	}
	head := func(branch string) string {
		var got struct{ Commit struct{ ID string } }
		if s.Call(t.Context(), s.Owner, http.MethodGet, "/repos/"+repo+"/branches/"+branch, nil, &got) != nil {
			return ""
		}
		return got.Commit.ID
	}
	return forgetest.World{
		Service: as(s.Bot.Token), Repo: repo, Missing: "owner/missing", Login: s.Bot.Login, Member: s.Reviewer.Login, Stranger: stranger.Login,
		Head: head, As: as, Faults: faults,
		Push: func(branch string, files map[string]string) string {
			if head(branch) == "" {
				s.Branch(t, repo, branch, "main")
			}
			return s.Commit(t, repo, branch, "Change files", files)
		},
		OpenIssue: func(title, body string, labels ...string) int64 {
			number := s.Issue(t, s.Reviewer, repo, title, body)
			var there []struct {
				ID   int64
				Name string
			}
			s.Do(t, s.Owner, http.MethodGet, "/repos/"+repo+"/labels", nil, &there)
			ids := map[string]int64{}
			for _, l := range there {
				ids[l.Name] = l.ID
			}
			for _, name := range labels {
				if ids[name] == 0 {
					ids[name] = s.Label(t, repo, name)
				}
				s.SetLabel(t, s.Owner, repo, number, ids[name])
			}
			return number
		},
		Say: func(on forge.Subject, text string) { s.Comment(t, s.Reviewer, repo, on.Number, text) },
		Approve: func(number int64) {
			s.Do(t, s.Reviewer, http.MethodPost, fmt.Sprintf("/repos/%s/pulls/%d/reviews", repo, number), map[string]any{"event": "APPROVED"}, nil)
		},
		SayOnLine: func(number int64, path string, line int, text string) {
			s.Do(t, s.Reviewer, http.MethodPost, fmt.Sprintf("/repos/%s/pulls/%d/reviews", repo, number), map[string]any{
				"event": "COMMENT", "comments": []map[string]any{{"path": path, "new_position": line, "body": text}},
			}, nil)
		},
		Require: func(check string) {
			s.Protect(t, repo, gitea.Protection{Branch: "main", Checks: strings.Fields(check)})
		},
	}
}
