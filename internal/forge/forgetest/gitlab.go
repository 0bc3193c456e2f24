package forgetest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/internal/forge"
)

// GitLab is a GitLab in memory, at the address URL(). It has the parts of the API that merge requests
// need, and serves its repositories to git.
type GitLab struct {
	server
	mux    *http.ServeMux
	scopes []string
	during func() // runs before the next rebase
}

// NewGitLab starts a GitLab.
func NewGitLab(tb testing.TB) *GitLab {
	tb.Helper()
	g := &GitLab{mux: http.NewServeMux(), scopes: []string{"api"}}
	start(tb, g.mux, &g.server)
	g.separate = true
	g.routes()
	return g
}

// Scopes sets the scopes of all tokens.
func (g *GitLab) Scopes(scopes ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.scopes = scopes
}

// DuringRebase runs a function between the request for the next rebase and the rebase. It must not
// use the forge, only git.
func (g *GitLab) DuringRebase(run func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.during = run
}

// lab is a request to GitLab.
type lab struct {
	*GitLab
	w    http.ResponseWriter
	r    *http.Request
	user *User
	repo *Repository
}

// handle registers a handler for a path.
func (g *GitLab) handle(method, path string, handle func(*lab)) {
	g.mux.HandleFunc(method+" /api/v4"+path, func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.requests[method+" "+path]++
		l := &lab{GitLab: g, w: w, r: r}
		_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if l.user = g.byToken(token); l.user == nil {
			l.fail(http.StatusUnauthorized, "401 Unauthorized")
			return
		}
		handle(l)
	})
}

// on registers a handler for a path of a project. write: the account needs to be a developer.
func (g *GitLab) on(method, path string, write bool, handle func(*lab)) {
	g.handle(method, "/projects/{id}"+path, func(l *lab) {
		l.repo = g.repoAt(l.r.PathValue("id"))
		switch {
		case l.repo == nil || l.repo.members[l.user.Login] < forge.PermissionRead:
			l.fail(http.StatusNotFound, "404 Project Not Found")
		case write && l.repo.members[l.user.Login] < forge.PermissionWrite:
			l.fail(http.StatusForbidden, "403 Forbidden")
		default:
			handle(l)
		}
	})
}

func (l *lab) send(status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{}`)
	}
	l.w.Header().Set("Content-Type", "application/json")
	l.w.Header().Set("RateLimit-Remaining", "1999")
	if l.r.Method == http.MethodGet && status == http.StatusOK {
		sum := sha256.Sum256(body)
		tag := `W/"` + hex.EncodeToString(sum[:16]) + `"`
		l.w.Header().Set("ETag", tag)
		if l.r.Header.Get("If-None-Match") == tag {
			l.same++
			l.w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	l.w.WriteHeader(status)
	_, _ = l.w.Write(body)
}

// fail refuses a request. The message is a text, or a list or object of texts.
func (l *lab) fail(status int, message any) { l.send(status, object{"message": message}) }

func (l *lab) read(into any) bool {
	if err := json.NewDecoder(l.r.Body).Decode(into); err != nil {
		l.send(http.StatusBadRequest, object{"error": "The request body is not valid JSON"})
		return false
	}
	return true
}

// labList sends a page.
func labList[T any](l *lab, all []T, shown func(T) object) {
	part, next := page(&l.server, l.r, all)
	if next > 0 {
		l.w.Header().Set("Link", nextLink(l.URL(), l.r, next))
		l.w.Header().Set("X-Next-Page", strconv.Itoa(next))
	}
	out := make([]object, 0, len(part))
	for _, one := range part {
		out = append(out, shown(one))
	}
	l.send(http.StatusOK, out)
}

func (l *lab) account(login string) object {
	user := l.server.user(login)
	if user == nil {
		return nil
	}
	return object{"id": user.ID, "username": user.Login, "name": user.Login, "state": "active"}
}

// roles are the access levels of permissions.
var roles = map[forge.Permission]int{forge.PermissionRead: 20, forge.PermissionWrite: 30, forge.PermissionAdmin: 50}

func (g *GitLab) routes() {
	g.handle("GET", "/user", func(l *lab) { l.send(http.StatusOK, l.account(l.user.Login)) })
	g.handle("GET", "/users", func(l *lab) {
		out := []object{}
		if user := l.server.user(l.r.URL.Query().Get("username")); user != nil {
			out = append(out, l.account(user.Login))
		}
		l.send(http.StatusOK, out)
	})
	g.handle("GET", "/personal_access_tokens/self", func(l *lab) {
		l.send(http.StatusOK, object{"id": l.user.ID, "scopes": g.scopes, "active": true})
	})
	g.on("GET", "", false, func(l *lab) {
		l.send(http.StatusOK, object{
			"id": l.repo.ID, "path_with_namespace": l.repo.Path, "default_branch": l.repo.DefaultBranch, "visibility": "private",
			"only_allow_merge_if_pipeline_succeeds": len(l.repo.required) > 0,
			"permissions":                           object{"project_access": object{"access_level": roles[l.repo.members[l.user.Login]]}, "group_access": nil},
		})
	})
	g.on("GET", "/members/all/{user}", false, func(l *lab) {
		for _, user := range l.users {
			if level := l.repo.members[user.Login]; strconv.FormatInt(user.ID, 10) == l.r.PathValue("user") && level > forge.PermissionNone {
				out := l.account(user.Login)
				out["access_level"] = roles[level]
				l.send(http.StatusOK, out)
				return
			}
		}
		l.fail(http.StatusNotFound, "404 Not found")
	})
	g.on("GET", "/repository/branches/{branch}", false, func(l *lab) {
		branch := l.r.PathValue("branch")
		commit := l.repo.Head(branch)
		if commit == "" {
			l.fail(http.StatusNotFound, "404 Branch Not Found")
			return
		}
		l.send(http.StatusOK, object{"name": branch, "commit": object{"id": commit}, "default": branch == l.repo.DefaultBranch})
	})
	g.on("DELETE", "/repository/branches/{branch}", true, func(l *lab) {
		branch := l.r.PathValue("branch")
		if l.repo.Head(branch) == "" {
			l.fail(http.StatusNotFound, "404 Branch Not Found")
			return
		}
		if _, err := git(l.repo.dir, nil, "update-ref", "-d", "refs/heads/"+branch); err != nil {
			l.fail(http.StatusInternalServerError, "500 Internal Server Error")
			return
		}
		l.w.WriteHeader(http.StatusNoContent)
	})
	g.mergeRequestRoutes()
	g.noteRoutes()
	g.statusRoutes()
}

// gitlabDescription is the maximum length of a status's description.
const gitlabDescription = 255

func (g *GitLab) statusRoutes() {
	g.on("POST", "/statuses/{sha}", true, func(l *lab) {
		var in struct {
			State, Name, Description string
			TargetURL                string `json:"target_url"`
		}
		if !l.read(&in) {
			return
		}
		commit, err := revision(l.repo.dir, l.r.PathValue("sha"))
		if err != nil {
			l.fail(http.StatusNotFound, "404 Commit Not Found")
			return
		}
		if utf8.RuneCountInString(in.Description) > gitlabDescription {
			l.fail(http.StatusBadRequest, object{"description": []string{"is too long (maximum is 255 characters)"}})
			return
		}
		state := map[string]forge.CheckState{"pending": forge.CheckPending, "running": forge.CheckPending, "success": forge.CheckSuccess, "failed": forge.CheckFailure}[in.State]
		for _, s := range l.repo.latest(commit) {
			if s.context == in.Name && s.state == forge.CheckPending && state == forge.CheckPending {
				l.fail(http.StatusBadRequest, "Cannot transition status via :enqueue from :pending (Reason(s): Status cannot transition via \"enqueue\")")
				return
			}
		}
		made := &status{id: l.id(), context: in.Name, state: state, description: in.Description, url: in.TargetURL, created: l.tick()}
		l.repo.statuses[commit] = append(l.repo.statuses[commit], made)
		l.send(http.StatusCreated, l.shownStatus(made))
	})
	g.on("GET", "/repository/commits/{sha}/statuses", false, func(l *lab) {
		labList(l, l.repo.latest(l.r.PathValue("sha")), l.shownStatus)
	})
	g.on("GET", "/jobs/{job}/trace", false, func(l *lab) {
		id, _ := strconv.ParseInt(l.r.PathValue("job"), 10, 64)
		s := l.repo.job(id)
		if s == nil {
			l.fail(http.StatusNotFound, "404 Not found")
			return
		}
		l.w.Header().Set("Content-Type", "text/plain")
		_, _ = l.w.Write([]byte(s.log))
	})
}

func (l *lab) shownStatus(s *status) object {
	state := map[forge.CheckState]string{
		forge.CheckPending: "pending", forge.CheckSuccess: "success", forge.CheckFailure: "failed", forge.CheckError: "canceled", forge.CheckSkipped: "skipped",
	}[s.state]
	return object{"id": s.id, "name": s.context, "status": state, "description": s.description, "target_url": s.url, "allow_failure": false, "created_at": s.created}
}

func (g *GitLab) noteRoutes() {
	g.on("GET", "/issues", false, (*lab).listIssues)
	g.on("GET", "/issues/{iid}", false, func(l *lab) {
		if i := l.find(false); i != nil {
			l.send(http.StatusOK, l.shownIssue(i))
		}
	})
	g.on("PUT", "/issues/{iid}", true, func(l *lab) {
		var in labelChange
		if i := l.find(false); i != nil && l.read(&in) {
			l.relabel(i, in)
			l.send(http.StatusOK, l.shownIssue(i))
		}
	})
	for _, pull := range []bool{false, true} {
		kind := map[bool]string{false: "/issues", true: "/merge_requests"}[pull]
		g.on("GET", kind+"/{iid}/discussions", false, func(l *lab) {
			if on := l.find(pull); on != nil {
				l.discussions(on)
			}
		})
		g.on("POST", kind+"/{iid}/notes", false, func(l *lab) { l.addNote(pull, 0) })
		g.on("POST", kind+"/{iid}/discussions/{discussion}/notes", false, func(l *lab) {
			root, err := strconv.ParseInt(l.r.PathValue("discussion"), 16, 64)
			on := l.find(pull)
			if on == nil {
				return
			}
			if err != nil || !slices.ContainsFunc(on.comments, func(c *comment) bool { return c.root == root }) {
				l.fail(http.StatusNotFound, "404 Discussion Not Found")
				return
			}
			l.addNote(pull, root)
		})
	}
	g.on("POST", "/merge_requests/{iid}/discussions", false, (*lab).addDiscussion)
}

// find returns the issue or merge request of the path, nil if it was answered that it does not exist.
func (l *lab) find(pull bool) *subject {
	n, _ := strconv.ParseInt(l.r.PathValue("iid"), 10, 64)
	if found := l.repo.find(forge.Subject{Number: n, PullRequest: pull}); found != nil {
		return found
	}
	l.fail(http.StatusNotFound, "404 Not found")
	return nil
}

// labelChange is a change of labels, separated by commas.
type labelChange struct {
	AddLabels    string `json:"add_labels"`
	RemoveLabels string `json:"remove_labels"`
}

func (l *lab) relabel(on *subject, in labelChange) {
	split := func(text string) []string {
		return slices.DeleteFunc(strings.Split(text, ","), func(s string) bool { return s == "" })
	}
	add, remove := split(in.AddLabels), split(in.RemoveLabels)
	if len(add)+len(remove) == 0 {
		return
	}
	l.repo.addLabels(on, add)
	on.labels = slices.DeleteFunc(on.labels, func(label string) bool { return slices.Contains(remove, label) })
	l.say(on, &comment{author: l.user.Login, body: "changed labels", system: true})
}

func (l *lab) shownIssue(i *subject) object {
	return object{
		"iid": i.Number, "title": i.title, "description": i.body, "state": map[bool]string{false: "opened", true: "closed"}[i.closed],
		"author": l.account(i.author), "labels": i.labels, "created_at": i.created, "updated_at": i.updated,
		"web_url": l.URL() + "/" + l.repo.Path + "/-/issues/" + strconv.FormatInt(i.Number, 10),
	}
}

func (l *lab) listIssues() {
	q := l.r.URL.Query()
	since, _ := time.Parse(time.RFC3339, q.Get("updated_after"))
	var found []*subject
	for _, one := range l.repo.subjects {
		label := q.Get("labels")
		if !one.PullRequest && !one.closed && !one.updated.Before(since) && (label == "" || slices.Contains(one.labels, label)) {
			found = append(found, one)
		}
	}
	slices.SortStableFunc(found, func(a, b *subject) int { return a.updated.Compare(b.updated) })
	if q.Get("order_by") != "updated_at" || q.Get("sort") != "asc" {
		slices.Reverse(found)
	}
	labList(l, found, l.shownIssue)
}

func (l *lab) discussions(on *subject) {
	var roots []int64
	for _, c := range on.comments {
		if !slices.Contains(roots, c.root) {
			roots = append(roots, c.root)
		}
	}
	labList(l, roots, func(root int64) object {
		var notes []object
		for _, c := range on.comments {
			if c.root == root {
				notes = append(notes, l.shownNote(c))
			}
		}
		return object{"id": discussionID(root), "individual_note": len(notes) == 1, "notes": notes}
	})
}

func discussionID(root int64) string {
	text := strconv.FormatInt(root, 16)
	return strings.Repeat("0", 15-len(text)) + text
}

func (l *lab) shownNote(c *comment) object {
	out := object{"id": c.id, "body": c.body, "author": l.account(c.author), "system": c.system, "created_at": c.created, "updated_at": c.updated, "type": nil}
	if c.path != "" {
		out["type"] = "DiffNote"
		out["position"] = object{"new_path": c.path, "old_path": c.path, "new_line": c.line, "head_sha": c.commit, "position_type": "text"}
	}
	return out
}

// quickAction matches a command in a text, which GitLab runs and removes.
var quickAction = regexp.MustCompile(`(?m)^\s*/close\s*$`)

func (l *lab) addNote(pull bool, root int64) {
	var in struct{ Body string }
	on := l.find(pull)
	if on == nil || !l.read(&in) {
		return
	}
	if strings.TrimSpace(in.Body) == "" {
		l.send(http.StatusBadRequest, object{"error": "body is empty"})
		return
	}
	if quickAction.MatchString(in.Body) {
		on.closed = true
		in.Body = quickAction.ReplaceAllString(in.Body, "")
	}
	made := &comment{author: l.user.Login, body: in.Body, root: root}
	for _, c := range on.comments {
		if c.id == root {
			made.path, made.line, made.commit = c.path, c.line, c.commit
		}
	}
	l.send(http.StatusCreated, l.shownNote(l.say(on, made)))
}

// addDiscussion adds a comment on a line.
func (l *lab) addDiscussion() {
	var in struct {
		Body     string
		Position struct {
			Base    string `json:"base_sha"`
			Head    string `json:"head_sha"`
			Type    string `json:"position_type"`
			NewPath string `json:"new_path"`
			NewLine int    `json:"new_line"`
			OldLine int    `json:"old_line"`
		}
	}
	p := l.find(true)
	if p == nil || !l.read(&in) {
		return
	}
	files, err := changedFiles(l.repo.dir, "refs/heads/"+p.base, in.Position.Head)
	lines := forge.Lines{}
	for _, f := range files {
		lines.Add(f.path, f.patch)
	}
	at := in.Position
	if err != nil || at.Type != "text" || !lines.Has(at.NewPath, at.NewLine) || lines[at.NewPath][at.NewLine] != at.OldLine {
		l.fail(http.StatusBadRequest, "400 Bad request - Note {:line_code=>[\"can't be blank\", \"must be a valid line code\"]}")
		return
	}
	made := l.say(p, &comment{author: l.user.Login, body: in.Body, path: at.NewPath, line: at.NewLine, commit: at.Head})
	l.send(http.StatusCreated, object{"id": discussionID(made.root), "notes": []object{l.shownNote(made)}})
}
