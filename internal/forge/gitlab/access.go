package gitlab

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"

	api "gitlab.com/gitlab-org/api/client-go/v2"

	"github.com/rocketgpt/orchestrator/internal/forge"
)

// Access returns who the credentials belong to and what they may do with a project.
func (s *Service) Access(ctx context.Context, repo string) (forge.Access, error) {
	if repo == "" {
		login, err := s.who(ctx)
		return forge.Access{Login: login}, s.http.Explain(err, "check the credentials", "")
	}
	c, err := s.on(ctx, repo, "check the access")
	if err != nil {
		return forge.Access{}, err
	}
	login, err := s.who(ctx)
	if err != nil {
		return forge.Access{}, c.fail(err)
	}
	project, err := c.project()
	if err != nil {
		return forge.Access{}, c.fail(err)
	}
	access := forge.Access{Login: login, DefaultBranch: project.DefaultBranch}
	if p := project.Permissions; p != nil {
		if p.ProjectAccess != nil {
			access.Permission = permission(p.ProjectAccess.AccessLevel)
		}
		if p.GroupAccess != nil {
			access.Permission = max(access.Permission, permission(p.GroupAccess.AccessLevel))
		}
	}
	if access.Permission < forge.PermissionWrite {
		access.Missing = append(access.Missing, "role Developer in the project")
	}
	token, _, err := s.api.PersonalAccessTokens.GetSinglePersonalAccessToken(c.with())
	switch {
	case status(err, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound): // such as an OAuth token
	case err != nil:
		return forge.Access{}, c.fail(err)
	case !slices.Contains(token.Scopes, "api"):
		access.Missing = append(access.Missing, "scope api")
	}
	return access, nil
}

// permission converts a role.
func permission(level api.AccessLevelValue) forge.Permission {
	switch {
	case level >= api.MaintainerPermissions:
		return forge.PermissionAdmin
	case level >= api.DeveloperPermissions:
		return forge.PermissionWrite
	case level >= api.GuestPermissions:
		return forge.PermissionRead
	}
	return forge.PermissionNone
}

// loginPattern matches the names of accounts.
var loginPattern = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]*$`)

// Permission returns what a member of the project or its groups may do.
func (s *Service) Permission(ctx context.Context, repo, login string) (forge.Permission, error) {
	c, err := s.on(ctx, repo, "read the permission of %q", login)
	if err != nil {
		return forge.PermissionNone, err
	}
	id, err := c.userID(login)
	if err != nil {
		return forge.PermissionNone, c.fail(err)
	}
	if id == 0 {
		_, err = c.project()
		return forge.PermissionNone, c.fail(err)
	}
	member, _, err := s.api.ProjectMembers.GetInheritedProjectMember(c.repo, id, c.with())
	if err != nil {
		return forge.PermissionNone, c.fail(c.missing(err))
	}
	return permission(member.AccessLevel), nil
}

// userID returns the ID of an account, 0 if it does not exist.
func (c *call) userID(login string) (int64, error) {
	if !loginPattern.MatchString(login) {
		return 0, nil
	}
	users, _, err := c.api.Users.ListUsers(&api.ListUsersOptions{Username: &login}, c.with())
	if err != nil {
		return 0, err
	}
	for _, user := range users {
		if strings.EqualFold(user.Username, login) {
			return user.ID, nil
		}
	}
	return 0, nil
}
