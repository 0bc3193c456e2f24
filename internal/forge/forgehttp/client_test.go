package forgehttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
)

const token = "tok-0123456789"

func address(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	return u
}

// serve starts a forge and returns a client of it.
func serve(t *testing.T, handler http.HandlerFunc) (*forgehttp.Client, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return client(t, server.URL, forgehttp.Options{}), server
}

func client(t *testing.T, site string, o forgehttp.Options) *forgehttp.Client {
	t.Helper()
	if o.Token == nil && o.Authorize == nil {
		o.Token = forgehttp.Static(token)
	}
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	o.Name, o.URL = "box", address(t, site)
	if o.Kind == "" {
		o.Kind = forge.Gitea
	}
	c := forgehttp.New(o)
	t.Cleanup(c.Close)
	return c
}

func get(t *testing.T, c *forgehttp.Client, path string) (string, error) {
	t.Helper()
	return do(t, c, http.MethodGet, c.API().String()+path, "")
}

func do(t *testing.T, c *forgehttp.Client, method, to, body string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, to, strings.NewReader(body))
	require.NoError(t, err)
	resp, err := c.HTTP().Do(req)
	if err != nil {
		return "", c.Explain(err, "read the thing", "octo/app")
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), c.Explain(err, "read the thing", "octo/app")
}

func TestTheAPIOfEachKindIsFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind       forge.Kind
		site, want string
	}{
		{forge.GitHub, "https://github.com", "https://api.github.com/"},
		{forge.GitHub, "https://acme.ghe.com", "https://api.acme.ghe.com/"},
		{forge.GitHub, "https://git.example.com:8443/", "https://git.example.com:8443/api/v3/"},
		{forge.GitLab, "https://gitlab.com", "https://gitlab.com/api/v4/"},
		{forge.GitLab, "https://h.example.com/gitlab/", "https://h.example.com/gitlab/api/v4/"},
		{forge.Gitea, "http://127.0.0.1:3000/git", "http://127.0.0.1:3000/git/api/v1/"},
	} {
		require.Equal(t, c.want, client(t, c.site, forgehttp.Options{Kind: c.kind}).API().String())
	}
}

func TestARequestHasCredentialsAndAName(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen http.Header
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = r.Header
		mu.Unlock()
		_, _ = io.WriteString(w, "{}")
	})
	_, err := get(t, c, "user")
	require.NoError(t, err)
	require.Equal(t, "token "+token, seen.Get("Authorization"))
	require.True(t, strings.HasPrefix(seen.Get("User-Agent"), "rocketgpt-orchestrator/"))
}

func TestCredentialsAreSentToNoOtherHost(t *testing.T) {
	t.Parallel()
	var leaked atomic.Value
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked.Store(fmt.Sprint(r.Header))
		_, _ = io.WriteString(w, strings.Repeat("x", 100)+"the end")
	}))
	t.Cleanup(other.Close)
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/store?signature=s3cret", http.StatusFound)
	})
	_, err := get(t, c, "repos")
	require.ErrorContains(t, err, "it redirects to "+other.URL+", which is not followed")
	require.True(t, fault.Is(err, contract.CodeInvalidConfig))
	require.NotContains(t, err.Error(), "s3cret")
	require.Nil(t, leaked.Load(), "it was not followed")

	_, err = do(t, c, http.MethodPost, c.API().String(), "text")
	require.Error(t, err)
	require.Nil(t, leaked.Load())

	// A log may be elsewhere.
	text, err := c.Tail(t.Context(), address(t, c.API().String()+"log"), 7)
	require.NoError(t, err)
	require.Equal(t, "the end", text)
	require.NotContains(t, leaked.Load(), token)
	require.NotContains(t, leaked.Load(), "Authorization")

	// Even if a library adds credentials or asks another host.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, other.URL, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Private-Token", token)
	resp, err := c.HTTP().Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.NotContains(t, leaked.Load(), token)
}

func TestARedirectWithinTheForgeIsFollowed(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/endless"):
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		case strings.HasSuffix(r.URL.Path, "/old"):
			http.Redirect(w, r, strings.Replace(r.URL.Path, "old", "new", 1), http.StatusTemporaryRedirect)
		default:
			body, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.Header.Get("Authorization"), body)
		}
	})
	text, err := do(t, c, http.MethodPost, c.API().String()+"old", "text")
	require.NoError(t, err)
	require.Equal(t, "POST token "+token+" text", text)
	_, err = get(t, c, "endless")
	require.ErrorContains(t, err, "it redirects to")
}

func TestAFailedResponseHasAClass(t *testing.T) {
	t.Parallel()
	reset := func(after time.Duration) string { return strconv.FormatInt(time.Now().Add(after).Unix(), 10) }
	for _, c := range []struct {
		name   string
		status int
		header map[string]string
		body   string
		class  contract.Class
		code   contract.Code
		want   string
		least  time.Duration // of the wait
		most   time.Duration
	}{
		{"wrong token", 401, nil, `{"message":"Bad credentials"}`, contract.ClassConfig, contract.CodeUnauthorized, "HTTP 401 Unauthorized: Bad credentials; the credentials are wrong, expired or revoked", 0, 0},
		{"an App's right", 403, map[string]string{"X-Accepted-GitHub-Permissions": "pull_requests=write; contents=write"}, `{"message":"Resource not accessible by integration"}`, contract.ClassConfig, contract.CodeUnauthorized, "Resource not accessible by integration; the credentials need one of these permissions: pull_requests=write or contents=write", 0, 0},
		{"a scope", 403, map[string]string{"X-OAuth-Scopes": "read:org, gist", "X-Accepted-OAuth-Scopes": "repo, public_repo"}, `{"message":"Forbidden"}`, contract.ClassConfig, contract.CodeUnauthorized, "the credentials need one of these scopes: repo, public_repo (the token has: read:org, gist)", 0, 0},
		{"single sign-on", 403, map[string]string{"X-GitHub-SSO": "required; url=https://x"}, `{"message":"Resource protected by organization SAML enforcement."}`, contract.ClassConfig, contract.CodeUnauthorized, "authorize the token for the organization's single sign-on", 0, 0},
		{"GitLab's scope", 403, nil, `{"error":"insufficient_scope","error_description":"The request requires higher privileges than provided by the access token.","scope":"api"}`, contract.ClassConfig, contract.CodeUnauthorized, "insufficient_scope; The request requires higher privileges than provided by the access token.; api", 0, 0},
		{"a repository that is not seen", 404, map[string]string{"X-Accepted-GitHub-Permissions": "metadata=read"}, `{"message":"Not Found"}`, contract.ClassConfig, contract.CodeRepository, "Not Found; it does not exist, or the credentials may not see it, for which they need one of these permissions: metadata=read", 0, 0},
		{"gone", 410, nil, `{"message":"Issues are disabled for this repo"}`, contract.ClassConfig, contract.CodeRepository, "Issues are disabled", 0, 0},
		{"GitHub's validation", 422, nil, `{"message":"Validation Failed","errors":[{"resource":"PullRequest","code":"custom","message":"A pull request already exists for octo:x."}]}`, contract.ClassConfig, contract.CodeBadRequest, "HTTP 422 Unprocessable Entity: Validation Failed; A pull request already exists for octo:x.; PullRequest; custom", 0, 0},
		{"GitLab's list", 409, nil, `{"message":["Another open merge request already exists for this source branch: !7"]}`, contract.ClassConfig, contract.CodeBadRequest, "Another open merge request already exists for this source branch: !7", 0, 0},
		{"GitLab's fields", 400, nil, `{"message":{"title":["can't be blank","is too short"]}}`, contract.ClassConfig, contract.CodeBadRequest, "title; can't be blank; is too short", 0, 0},
		{"the primary limit", 403, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset(90 * time.Second)}, `{"message":"API rate limit exceeded for user ID 1."}`, contract.ClassInfra, contract.CodeRateLimited, "a rate limit was reached", 80 * time.Second, 93 * time.Second},
		{"the primary limit as 429", 429, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset(90 * time.Second)}, `{}`, contract.ClassInfra, contract.CodeRateLimited, "", 80 * time.Second, 93 * time.Second},
		{"a limit that is over", 429, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset(-time.Hour)}, `{}`, contract.ClassInfra, contract.CodeRateLimited, "", time.Second, 2 * time.Second},
		{"an absurd limit", 429, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "99999999999"}, `{}`, contract.ClassInfra, contract.CodeRateLimited, "", time.Hour, time.Hour},
		{"the secondary limit", 403, map[string]string{"Retry-After": "17"}, `{"message":"You have exceeded a secondary rate limit."}`, contract.ClassInfra, contract.CodeRateLimited, "", 17 * time.Second, 17 * time.Second},
		{"the secondary limit without a wait", 403, map[string]string{"X-RateLimit-Remaining": "4000", "X-RateLimit-Reset": reset(time.Hour)}, `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes."}`, contract.ClassInfra, contract.CodeRateLimited, "", time.Minute, time.Minute},
		{"GitLab's limit", 429, map[string]string{"RateLimit-Reset": reset(40 * time.Second)}, "Retry later\n", contract.ClassInfra, contract.CodeRateLimited, "Retry later", 30 * time.Second, 43 * time.Second},
		{"a limit without a wait", 429, nil, "", contract.ClassInfra, contract.CodeRateLimited, "", time.Minute, time.Minute},
		{"a bad gateway", 502, nil, "<html><h1>502</h1></html>", contract.ClassInfra, contract.CodeUnavailable, "HTTP 502 Bad Gateway", 0, 0},
		{"maintenance", 503, map[string]string{"Retry-After": "30"}, "", contract.ClassInfra, contract.CodeUnavailable, "HTTP 503", 30 * time.Second, 30 * time.Second},
		{"a slow gateway", 504, nil, "", contract.ClassInfra, contract.CodeTimeout, "HTTP 504", 0, 0},
		{"a forge that repeats the token", 400, nil, `{"message":"unknown token ` + token + `\u202e\n\u001b[31mred"}`, contract.ClassConfig, contract.CodeBadRequest, "unknown token [redacted] [31mred", 0, 0},
		{"a long message", 400, nil, `{"message":"` + strings.Repeat("a", 100_000) + `"}`, contract.ClassConfig, contract.CodeBadRequest, "aaa …", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			box, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range c.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			_, err := get(t, box, "x")
			f := fault.Of(err)
			require.NotNil(t, f)
			require.Equal(t, []any{c.class, c.code}, []any{f.Class, f.Code}, f.Message)
			require.Contains(t, f.Message, "cannot read the thing of octo/app on the forge box (http://127.0.0.1:")
			require.Contains(t, f.Message, c.want)
			require.NotContains(t, err.Error(), token)
			require.Less(t, len(err.Error()), 1500)
			var own *fault.Error
			require.ErrorAs(t, err, &own)
			require.GreaterOrEqual(t, own.RetryAfter, c.least)
			require.LessOrEqual(t, own.RetryAfter, c.most)
		})
	}
}

func TestANetworkErrorHasAClass(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	c, server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/slow"):
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		case strings.HasSuffix(r.URL.Path, "/cut"):
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"a":`)
		case strings.HasSuffix(r.URL.Path, "/drop"):
			conn, _, _ := http.NewResponseController(w).Hijack()
			_ = conn.Close()
		case strings.HasSuffix(r.URL.Path, "/large"):
			chunk := strings.Repeat("x", 1<<20)
			for range 17 {
				_, _ = io.WriteString(w, chunk)
			}
		case strings.HasSuffix(r.URL.Path, "/page"):
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, "<html>")
		}
	})
	t.Cleanup(func() { close(hang) })
	for path, want := range map[string]struct {
		class contract.Class
		code  contract.Code
		text  string
	}{
		"cut":   {contract.ClassInfra, contract.CodeUnavailable, "unexpected EOF"},
		"drop":  {contract.ClassInfra, contract.CodeUnavailable, "EOF"},
		"large": {contract.ClassInfra, contract.CodeTooLarge, "more than 16777216 bytes"},
		"page":  {contract.ClassConfig, contract.CodeInvalidConfig, "a web page"},
	} {
		_, err := get(t, c, path)
		require.Equal(t, []any{want.class, want.code}, []any{fault.Of(err).Class, fault.Of(err).Code}, "%s: %v", path, err)
		require.ErrorContains(t, err, want.text, path)
	}
	quick := client(t, server.URL, forgehttp.Options{Timeout: 50 * time.Millisecond})
	_, err := get(t, quick, "slow")
	require.True(t, fault.Is(err, contract.CodeTimeout), "%v", err)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.API().String(), nil)
	require.NoError(t, err)
	_, err = c.HTTP().Do(req) //nolint:bodyclose // it fails
	require.True(t, fault.Is(c.Explain(err, "x", ""), contract.CodeCancelled))

	server.Close()
	_, err = get(t, c, "x")
	require.Equal(t, contract.ClassInfra, fault.Of(err).Class)
	require.True(t, fault.Is(err, contract.CodeUnavailable), "%v", err)
	_, err = get(t, client(t, "http://forge.invalid", forgehttp.Options{}), "x")
	require.True(t, fault.Is(err, contract.CodeUnavailable), "%v", err)

	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	_, err = get(t, client(t, secure.URL, forgehttp.Options{}), "x")
	require.True(t, fault.Is(err, contract.CodeInvalidConfig), "%v", err)
	require.ErrorContains(t, err, "certificate")
	require.NoError(t, c.Explain(nil, "x", ""))
	require.True(t, fault.Is(c.Explain(json.Unmarshal([]byte("{"), new(int)), "x", ""), contract.CodeUnavailable))
}

func TestAnUnchangedResponseIsNotSentAgain(t *testing.T) {
	t.Parallel()
	var full, confirmed atomic.Int64
	handler := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/private") {
			w.Header().Set("Cache-Control", "no-store")
		}
		etag := `W/"1-` + r.Header.Get("Authorization") + `"`
		w.Header().Set("ETag", etag)
		w.Header().Set("X-RateLimit-Remaining", strconv.FormatInt(100-confirmed.Load(), 10))
		if r.Header.Get("If-None-Match") == etag {
			confirmed.Add(1)
			w.WriteHeader(http.StatusNotModified)
			return
		}
		full.Add(1)
		w.Header().Set("Link", "<next>")
		if strings.HasSuffix(r.URL.Path, "/big") {
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
			return
		}
		_, _ = io.WriteString(w, "for "+r.Header.Get("Authorization"))
	}
	var current atomic.Value
	current.Store("one")
	server := httptest.NewServer(http.HandlerFunc(handler))
	t.Cleanup(server.Close)
	c := client(t, server.URL, forgehttp.Options{Token: func() (string, error) { return current.Load().(string), nil }})
	for range 3 {
		text, err := get(t, c, "x")
		require.NoError(t, err)
		require.Equal(t, "for token one", text)
	}
	require.EqualValues(t, 1, full.Load())
	require.EqualValues(t, 2, confirmed.Load())

	current.Store("two") // another credential does not see what the first one saw
	text, err := get(t, c, "x")
	require.NoError(t, err)
	require.Equal(t, "for token two", text)
	require.EqualValues(t, 2, full.Load())

	for _, path := range []string{"big", "private"} {
		before := full.Load()
		for range 2 {
			_, err = get(t, c, path)
			require.NoError(t, err)
		}
		require.Equal(t, before+2, full.Load(), "%s is not kept", path)
	}

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.API().String()+"x", nil)
	require.NoError(t, err)
	resp, err := c.HTTP().Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "<next>", resp.Header.Get("Link"), "that of the kept response")
	require.Equal(t, strconv.FormatInt(100-confirmed.Load()+1, 10), resp.Header.Get("X-RateLimit-Remaining"), "that of now")
}

func TestKeptResponsesAreBounded(t *testing.T) {
	t.Parallel()
	var full atomic.Int64
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		full.Add(1)
		_, _ = io.WriteString(w, strings.Repeat("x", 500<<10))
	})
	for i := range 20 {
		_, err := get(t, c, strconv.Itoa(i))
		require.NoError(t, err)
	}
	require.EqualValues(t, 20, full.Load())
	_, err := get(t, c, "19")
	require.NoError(t, err)
	require.EqualValues(t, 20, full.Load(), "the newest is kept")
	_, err = get(t, c, "0")
	require.NoError(t, err)
	require.EqualValues(t, 21, full.Load(), "the oldest is not")
}

func TestCredentialsThatAreMissingSendNothing(t *testing.T) {
	t.Parallel()
	var asked atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	t.Cleanup(server.Close)
	c := client(t, server.URL, forgehttp.Options{Token: func() (string, error) { return "", fmt.Errorf("the file /x is empty") }})
	_, err := get(t, c, "x")
	require.True(t, fault.Is(err, contract.CodeUnauthorized))
	require.ErrorContains(t, err, "the file /x is empty; set token_env or token_file")
	require.False(t, asked.Load())
}

func TestALogKeepsItsEnd(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/none") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		for i := range 50_000 {
			_, _ = fmt.Fprintf(w, "line %d ä\n", i)
		}
	})
	text, err := c.Tail(t.Context(), address(t, c.API().String()+"log"), 30)
	require.NoError(t, err)
	require.Equal(t, "line 49998 ä\nline 49999 ä\n", text[len(text)-28:])
	require.LessOrEqual(t, len(text), 30)
	text, err = c.Tail(t.Context(), address(t, c.API().String()+"log"), 15)
	require.NoError(t, err)
	require.Equal(t, " 49999 ä\n"[:1]+"49999 ä\n", text[len(text)-10:])
	_, err = c.Tail(t.Context(), address(t, c.API().String()+"none"), 15)
	require.True(t, fault.Is(c.Explain(err, "x", ""), contract.CodeRepository))
}
