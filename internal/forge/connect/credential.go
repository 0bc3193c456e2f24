package connect

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
)

// tokenUsers are the users with which a forge accepts a token as the password of git.
var tokenUsers = map[forge.Kind]string{forge.GitHub: "x-access-token", forge.GitLab: "oauth2", forge.Gitea: "rgpt"}

// gitTokens is a service with tokens that it makes itself, such as those of a GitHub App.
type gitTokens interface {
	// GitToken returns a token for git in a repository.
	GitToken(ctx context.Context, repo string) (string, error)
}

// GitCredential returns the user and the password for git at the https address of a repository on one of
// the forges; false if it is on none of them, or the forge has no credentials.
func (s *Set) GitCredential(ctx context.Context, address string) (user, password string, known bool, err error) {
	f, repo, err := s.find(address)
	if err != nil {
		return "", "", false, nil //nolint:nilerr // git reports what is wrong with the address
	}
	user = tokenUsers[forge.Kind(f.settings.Kind)]
	if f.settings.App == (config.ForgeApp{}) {
		token, err := f.settings.Token(f.getenv)
		return user, token, err == nil, nil
	}
	service, err := f.connect()
	if err != nil {
		return "", "", false, err
	}
	made, ok := service.(gitTokens)
	if !ok {
		return "", "", false, nil
	}
	password, err = made.GitToken(ctx, repo)
	if err != nil && fault.Of(err).Class == contract.ClassConfig {
		return "", "", false, nil // the App is not installed there: the repository may be public
	}
	return user, password, err == nil, err
}
