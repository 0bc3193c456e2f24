package github

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/bradleyfalzon/ghinstallation/v2"
	api "github.com/google/go-github/v88/github"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
)

// App is a GitHub App.
type App struct {
	ID           int64
	Installation int64  // 0: that of the repository
	KeyFile      string // PEM file with a private key
}

// app gets the tokens of an App's installations.
type app struct {
	App
	key    []byte
	client *forgehttp.Client
	itself *http.Client // with the credentials of the App

	mu            sync.Mutex
	installations map[string]int64 // by account, in lower case
	tokens        map[int64]*ghinstallation.Transport
	slug          string
}

func newApp(settings App) (*app, error) {
	key, err := os.ReadFile(settings.KeyFile)
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeUnauthorized, "cannot read the private key of the GitHub App %d; set app.key_file of the forge", settings.ID)
	}
	if _, err := ghinstallation.NewAppsTransport(http.DefaultTransport, settings.ID, key); err != nil {
		// The error is not included, because it could quote the file.
		return nil, fault.New(contract.ClassConfig, contract.CodeUnauthorized, "%s has no RSA private key in PEM format; GitHub generates one in the settings of the App", settings.KeyFile)
	}
	return &app{App: settings, key: key, installations: map[string]int64{}, tokens: map[int64]*ghinstallation.Transport{}}, nil
}

// use sets the client that sends the requests for tokens.
func (a *app) use(client *forgehttp.Client) {
	a.client = client
	transport, _ := ghinstallation.NewAppsTransport(client.Plain().Transport, a.ID, a.key) // the key was checked
	plain := client.Plain()
	plain.Transport = transport
	a.itself = plain
}

// repositoryKey is the key of the context's repository, to whose installation a request belongs.
type repositoryKey struct{}

func withRepository(ctx context.Context, owner, name string) context.Context {
	return context.WithValue(ctx, repositoryKey{}, [2]string{owner, name})
}

// authorize adds the token of the installation that the request's repository belongs to.
func (a *app) authorize(req *http.Request) error {
	repo, _ := req.Context().Value(repositoryKey{}).([2]string)
	token, err := a.token(req.Context(), repo[0], repo[1])
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return nil
}

// token returns a token of the installation that a repository belongs to.
func (a *app) token(ctx context.Context, owner, name string) (string, error) {
	installation, err := a.installation(ctx, owner, name)
	if err != nil {
		return "", err
	}
	source, err := a.source(installation)
	if err != nil {
		return "", err
	}
	token, err := source.Token(ctx)
	if err != nil && status(err, http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden) {
		a.forget(owner) // the App may have been removed and installed again
	}
	return token, err
}

// rejected forgets a token that was revoked, as when the App was installed again.
func (a *app) rejected(req *http.Request) {
	repo, _ := req.Context().Value(repositoryKey{}).([2]string)
	a.forget(repo[0])
}

// source returns the source of an installation's tokens.
func (a *app) source(installation int64) (*ghinstallation.Transport, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if source := a.tokens[installation]; source != nil {
		return source, nil
	}
	// Each source has its own transport, because the library writes to it.
	source, err := ghinstallation.New(a.client.Plain().Transport, a.ID, installation, a.key)
	if err != nil {
		return nil, fault.New(contract.ClassConfig, contract.CodeUnauthorized, "the private key of the GitHub App %d cannot be used", a.ID)
	}
	source.BaseURL = strings.TrimRight(a.client.API().String(), "/")
	source.Client = a.client.Plain()
	a.tokens[installation] = source
	return source, nil
}

// installation returns the installation that a repository belongs to.
func (a *app) installation(ctx context.Context, owner, name string) (int64, error) {
	if a.Installation != 0 {
		return a.Installation, nil
	}
	account := strings.ToLower(owner)
	a.mu.Lock()
	known := a.installations[account]
	a.mu.Unlock()
	if known != 0 {
		return known, nil
	}
	var found struct {
		ID int64 `json:"id"`
	}
	err := a.get(ctx, "repos/"+owner+"/"+name+"/installation", &found)
	if status(err, http.StatusNotFound) {
		return 0, fault.New(contract.ClassConfig, contract.CodeUnauthorized, "the GitHub App %d is not installed for %s/%s; install it there", a.ID, owner, name)
	}
	if err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.installations[account] = found.ID
	return found.ID, nil
}

// forget removes the installation of an account.
func (a *app) forget(owner string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	account := strings.ToLower(owner)
	delete(a.tokens, cmp.Or(a.Installation, a.installations[account]))
	delete(a.installations, account)
}

// login returns the name under which the App acts.
func (a *app) login(ctx context.Context) (string, error) {
	a.mu.Lock()
	slug := a.slug
	a.mu.Unlock()
	if slug == "" {
		var self struct {
			Slug string `json:"slug"`
		}
		if err := a.get(ctx, "app", &self); err != nil {
			return "", err
		}
		if self.Slug == "" {
			return "", fault.New(contract.ClassInfra, contract.CodeUnavailable, "GitHub did not return the name of the App %d", a.ID)
		}
		a.mu.Lock()
		a.slug = self.Slug
		a.mu.Unlock()
		slug = self.Slug
	}
	return slug + "[bot]", nil
}

// permissions returns what the installation of a repository may do, by GitHub's names.
func (a *app) permissions(ctx context.Context, owner, name string) (api.InstallationPermissions, error) {
	installation, err := a.installation(ctx, owner, name)
	if err != nil {
		return api.InstallationPermissions{}, err
	}
	source, err := a.source(installation)
	if err != nil {
		return api.InstallationPermissions{}, err
	}
	if _, err := source.Token(ctx); err != nil {
		return api.InstallationPermissions{}, err
	}
	return source.Permissions()
}

// get reads a resource with the credentials of the App itself.
func (a *app) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.client.API().String()+path, nil)
	if err != nil {
		return err
	}
	resp, err := a.itself.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// GitToken returns the token with which git uses a repository as the App. The error is like those of
// forge.Service.
func (s *Service) GitToken(ctx context.Context, repo string) (string, error) {
	if s.app == nil {
		return "", fault.New(contract.ClassConfig, contract.CodeUnauthorized, "%s uses no GitHub App", s.http)
	}
	owner, name, err := forge.SplitRepository(forge.GitHub, repo)
	if err != nil {
		return "", err
	}
	token, err := s.app.token(ctx, owner, name)
	return token, s.http.Explain(err, "get a token for git", repo)
}
