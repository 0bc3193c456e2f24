package forgetest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/forge"
)

func (g *GitHub) pullRoutes() {
	g.on("GET", "/pulls", false, (*hub).listPulls)
	g.on("POST", "/pulls", true, (*hub).createPull)
	g.on("GET", "/pulls/{number}", false, func(h *hub) {
		if p := h.pull(); p != nil {
			h.send(http.StatusOK, h.shownPull(p, true))
		}
	})
	g.on("PATCH", "/pulls/{number}", true, (*hub).editPull)
	g.on("PUT", "/pulls/{number}/merge", true, (*hub).mergePull)
	g.on("GET", "/pulls/{number}/files", false, func(h *hub) {
		p := h.pull()
		if p == nil {
			return
		}
		files, err := changedFiles(h.repo.dir, "refs/heads/"+p.base, h.repo.headOf(p))
		if err != nil {
			h.fail(http.StatusInternalServerError, "Server Error")
			return
		}
		list(h, files, func(f changedFile) object { return object{"filename": f.path, "patch": f.patch, "status": "modified"} })
	})
	g.on("POST", "/pulls/{number}/requested_reviewers", true, (*hub).requestReviews)
	g.on("GET", "/commits/{sha}/pulls", false, func(h *hub) {
		var found []*subject
		for _, one := range h.repo.subjects {
			if one.PullRequest && h.repo.headOf(one) == h.PathValue("sha") {
				found = append(found, one)
			}
		}
		list(h, found, func(p *subject) object { return h.shownPull(p, false) })
	})
	g.on("DELETE", "/git/refs/heads/{branch...}", true, func(h *hub) {
		branch := h.PathValue("branch")
		if h.repo.Head(branch) == "" {
			h.fail(http.StatusUnprocessableEntity, "Reference does not exist")
			return
		}
		if _, err := git(h.repo.dir, nil, "update-ref", "-d", "refs/heads/"+branch); err != nil {
			h.fail(http.StatusInternalServerError, "Server Error")
			return
		}
		h.WriteHeader(http.StatusNoContent)
	})
	g.on("GET", "/git/ref/heads/{branch...}", false, func(h *hub) {
		commit := h.repo.Head(h.PathValue("branch"))
		if commit == "" {
			h.fail(http.StatusNotFound, "Not Found")
			return
		}
		h.send(http.StatusOK, object{"ref": "refs/heads/" + h.PathValue("branch"), "object": object{"sha": commit, "type": "commit"}})
	})
	g.mux.HandleFunc("POST /api/graphql", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if h := g.begin("POST /api/graphql", w, r); h != nil {
			h.graphQL()
		}
	})
}

// pull returns the pull request of the path, nil if it was answered that it does not exist.
func (h *hub) pull() *subject {
	n, _ := strconv.ParseInt(h.PathValue("number"), 10, 64)
	if found := h.repo.find(forge.OnPullRequest(n)); found != nil {
		return found
	}
	h.fail(http.StatusNotFound, "Not Found")
	return nil
}

func nodeID(r *Repository, p *subject) string {
	return "PR_" + strconv.FormatInt(r.ID, 10) + "_" + strconv.FormatInt(p.Number, 10)
}

// shownPull returns a pull request as GitHub shows it, in a list or whole.
func (h *hub) shownPull(p *subject, whole bool) object {
	repository := h.repository()
	state := "open"
	if p.closed {
		state = "closed"
	}
	out := object{
		"number": p.Number, "node_id": nodeID(h.repo, p), "html_url": h.URL() + "/" + h.repo.Path + "/pull/" + strconv.FormatInt(p.Number, 10),
		"title": p.title, "body": p.body, "state": state, "draft": p.draft, "user": h.account(p.author), "labels": shownLabels(p.labels),
		"head":       object{"ref": p.head, "sha": h.repo.headOf(p), "repo": repository},
		"base":       object{"ref": p.base, "sha": h.repo.Head(p.base), "repo": repository},
		"created_at": p.created, "updated_at": p.updated, "merged_at": nil, "merge_commit_sha": nil,
	}
	if p.merged {
		out["merged_at"], out["merge_commit_sha"] = p.updated, p.mergeCommit
	}
	if whole {
		out["merged"] = p.merged
		out["mergeable"] = nil
		if !p.closed {
			out["mergeable"] = mergeable(h.repo.dir, p.base, h.repo.headOf(p))
		}
	}
	return out
}

func shownLabels(labels []string) []object {
	out := []object{}
	for _, one := range labels {
		out = append(out, object{"name": one, "color": "ededed"})
	}
	return out
}

func (h *hub) listPulls() {
	q := h.Request.URL.Query()
	var found []*subject
	for _, p := range slices.Backward(h.repo.subjects) {
		_, head, ok := strings.Cut(q.Get("head"), ":")
		if p.PullRequest && (cmp.Or(q.Get("state"), "open") == "open") == !p.closed && (!ok || head == p.head) && (q.Get("base") == "" || q.Get("base") == p.base) {
			found = append(found, p)
		}
	}
	list(h, found, func(p *subject) object { return h.shownPull(p, false) })
}

func (h *hub) createPull() {
	var in struct {
		Title, Body, Head, Base string
		Draft                   bool
	}
	if !h.read(&in) {
		return
	}
	head, base := h.repo.Head(in.Head), h.repo.Head(in.Base)
	switch {
	case head == "":
		h.fail(http.StatusUnprocessableEntity, "Validation Failed", object{"resource": "PullRequest", "field": "head", "code": "invalid"})
		return
	case base == "":
		h.fail(http.StatusUnprocessableEntity, "Validation Failed", object{"resource": "PullRequest", "field": "base", "code": "invalid"})
		return
	case head == base:
		h.invalid("PullRequest", "No commits between "+in.Base+" and "+in.Head)
		return
	case in.Title == "":
		h.fail(http.StatusUnprocessableEntity, "Validation Failed", object{"resource": "Issue", "field": "title", "code": "missing_field"})
		return
	}
	for _, p := range h.repo.subjects {
		if p.PullRequest && !p.closed && p.head == in.Head && p.base == in.Base {
			owner, _, _ := strings.Cut(h.repo.Path, "/")
			h.invalid("PullRequest", "A pull request already exists for "+owner+":"+in.Head+".")
			return
		}
	}
	made := h.repo.open(&subject{Subject: forge.Subject{PullRequest: true}, title: in.Title, body: in.Body, head: in.Head, base: in.Base, draft: in.Draft, author: h.user.Login})
	h.send(http.StatusCreated, h.shownPull(made, true))
}

func (h *hub) editPull() {
	var in struct{ Title, Body, State *string }
	p := h.pull()
	if p == nil || !h.read(&in) {
		return
	}
	if in.State != nil && *in.State == "open" && p.merged {
		h.invalid("PullRequest", "state cannot be changed. The pull request cannot be reopened.")
		return
	}
	if in.Title != nil {
		p.title = *in.Title
	}
	if in.Body != nil {
		p.body = *in.Body
	}
	if in.State != nil {
		p.closed = *in.State == "closed"
	}
	p.updated = h.tick()
	h.send(http.StatusOK, h.shownPull(p, true))
}

func (h *hub) mergePull() {
	var in struct {
		SHA     string `json:"sha"`
		Method  string `json:"merge_method"`
		Title   string `json:"commit_title"`
		Message string `json:"commit_message"`
	}
	p := h.pull()
	if p == nil || !h.read(&in) {
		return
	}
	head := h.repo.headOf(p)
	switch {
	case p.closed:
		h.fail(http.StatusMethodNotAllowed, "Pull Request is not mergeable")
		return
	case p.draft:
		h.fail(http.StatusMethodNotAllowed, "Pull Request is still a draft")
		return
	case in.SHA != "" && in.SHA != head:
		h.fail(http.StatusConflict, "Head branch was modified. Review and try the merge again.")
		return
	}
	for _, name := range h.repo.required {
		if !slices.ContainsFunc(h.repo.latest(head), func(s *status) bool { return s.context == name && s.state == forge.CheckSuccess }) {
			h.fail(http.StatusMethodNotAllowed, "Required status check \""+name+"\" is expected.")
			return
		}
	}
	title := cmp.Or(in.Title, "Merge pull request #"+strconv.FormatInt(p.Number, 10)+" from "+h.repo.Path)
	made, err := mergeCommits(h.repo.dir, p.base, head, in.Method, strings.TrimSpace(title+"\n\n"+in.Message))
	if err != nil {
		h.fail(http.StatusMethodNotAllowed, "Pull Request is not mergeable")
		return
	}
	p.merged, p.closed, p.mergeCommit, p.mergedHead, p.updated = true, true, made, head, h.tick()
	h.send(http.StatusOK, object{"merged": true, "sha": made, "message": "Pull Request successfully merged"})
}

func (h *hub) requestReviews() {
	var in struct {
		Reviewers []string `json:"reviewers"`
	}
	p := h.pull()
	if p == nil || !h.read(&in) {
		return
	}
	for _, login := range in.Reviewers {
		if login == p.author {
			h.fail(http.StatusUnprocessableEntity, "Review cannot be requested from pull request author.")
			return
		}
		if h.permission(login) < forge.PermissionRead {
			h.fail(http.StatusUnprocessableEntity, "Reviews may only be requested from collaborators. One or more of the users or teams you specified is not a collaborator of the "+h.repo.Path+" repository.")
			return
		}
		if !slices.Contains(p.reviewers, login) {
			p.reviewers = append(p.reviewers, login)
		}
	}
	h.send(http.StatusCreated, h.shownPull(p, true))
}

// graphQL runs the two mutations of drafts.
func (h *hub) graphQL() {
	var in struct {
		Query     string
		Variables struct{ ID string }
	}
	if json.NewDecoder(h.Body).Decode(&in) != nil {
		h.fail(http.StatusBadRequest, "Problems parsing JSON")
		return
	}
	failure := func(kind, message string) {
		h.send(http.StatusOK, object{"data": nil, "errors": []object{{"type": kind, "message": message, "path": []string{"x"}}}})
	}
	for _, r := range h.repos {
		for _, p := range r.subjects {
			if !p.PullRequest || nodeID(r, p) != in.Variables.ID {
				continue
			}
			if p.closed {
				failure("UNPROCESSABLE", "Pull request is closed")
				return
			}
			p.draft, p.updated = strings.Contains(in.Query, "convertPullRequestToDraft"), h.tick()
			h.send(http.StatusOK, object{"data": object{"x": object{"pullRequest": object{"isDraft": p.draft}}}})
			return
		}
	}
	failure("NOT_FOUND", "Could not resolve to a node with the global id of '"+in.Variables.ID+"'.")
}
