package gitea

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// maxAnswer limits what is read of an answer of the API.
const maxAnswer = 16 << 20

// StatusError is an answer of the API that is not a success.
type StatusError struct {
	Request string // method and path
	Status  int
	Body    string
}

// Error states the request and the answer.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: HTTP %d: %s", e.Request, e.Status, e.Body)
}

// Call sends a request to the API (path below /api/v1) as a user, or as nobody if the user is
// zero: with the user's token or, if it has none, with the password. The answer's JSON is stored in
// into, unless that is nil.
func (s *Server) Call(ctx context.Context, as User, method, path string, body, into any) error {
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		sent = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+"/api/v1"+path, sent)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	switch {
	case as.Token != "":
		req.Header.Set("Authorization", "token "+as.Token)
	case as.Login != "":
		req.SetBasicAuth(as.Login, as.Password)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return &StatusError{Request: method + " " + path, Status: resp.StatusCode, Body: strings.TrimSpace(string(answer))}
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// Do is Call for a request that has to succeed.
func (s *Server) Do(tb testing.TB, as User, method, path string, body, into any) {
	tb.Helper()
	if err := s.Call(tb.Context(), as, method, path, body, into); err != nil {
		tb.Fatal(err)
	}
}

// createUsers creates the administrator, which only the command line can, and the others.
func (s *Server) createUsers(ctx context.Context) error {
	s.Admin = User{Login: "administrator", Password: rand.Text()}
	out, err := s.command(ctx, "admin", "user", "create", "--username", s.Admin.Login, "--password", s.Admin.Password,
		"--email", s.Admin.Login+"@example.com", "--admin", "--must-change-password=false", "--access-token", "--access-token-scopes", "all")
	if err != nil {
		return err
	}
	const before = "Access token was successfully created... "
	_, rest, found := strings.Cut(out, before)
	if !found {
		return fmt.Errorf("create Gitea's administrator: the output contains no token:\n%s", out)
	}
	s.Admin.Token, _, _ = strings.Cut(rest, "\n")
	for login, to := range map[string]*User{"owner": &s.Owner, "bot": &s.Bot, "reviewer": &s.Reviewer} {
		if *to, err = s.createUser(ctx, login); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) createUser(ctx context.Context, login string) (User, error) {
	u := User{Login: login, Password: rand.Text()}
	err := s.Call(ctx, s.Admin, http.MethodPost, "/admin/users", map[string]any{
		"username": u.Login, "email": u.Login + "@example.com", "password": u.Password, "must_change_password": false,
	}, nil)
	if err != nil {
		return u, err
	}
	u.Token, err = s.createToken(ctx, u, "all")
	return u, err
}

func (s *Server) createToken(ctx context.Context, of User, scopes ...string) (string, error) {
	of.Token = "" // only a password suffices
	var created struct {
		Token string `json:"sha1"`
	}
	err := s.Call(ctx, of, http.MethodPost, "/users/"+of.Login+"/tokens", map[string]any{"name": rand.Text(), "scopes": scopes}, &created)
	return created.Token, err
}

// User creates a user.
func (s *Server) User(tb testing.TB, login string) User {
	tb.Helper()
	u, err := s.createUser(tb.Context(), login)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

// WithScopes returns the user with another token, which has only the scopes, such as
// "read:repository".
func (s *Server) WithScopes(tb testing.TB, u User, scopes ...string) User {
	tb.Helper()
	token, err := s.createToken(tb.Context(), u, scopes...)
	if err != nil {
		tb.Fatal(err)
	}
	u.Token = token
	return u
}

// Repository creates a private repository of the owner with files on its default branch, main. The
// bot may write to it. It returns the repository's path, owner/name.
func (s *Server) Repository(tb testing.TB, files map[string]string) string {
	tb.Helper()
	name := "r-" + strings.ToLower(rand.Text()[:10])
	s.Do(tb, s.Owner, http.MethodPost, "/user/repos", map[string]any{"name": name, "private": true, "auto_init": true, "default_branch": "main"}, nil)
	repo := s.Owner.Login + "/" + name
	s.Collaborator(tb, repo, s.Bot, "write")
	if len(files) > 0 {
		s.Commit(tb, repo, "main", "Add files", files)
	}
	return repo
}

// Collaborator gives a user a right at a repository: read, write or admin.
func (s *Server) Collaborator(tb testing.TB, repo string, u User, right string) {
	tb.Helper()
	s.Do(tb, s.Owner, http.MethodPut, "/repos/"+repo+"/collaborators/"+u.Login, map[string]any{"permission": right}, nil)
}

// CloneURL returns the address of a repository for git, with the user's credentials.
func (s *Server) CloneURL(as User, repo string) string {
	u, err := url.Parse(s.URL + "/" + repo + ".git")
	if err != nil {
		return "" // the address of a server can be parsed
	}
	u.User = url.UserPassword(as.Login, as.Token)
	return u.String()
}

// Branch creates a branch at the head of another.
func (s *Server) Branch(tb testing.TB, repo, name, from string) {
	tb.Helper()
	s.Do(tb, s.Owner, http.MethodPost, "/repos/"+repo+"/branches", map[string]any{"new_branch_name": name, "old_ref_name": from}, nil)
}

// Head returns the commit that a branch points to.
func (s *Server) Head(tb testing.TB, repo, branch string) string {
	tb.Helper()
	var got struct {
		Commit struct {
			ID string `json:"id"`
		} `json:"commit"`
	}
	s.Do(tb, s.Owner, http.MethodGet, "/repos/"+repo+"/branches/"+url.PathEscape(branch), nil, &got)
	return got.Commit.ID
}

// Commit creates or changes files on a branch in one commit, by the owner, and returns it.
func (s *Server) Commit(tb testing.TB, repo, branch, message string, files map[string]string) string {
	tb.Helper()
	changes := make([]map[string]any, 0, len(files))
	for _, path := range slices.Sorted(maps.Keys(files)) {
		change := map[string]any{"operation": "create", "path": path, "content": base64.StdEncoding.EncodeToString([]byte(files[path]))}
		var there struct {
			SHA string `json:"sha"`
		}
		err := s.Call(tb.Context(), s.Owner, http.MethodGet, "/repos/"+repo+"/contents/"+path+"?ref="+url.QueryEscape(branch), nil, &there)
		if err == nil {
			change["operation"], change["sha"] = "update", there.SHA
		}
		changes = append(changes, change)
	}
	var done struct {
		Commit struct {
			SHA string `json:"sha"`
		} `json:"commit"`
	}
	s.Do(tb, s.Owner, http.MethodPost, "/repos/"+repo+"/contents", map[string]any{"branch": branch, "message": message, "files": changes}, &done)
	return done.Commit.SHA
}

// Issue opens an issue, as a user, and returns its number.
func (s *Server) Issue(tb testing.TB, as User, repo, title, body string) int64 {
	tb.Helper()
	return s.number(tb, as, "/repos/"+repo+"/issues", map[string]any{"title": title, "body": body})
}

// PullRequest opens a pull request, as a user, and returns its number.
func (s *Server) PullRequest(tb testing.TB, as User, repo, head, base, title string) int64 {
	tb.Helper()
	return s.number(tb, as, "/repos/"+repo+"/pulls", map[string]any{"title": title, "head": head, "base": base})
}

func (s *Server) number(tb testing.TB, as User, path string, body any) int64 {
	tb.Helper()
	var created struct {
		Number int64 `json:"number"`
	}
	s.Do(tb, as, http.MethodPost, path, body, &created)
	return created.Number
}

// Label creates a label in a repository and returns its ID.
func (s *Server) Label(tb testing.TB, repo, name string) int64 {
	tb.Helper()
	var created struct {
		ID int64 `json:"id"`
	}
	s.Do(tb, s.Owner, http.MethodPost, "/repos/"+repo+"/labels", map[string]any{"name": name, "color": "#0e8a16"}, &created)
	return created.ID
}

// SetLabel adds a label of the repository to an issue or pull request, as a user.
func (s *Server) SetLabel(tb testing.TB, as User, repo string, number, label int64) {
	tb.Helper()
	s.Do(tb, as, http.MethodPost, fmt.Sprintf("/repos/%s/issues/%d/labels", repo, number), map[string]any{"labels": []int64{label}}, nil)
}

// Comment adds a comment to an issue or pull request, as a user.
func (s *Server) Comment(tb testing.TB, as User, repo string, number int64, text string) {
	tb.Helper()
	s.Do(tb, as, http.MethodPost, fmt.Sprintf("/repos/%s/issues/%d/comments", repo, number), map[string]any{"body": text}, nil)
}

// Status sets the status of a commit (pending, success, error, failure or warning), as the owner.
func (s *Server) Status(tb testing.TB, repo, commit, name, state, description string) {
	tb.Helper()
	s.Do(tb, s.Owner, http.MethodPost, "/repos/"+repo+"/statuses/"+commit, map[string]any{"context": name, "state": state, "description": description}, nil)
}

// Protection protects a branch.
type Protection struct {
	Branch    string
	Checks    []string // contexts of statuses that must succeed before a merge
	Approvals int      // that a merge needs
}

// Protect protects a branch of a repository: only pull requests change it.
func (s *Server) Protect(tb testing.TB, repo string, p Protection) {
	tb.Helper()
	s.Do(tb, s.Owner, http.MethodPost, "/repos/"+repo+"/branch_protections", map[string]any{
		"rule_name": p.Branch, "enable_push": false,
		"enable_status_check": len(p.Checks) > 0, "status_check_contexts": p.Checks, "required_approvals": p.Approvals,
	}, nil)
}

// Webhook makes a repository deliver events, named as Gitea's API names them, to an address.
func (s *Server) Webhook(tb testing.TB, repo, to, secret string, events ...string) {
	tb.Helper()
	s.Do(tb, s.Owner, http.MethodPost, "/repos/"+repo+"/hooks", map[string]any{
		"type": "gitea", "active": true, "events": events,
		"config": map[string]string{"url": to, "content_type": "json", "secret": secret},
	}, nil)
}
