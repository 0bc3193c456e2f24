// Package gitea works with Gitea and Forgejo.
//
// Where these have no operation for what forge.Service promises, the package says how it makes do:
// drafts are titles with a prefix, labels have numbers, an answer on a line is another comment on
// that line, and the logs of Actions cannot be read.
package gitea

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	sdk "code.gitea.io/sdk/gitea"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
)

const (
	// pageSize is the number of entries of a page that are asked for; a server may return fewer.
	pageSize = 50
	// maxPages limits the pages of a list. A longer list is an error.
	maxPages = 200
)

// Service is a Gitea or Forgejo with an access token.
type Service struct {
	client *forgehttp.Client
	// labels is held while labels are created: the forge accepts several of the same name.
	labels sync.Mutex
}

var _ forge.Service = (*Service)(nil)

// New returns the service of a forge. It sends nothing yet.
func New(o forgehttp.Options) (*Service, error) {
	return &Service{client: forgehttp.New(o)}, nil
}

// Close closes the connections that are not in use.
func (s *Service) Close() { s.client.Close() }

// Kind returns the forge's kind.
func (s *Service) Kind() forge.Kind { return forge.Gitea }

// call is one operation on a repository.
type call struct {
	*Service
	api               *sdk.Client
	repo, owner, name string
	operation         string // completes "cannot …"
}

// begin starts an operation. repo is empty if it concerns none.
func (s *Service) begin(ctx context.Context, repo, operation string) (*call, error) {
	c := &call{Service: s, repo: repo, operation: operation}
	var err error
	if repo != "" {
		if c.owner, c.name, err = forge.SplitRepository(forge.Gitea, repo); err != nil {
			return nil, c.explain(err)
		}
	}
	// The library keeps the context in its client, so every operation has its own. An empty version
	// disables its checks of the server's version, which would cost a request.
	c.api, err = sdk.NewClient(s.client.Site(), sdk.SetGiteaVersion(""), sdk.SetHTTPClient(s.client.HTTP()), sdk.SetContext(ctx))
	return c, c.explain(err)
}

// explain returns the failure for an error, nil for nil.
func (c *call) explain(err error) error {
	return c.client.Explain(err, c.operation, c.repo)
}

// refuse returns the failure of a request that is not sent.
func (c *call) refuse(format string, args ...any) error {
	return c.explain(fault.New(contract.ClassConfig, contract.CodeBadRequest, format, args...))
}

// pages returns all entries of a list. Some lists ignore the page and return everything at once.
func pages[T any](get func(sdk.ListOptions) ([]T, *sdk.Response, error)) ([]T, error) {
	var all []T
	for page := 1; page <= maxPages; page++ {
		items, resp, err := get(sdk.ListOptions{Page: page, PageSize: pageSize})
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		total, err := strconv.Atoi(resp.Header.Get("X-Total-Count"))
		more := resp.NextPage > page || err == nil && total > len(all)
		if len(items) == 0 || !more {
			return all, nil
		}
	}
	return nil, fault.New(contract.ClassInfra, contract.CodeTooLarge, "the list has more than %d pages", maxPages)
}

// is reports whether an error is a response with one of the statuses.
func is(err error, statuses ...int) bool {
	status, _ := forgehttp.StatusOf(err)
	return slices.Contains(statuses, status)
}

// orMissing returns the error of look, which reads the object that an operation concerns, if that
// does not exist, and err otherwise: for some missing objects, the forge reports an internal error.
func orMissing(err error, look func() error) error {
	if !is(err, http.StatusInternalServerError) {
		return err
	}
	if missing := look(); is(missing, http.StatusNotFound) {
		return missing
	}
	return err
}

// exists returns an error if the repository cannot be seen. It tells a missing repository from a
// missing object in it, because the forge responds to both in the same way.
func (c *call) exists() error {
	_, _, err := c.api.GetRepo(c.owner, c.name)
	return err
}

// Access returns who the credentials belong to and what they may do with a repository. A token's
// scopes can only be found out by requests that need them: those here name objects that never exist.
func (s *Service) Access(ctx context.Context, repo string) (forge.Access, error) {
	c, err := s.begin(ctx, repo, "find out what the credentials may do")
	if err != nil {
		return forge.Access{}, err
	}
	var access forge.Access
	user, _, err := c.api.GetMyUserInfo()
	missing := scopes(err)
	switch {
	case err == nil:
		access.Login = user.UserName
	case repo == "" || missing == nil:
		return forge.Access{}, c.explain(err)
	}
	access.Missing = missing
	if repo == "" {
		return access, nil
	}
	r, _, err := c.api.GetRepo(c.owner, c.name)
	if err != nil {
		return forge.Access{}, c.explain(err)
	}
	access.DefaultBranch = r.DefaultBranch
	if r.Permissions != nil {
		access.Permission = permission(r.Permissions)
	}
	none := int64(0) // is the number of no pull request or issue
	_, _, err = c.api.EditPullRequest(c.owner, c.name, none, sdk.EditPullRequestOption{})
	access.Missing = append(access.Missing, scopes(err)...)
	_, _, err = c.api.AddIssueLabels(c.owner, c.name, none, sdk.IssueLabelsOption{Labels: []int64{}})
	access.Missing = append(access.Missing, scopes(err)...)
	return access, nil
}

// scopePattern matches the scopes that a response requires of a token.
var scopePattern = regexp.MustCompile(`required=\[([a-z:, ]+)\]|required scope\(s\): \[([a-z:, ]+)\]`)

// scopes returns the scopes that a token lacks according to a refusal.
func scopes(err error) []string {
	status, message := forgehttp.StatusOf(err)
	if status != http.StatusForbidden {
		return nil
	}
	found := scopePattern.FindStringSubmatch(message)
	if found == nil {
		return nil
	}
	return strings.FieldsFunc(found[1]+found[2], func(r rune) bool { return r == ' ' || r == ',' })
}

func permission(p *sdk.Permission) forge.Permission {
	switch {
	case p.Admin:
		return forge.PermissionAdmin
	case p.Push:
		return forge.PermissionWrite
	case p.Pull:
		return forge.PermissionRead
	}
	return forge.PermissionNone
}

// Permission returns what a person may do with a repository. Only the repository's administrators
// may ask for it. With other credentials, a person who can be assigned to issues has
// PermissionWrite, even if it is more, and any other collaborator PermissionRead. In repositories of
// organizations, nobody then has more than PermissionRead, because issues can also be assigned to
// members of teams that only read.
func (s *Service) Permission(ctx context.Context, repo, login string) (forge.Permission, error) {
	c, err := s.begin(ctx, repo, "find out what "+strconv.Quote(fault.Clip(login, maxShown))+" may do")
	if err != nil {
		return forge.PermissionNone, err
	}
	if !loginPattern.MatchString(login) {
		return forge.PermissionNone, nil // nobody has such a name
	}
	got, _, err := c.api.CollaboratorPermission(c.owner, c.name, login)
	switch {
	case err == nil:
		return mode(got.Permission), nil
	case is(err, http.StatusNotFound): // no such user, or no such repository
		return forge.PermissionNone, c.explain(c.exists())
	case !is(err, http.StatusForbidden) || scopes(err) != nil:
		return forge.PermissionNone, c.explain(err)
	}
	writers, _, err := c.api.GetAssignees(c.owner, c.name)
	if err != nil {
		return forge.PermissionNone, c.explain(err)
	}
	if slices.ContainsFunc(writers, func(u *sdk.User) bool { return strings.EqualFold(u.UserName, login) }) {
		if _, _, err := c.api.GetRepoTeams(c.owner, c.name); !is(err, http.StatusMethodNotAllowed) { // the owner is an organization
			return forge.PermissionRead, nil
		}
		return forge.PermissionWrite, nil
	}
	reader, _, err := c.api.IsCollaborator(c.owner, c.name, login)
	switch {
	case is(err, http.StatusNotFound, http.StatusUnprocessableEntity):
		return forge.PermissionNone, nil
	case err != nil:
		return forge.PermissionNone, c.explain(err)
	case reader:
		return forge.PermissionRead, nil
	}
	return forge.PermissionNone, nil
}

// maxShown is the number of bytes of a name that a message shows.
const maxShown = 100

// loginPattern matches the names of users. Others could change the path of a request.
var loginPattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,255}$`)

func mode(m sdk.AccessMode) forge.Permission {
	switch m {
	case sdk.AccessModeOwner, sdk.AccessModeAdmin:
		return forge.PermissionAdmin
	case sdk.AccessModeWrite:
		return forge.PermissionWrite
	case sdk.AccessModeRead:
		return forge.PermissionRead
	case sdk.AccessModeNone:
	}
	return forge.PermissionNone
}

// Branch returns the newest commit of a branch.
func (s *Service) Branch(ctx context.Context, repo, branch string) (string, error) {
	c, err := s.begin(ctx, repo, "read the branch "+strconv.Quote(fault.Clip(branch, maxShown)))
	if err != nil {
		return "", err
	}
	if branch == "" {
		r, _, err := c.api.GetRepo(c.owner, c.name)
		if err != nil {
			return "", c.explain(err)
		}
		branch = r.DefaultBranch
	}
	if err := c.checkBranch(branch); err != nil {
		return "", err
	}
	found, _, err := c.api.GetRepoBranch(c.owner, c.name, branch)
	if err != nil || found.Commit == nil {
		return "", c.explain(err)
	}
	return found.Commit.ID, nil
}

// DeleteBranch deletes a branch.
func (s *Service) DeleteBranch(ctx context.Context, repo, branch string) error {
	c, err := s.begin(ctx, repo, "delete the branch "+strconv.Quote(fault.Clip(branch, maxShown)))
	if err != nil {
		return err
	}
	if err := c.checkBranch(branch); err != nil {
		return err
	}
	_, _, err = c.api.DeleteRepoBranch(c.owner, c.name, branch)
	err = orMissing(err, func() error {
		_, _, err := c.api.GetRepoBranch(c.owner, c.name, branch)
		return err
	})
	if is(err, http.StatusNotFound) {
		err = c.exists()
	}
	return c.explain(err)
}

// checkBranch rejects names that git does not allow. Some would change the path of a request.
func (c *call) checkBranch(branch string) error { return c.explain(forge.CheckBranch(branch)) }

// checkCommit rejects what is not the full name of a commit.
func (c *call) checkCommit(commit string) error { return c.explain(forge.CheckCommit(commit)) }

// address returns a URL that a forge reported, "" if it is not one for people.
func address(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return raw
}
