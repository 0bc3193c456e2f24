package github

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	api "github.com/google/go-github/v88/github"

	"github.com/rocketgpt/orchestrator/internal/forge"
)

// Access returns who the credentials belong to and what they may do with a repository.
func (s *Service) Access(ctx context.Context, repo string) (forge.Access, error) {
	if repo == "" {
		login, _, err := s.who(ctx)
		return forge.Access{Login: login}, s.http.Explain(err, "check the credentials", "")
	}
	c, err := s.on(ctx, repo, "check the access")
	if err != nil {
		return forge.Access{}, err
	}
	login, scopes, err := s.who(c.ctx)
	if err != nil {
		return forge.Access{}, c.fail(err)
	}
	r, _, err := s.api.Repositories.Get(c.ctx, c.owner, c.name)
	if err != nil {
		return forge.Access{}, c.fail(err)
	}
	access := forge.Access{Login: login, DefaultBranch: r.GetDefaultBranch()}
	if s.app != nil {
		granted, err := s.app.permissions(c.ctx, c.owner, c.name)
		if err != nil {
			return forge.Access{}, c.fail(err)
		}
		access.Permission, access.Missing = ofApp(granted)
		return access, nil
	}
	access.Permission = ofRepository(r.GetPermissions())
	if access.Permission < forge.PermissionWrite {
		access.Missing = append(access.Missing, "write access to the repository")
	}
	if scopes != nil && !slices.Contains(scopes, "repo") && (r.GetPrivate() || !slices.Contains(scopes, "public_repo")) {
		access.Missing = append(access.Missing, "scope repo")
	}
	return access, nil
}

// who returns who the credentials belong to. The scopes are those of a classic token; nil: GitHub does
// not say which rights the token has.
func (s *Service) who(ctx context.Context) (login string, scopes []string, err error) {
	if s.app != nil {
		login, err = s.app.login(ctx)
		return login, nil, err
	}
	user, resp, err := s.api.Users.Get(ctx, "")
	if err != nil {
		return "", nil, err
	}
	if header, classic := resp.Header[http.CanonicalHeaderKey("X-OAuth-Scopes")]; classic {
		scopes = []string{}
		for scope := range strings.SplitSeq(strings.Join(header, ","), ",") {
			scopes = append(scopes, strings.TrimSpace(scope))
		}
	}
	return user.GetLogin(), scopes, nil
}

// needed are the permissions of an App that pull requests need.
var needed = []struct {
	name, level string
	get         func(api.InstallationPermissions) *string
}{
	{"actions", "read", func(p api.InstallationPermissions) *string { return p.Actions }},
	{"checks", "read", func(p api.InstallationPermissions) *string { return p.Checks }},
	{"contents", "write", func(p api.InstallationPermissions) *string { return p.Contents }},
	{"issues", "write", func(p api.InstallationPermissions) *string { return p.Issues }},
	{"pull_requests", "write", func(p api.InstallationPermissions) *string { return p.PullRequests }},
	{"statuses", "write", func(p api.InstallationPermissions) *string { return p.Statuses }},
}

// ofApp returns what an App may do, and the permissions that it lacks.
func ofApp(granted api.InstallationPermissions) (permission forge.Permission, missing []string) {
	levels := map[string]forge.Permission{"read": forge.PermissionRead, "write": forge.PermissionWrite, "admin": forge.PermissionAdmin}
	for _, n := range needed {
		var has string
		if level := n.get(granted); level != nil {
			has = *level
		}
		if n.name == "contents" {
			permission = levels[has]
		}
		if levels[has] < levels[n.level] {
			missing = append(missing, n.name+": "+n.level)
		}
	}
	return permission, missing
}

func ofRepository(p *api.RepositoryPermissions) forge.Permission {
	switch {
	case p.GetAdmin():
		return forge.PermissionAdmin
	case p.GetPush():
		return forge.PermissionWrite
	case p.GetPull():
		return forge.PermissionRead
	}
	return forge.PermissionNone
}

// loginPattern matches the names of people and Apps.
var loginPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*(\[bot\])?$`)

// Permission returns what a person may do with a repository. In a public repository, everyone may
// read.
func (s *Service) Permission(ctx context.Context, repo, login string) (forge.Permission, error) {
	c, err := s.on(ctx, repo, "read the permission of %q", login)
	if err != nil {
		return forge.PermissionNone, err
	}
	if !loginPattern.MatchString(login) {
		return forge.PermissionNone, nil
	}
	level, _, err := s.api.Repositories.GetPermissionLevel(c.ctx, c.owner, c.name, url.PathEscape(login))
	if status(err, http.StatusNotFound) {
		// Either the person or the repository does not exist.
		_, _, err = s.api.Repositories.Get(c.ctx, c.owner, c.name)
		return forge.PermissionNone, c.fail(err)
	}
	if err != nil {
		return forge.PermissionNone, c.fail(err)
	}
	switch level.GetPermission() {
	case "admin":
		return forge.PermissionAdmin, nil
	case "write", "maintain":
		return forge.PermissionWrite, nil
	case "read", "triage":
		return forge.PermissionRead, nil
	}
	return forge.PermissionNone, nil
}
