package forgetest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/forge"
)

func (g *GitHub) issueRoutes() {
	g.on("GET", "/issues", false, (*hub).listIssues)
	g.on("GET", "/issues/{number}", false, func(h *hub) {
		if i := h.issue(); i != nil {
			h.send(http.StatusOK, h.shownIssue(i))
		}
	})
	g.on("POST", "/issues/{number}/labels", true, func(h *hub) {
		var names []string // GitHub also accepts them as a field of an object
		if i := h.issue(); i != nil && h.read(&names) {
			h.repo.addLabels(i, names)
			h.send(http.StatusOK, shownLabels(i.labels))
		}
	})
	g.on("DELETE", "/issues/{number}/labels/{label}", true, func(h *hub) {
		i := h.issue()
		if i == nil {
			return
		}
		at := slices.Index(i.labels, h.PathValue("label"))
		if at < 0 {
			h.fail(http.StatusNotFound, "Label does not exist")
			return
		}
		i.labels, i.updated = slices.Delete(i.labels, at, at+1), h.tick()
		h.send(http.StatusOK, shownLabels(i.labels))
	})
	g.on("GET", "/issues/{number}/comments", false, func(h *hub) {
		i := h.issue()
		if i == nil {
			return
		}
		list(h, h.since(i.comments, func(c *comment) bool { return !c.review && c.path == "" }), h.shownComment)
	})
	g.on("POST", "/issues/{number}/comments", false, func(h *hub) {
		var in struct{ Body string }
		i := h.issue()
		if i == nil || !h.read(&in) {
			return
		}
		if strings.TrimSpace(in.Body) == "" {
			h.fail(http.StatusUnprocessableEntity, "Validation Failed", object{"resource": "IssueComment", "field": "data", "code": "unprocessable"})
			return
		}
		h.send(http.StatusCreated, h.shownComment(h.say(i, &comment{author: h.user.Login, body: in.Body})))
	})
	g.reviewRoutes()
}

func (g *GitHub) reviewRoutes() {
	g.on("GET", "/pulls/{number}/reviews", false, func(h *hub) {
		if p := h.pull(); p != nil {
			list(h, slices.DeleteFunc(slices.Clone(p.comments), func(c *comment) bool { return !c.review }), func(c *comment) object {
				out := h.shownComment(c)
				out["state"], out["submitted_at"], out["commit_id"] = "COMMENTED", c.created, c.commit
				if c.approves {
					out["state"] = "APPROVED"
				}
				return out
			})
		}
	})
	g.on("POST", "/pulls/{number}/reviews", true, (*hub).addReview)
	g.on("GET", "/pulls/{number}/comments", false, func(h *hub) {
		if p := h.pull(); p != nil {
			list(h, h.since(p.comments, func(c *comment) bool { return c.path != "" }), h.shownComment)
		}
	})
	g.on("POST", "/pulls/{number}/comments", true, func(h *hub) {
		var in struct {
			Body      string
			InReplyTo int64 `json:"in_reply_to"`
		}
		p := h.pull()
		if p == nil || !h.read(&in) {
			return
		}
		at := slices.IndexFunc(p.comments, func(c *comment) bool { return c.id == in.InReplyTo && c.path != "" && c.root == c.id })
		if at < 0 {
			h.invalid("PullRequestReviewComment", "in_reply_to is not a top-level comment")
			return
		}
		root := p.comments[at]
		h.send(http.StatusCreated, h.shownComment(h.say(p, &comment{author: h.user.Login, body: in.Body, path: root.path, line: root.line, commit: root.commit, root: root.id})))
	})
}

// issue returns the issue or pull request of the path: on GitHub, a pull request is an issue too.
func (h *hub) issue() *subject {
	n, _ := strconv.ParseInt(h.PathValue("number"), 10, 64)
	for _, one := range h.repo.subjects {
		if one.Number == n {
			return one
		}
	}
	h.fail(http.StatusNotFound, "Not Found")
	return nil
}

func (h *hub) shownIssue(i *subject) object {
	state, kind := "open", "issues"
	if i.closed {
		state = "closed"
	}
	if i.PullRequest {
		kind = "pull"
	}
	out := object{
		"number": i.Number, "html_url": h.URL() + "/" + h.repo.Path + "/" + kind + "/" + strconv.FormatInt(i.Number, 10),
		"title": i.title, "body": i.body, "state": state, "user": h.account(i.author), "labels": shownLabels(i.labels),
		"created_at": i.created, "updated_at": i.updated,
	}
	if i.PullRequest {
		out["pull_request"] = object{"url": h.URL() + "/api/v3/repos/" + h.repo.Path + "/pulls/" + strconv.FormatInt(i.Number, 10)}
	}
	return out
}

func (h *hub) listIssues() {
	q := h.Request.URL.Query()
	since, _ := time.Parse(time.RFC3339, q.Get("since"))
	var found []*subject
	for _, one := range h.repo.subjects {
		matches := !one.closed && !one.updated.Before(since)
		for label := range strings.SplitSeq(q.Get("labels"), ",") {
			matches = matches && (label == "" || slices.ContainsFunc(one.labels, func(l string) bool { return strings.EqualFold(l, label) }))
		}
		if matches {
			found = append(found, one)
		}
	}
	slices.SortStableFunc(found, func(a, b *subject) int { return a.updated.Compare(b.updated) })
	if q.Get("sort") != "updated" || q.Get("direction") != "asc" {
		slices.Reverse(found)
	}
	list(h, found, h.shownIssue)
}

// since returns the comments of a kind that were made or edited since the time of the request.
func (h *hub) since(comments []*comment, kind func(*comment) bool) []*comment {
	since, _ := time.Parse(time.RFC3339, h.Request.URL.Query().Get("since"))
	var out []*comment
	for _, c := range comments {
		if kind(c) && !c.updated.Before(since) {
			out = append(out, c)
		}
	}
	return out
}

func (h *hub) shownComment(c *comment) object {
	out := object{
		"id": c.id, "body": c.body, "user": h.account(c.author), "created_at": c.created, "updated_at": c.updated,
		"html_url": h.URL() + "/" + h.repo.Path + "#comment-" + strconv.FormatInt(c.id, 10),
	}
	if c.path != "" {
		out["path"], out["line"], out["original_line"], out["side"] = c.path, c.line, c.line, "RIGHT"
		out["commit_id"], out["original_commit_id"] = c.commit, c.commit
		if c.root != c.id {
			out["in_reply_to_id"] = c.root
		}
	}
	return out
}

func (h *hub) addReview() {
	var in struct {
		CommitID string `json:"commit_id"`
		Body     string
		Event    string
		Comments []struct {
			Path, Body, Side string
			Line             int
		}
	}
	p := h.pull()
	if p == nil || !h.read(&in) {
		return
	}
	if in.Body == "" && len(in.Comments) == 0 || in.Event != "COMMENT" {
		h.fail(http.StatusUnprocessableEntity, "Unprocessable Entity", object{"message": "Body can't be blank"})
		return
	}
	files, err := changedFiles(h.repo.dir, "refs/heads/"+p.base, in.CommitID)
	if err != nil {
		h.fail(http.StatusUnprocessableEntity, "Unprocessable Entity", object{"message": "commit_id is not part of the pull request"})
		return
	}
	lines := forge.Lines{}
	for _, f := range files {
		lines.Add(f.path, f.patch)
	}
	for _, c := range in.Comments {
		if !lines.Has(c.Path, c.Line) || c.Side != "RIGHT" {
			h.fail(http.StatusUnprocessableEntity, "Unprocessable Entity", object{"message": "Line could not be resolved"})
			return
		}
	}
	made := h.say(p, &comment{author: h.user.Login, body: in.Body, review: true, commit: in.CommitID})
	for _, c := range in.Comments {
		h.say(p, &comment{author: h.user.Login, body: c.Body, path: c.Path, line: c.Line, commit: in.CommitID})
	}
	out := h.shownComment(made)
	out["state"] = "COMMENTED"
	h.send(http.StatusOK, out)
}
