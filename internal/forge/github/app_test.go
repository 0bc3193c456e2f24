package github_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgetest"
	"github.com/rocketgpt/orchestrator/internal/forge/github"
)

var appKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// keyFile writes the App's private key.
func keyFile(t *testing.T) (*rsa.PrivateKey, string) {
	t.Helper()
	key, err := appKey()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "key.pem")
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	return key, file
}

var whole = map[string]string{
	"actions": "read", "checks": "read", "contents": "write", "issues": "write", "pull_requests": "write", "statuses": "write", "metadata": "read",
}

func openApp(t *testing.T, hub *forgetest.GitHub, app github.App) *github.Service {
	t.Helper()
	s, err := github.NewApp(options(t, hub.URL(), ""), app)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestAnAppActsAsTheInstallationOfTheRepository(t *testing.T) {
	t.Parallel()
	key, file := keyFile(t)
	hub := forgetest.NewGitHub(t)
	repo := hub.Repository("octo/app")
	id, installation := hub.App("rocketgpt", &key.PublicKey, whole)
	for _, app := range []github.App{{ID: id, KeyFile: file}, {ID: id, KeyFile: file, Installation: installation}} {
		s := openApp(t, hub, app)
		access, err := s.Access(t.Context(), "octo/app")
		require.NoError(t, err)
		require.Equal(t, forge.Access{Login: "rocketgpt[bot]", Permission: forge.PermissionWrite, DefaultBranch: "main"}, access)
		access, err = s.Access(t.Context(), "")
		require.NoError(t, err)
		require.Equal(t, forge.Access{Login: "rocketgpt[bot]"}, access)
	}
	s := openApp(t, hub, github.App{ID: id, KeyFile: file})
	repo.Push("x", map[string]string{"a": "a\n"})
	before := hub.Tokens(id)
	pr, err := s.CreatePullRequest(t.Context(), "octo/app", forge.NewPullRequest{Head: "x", Base: "main", Title: "t", Draft: true})
	require.NoError(t, err)
	require.Equal(t, "rocketgpt[bot]", pr.Author)
	ready := false
	pr, err = s.UpdatePullRequest(t.Context(), "octo/app", pr.Number, forge.PullRequestChange{Draft: &ready})
	require.NoError(t, err)
	require.False(t, pr.Draft)
	comment, err := s.AddComment(t.Context(), "octo/app", forge.OnPullRequest(pr.Number), "Hello")
	require.NoError(t, err)
	require.True(t, comment.Bot)
	require.Equal(t, before+1, hub.Tokens(id), "the token is used until it expires")
	_, err = s.PullRequest(t.Context(), "octo/missing", 1)
	require.True(t, fault.Is(err, contract.CodeRepository) || fault.Is(err, contract.CodeUnauthorized), "%v", err)
}

func TestTheRightsThatAnAppLacksAreNamed(t *testing.T) {
	t.Parallel()
	key, file := keyFile(t)
	hub := forgetest.NewGitHub(t)
	hub.Repository("octo/app")
	id, _ := hub.App("weak", &key.PublicKey, map[string]string{"contents": "read", "pull_requests": "write", "issues": "read", "metadata": "read"})
	access, err := openApp(t, hub, github.App{ID: id, KeyFile: file}).Access(t.Context(), "octo/app")
	require.NoError(t, err)
	require.Equal(t, forge.PermissionRead, access.Permission)
	require.Equal(t, []string{"actions: read", "checks: read", "contents: write", "issues: write", "statuses: write"}, access.Missing)
}

func TestAnAppThatWasInstalledAgainIsFound(t *testing.T) {
	t.Parallel()
	key, file := keyFile(t)
	hub := forgetest.NewGitHub(t)
	repo := hub.Repository("octo/app")
	number := repo.OpenIssue("An issue", "")
	id, _ := hub.App("rocketgpt", &key.PublicKey, whole)
	s := openApp(t, hub, github.App{ID: id, KeyFile: file})
	_, err := s.Issue(t.Context(), "octo/app", number)
	require.NoError(t, err)
	hub.Reinstall(id)
	_, err = s.Issue(t.Context(), "octo/app", number)
	require.True(t, fault.Is(err, contract.CodeUnauthorized), "the token is gone: %v", err)
	_, err = s.Issue(t.Context(), "octo/app", number)
	require.NoError(t, err)
}

func TestAnAppThatCannotBeUsedSaysWhy(t *testing.T) {
	t.Parallel()
	key, file := keyFile(t)
	hub := forgetest.NewGitHub(t)
	hub.Repository("octo/app")
	id, _ := hub.App("rocketgpt", &key.PublicKey, whole)
	_, err := openApp(t, hub, github.App{ID: id, KeyFile: file}).Access(t.Context(), "octo/elsewhere")
	require.ErrorContains(t, err, "is not installed for octo/elsewhere; install it there")
	require.True(t, fault.Is(err, contract.CodeUnauthorized))
	_, err = openApp(t, hub, github.App{ID: id + 100, KeyFile: file}).Access(t.Context(), "")
	require.True(t, fault.Is(err, contract.CodeUnauthorized), "%v", err)

	_, err = github.NewApp(options(t, hub.URL(), ""), github.App{ID: id, KeyFile: "/does/not/exist"})
	require.True(t, fault.Is(err, contract.CodeUnauthorized))
	secret := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(secret, []byte("not a key, but secret"), 0o600))
	_, err = github.NewApp(options(t, hub.URL(), ""), github.App{ID: id, KeyFile: secret})
	require.ErrorContains(t, err, "has no RSA private key in PEM format")
	require.NotContains(t, err.Error(), "but secret")

	hub.Add(forgetest.Fault{Path: "access_tokens", Status: 503, Header: map[string]string{"Retry-After": "4"}})
	_, err = openApp(t, hub, github.App{ID: id, KeyFile: file}).Issue(t.Context(), "octo/app", 1)
	require.True(t, fault.Is(err, contract.CodeUnavailable), "%v", err)
	var own *fault.Error
	require.ErrorAs(t, err, &own)
	require.Equal(t, 4*time.Second, own.RetryAfter)
}
