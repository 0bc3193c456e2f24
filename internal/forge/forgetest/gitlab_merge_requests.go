package forgetest

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"

	"github.com/rocketgpt/orchestrator/internal/forge"
)

// draftTitle matches the titles of drafts.
var draftTitle = regexp.MustCompile(`(?i)^(draft:|\[draft\]|\(draft\))`)

func (g *GitLab) mergeRequestRoutes() {
	g.on("GET", "/merge_requests", false, func(l *lab) {
		q := l.r.URL.Query()
		var found []*subject
		for _, p := range slices.Backward(l.repo.subjects) {
			if p.PullRequest && !p.closed && p.head == q.Get("source_branch") && p.base == q.Get("target_branch") {
				found = append(found, p)
			}
		}
		labList(l, found, l.shownMergeRequest)
	})
	g.on("POST", "/merge_requests", true, (*lab).createMergeRequest)
	g.on("GET", "/merge_requests/{iid}", false, func(l *lab) {
		p := l.find(true)
		if p == nil {
			return
		}
		l.send(http.StatusOK, l.shownMergeRequest(p))
		p.rebasing = max(p.rebasing-1, 0)
	})
	g.on("PUT", "/merge_requests/{iid}", true, (*lab).editMergeRequest)
	g.on("PUT", "/merge_requests/{iid}/merge", true, (*lab).mergeMergeRequest)
	g.on("PUT", "/merge_requests/{iid}/rebase", true, func(l *lab) {
		p := l.find(true)
		if p == nil {
			return
		}
		l.repo.sync(p)
		if l.during != nil {
			l.during()
			l.during = nil
			l.repo.sync(p)
		}
		p.rebasing, p.mergeError = 2, ""
		if err := rebaseBranch(l.repo.dir, p.base, p.head); err != nil {
			p.mergeError = "Rebase failed: Rebase locally, resolve all conflicts, then push the branch."
		}
		l.send(http.StatusAccepted, object{"rebase_in_progress": true})
	})
	g.versionRoutes()
}

func (g *GitLab) versionRoutes() {
	g.on("GET", "/merge_requests/{iid}/approvals", false, func(l *lab) {
		p := l.find(true)
		if p == nil {
			return
		}
		by := []object{}
		for _, c := range p.comments {
			if c.approves {
				by = append(by, object{"user": object{"username": c.author}, "approved_at": c.created})
			}
		}
		l.send(http.StatusOK, object{"iid": p.Number, "approved": len(by) > 0, "approved_by": by})
	})
	g.on("GET", "/merge_requests/{iid}/versions", false, func(l *lab) {
		if p := l.find(true); p != nil {
			l.repo.sync(p)
			list := slices.Clone(p.versions)
			slices.Reverse(list)
			labList(l, list, func(v version) object { return l.shownVersion(p, v) })
		}
	})
	g.on("GET", "/merge_requests/{iid}/versions/{version}", false, func(l *lab) {
		p := l.find(true)
		if p == nil {
			return
		}
		for _, v := range p.versions {
			if strconv.FormatInt(v.id, 10) == l.r.PathValue("version") {
				out := l.shownVersion(p, v)
				files, _ := changedFiles(l.repo.dir, v.base, v.head)
				diffs := []object{}
				for _, f := range files {
					diffs = append(diffs, object{"new_path": f.path, "old_path": f.path, "diff": f.patch})
				}
				out["diffs"] = diffs
				l.send(http.StatusOK, out)
				return
			}
		}
		l.fail(http.StatusNotFound, "404 Not found")
	})
}

// rebaseBranch rebases a branch onto another.
func rebaseBranch(dir, base, branch string) error {
	onto, err := revision(dir, "refs/heads/"+base)
	if err != nil {
		return err
	}
	head, err := revision(dir, "refs/heads/"+branch)
	if err != nil {
		return err
	}
	made, err := replayed(dir, onto, head)
	if err != nil {
		return err
	}
	_, err = git(dir, nil, "update-ref", "refs/heads/"+branch, made, head)
	return err
}

// sync adds a version if the branch of a merge request has moved, or its target is another branch.
func (r *Repository) sync(p *subject) {
	head := r.headOf(p)
	last := version{}
	if len(p.versions) > 0 {
		last = p.versions[len(p.versions)-1]
	}
	if head != "" && (last.head != head || last.target != p.base) {
		base, err := git(r.dir, nil, "merge-base", "refs/heads/"+p.base, head)
		if err == nil {
			p.versions = append(p.versions, version{id: r.server.id(), head: head, target: p.base, base: base, created: r.server.tick()})
		}
	}
}

func (l *lab) shownVersion(p *subject, v version) object {
	return object{"id": v.id, "created_at": v.created, "head_commit_sha": v.head, "base_commit_sha": v.base, "start_commit_sha": l.repo.Head(p.base)}
}

func (l *lab) shownMergeRequest(p *subject) object {
	l.repo.sync(p)
	head := l.repo.headOf(p)
	state, merge := "opened", "mergeable"
	switch {
	case p.merged:
		state, merge = "merged", "not_open"
	case p.closed:
		state, merge = "closed", "not_open"
	case !mergeable(l.repo.dir, p.base, head):
		merge = "conflict"
	case draftTitle.MatchString(p.title):
		merge = "draft_status"
	}
	reviewers := []object{}
	for _, login := range p.reviewers {
		reviewers = append(reviewers, l.account(login))
	}
	behind := 0
	if count, err := git(l.repo.dir, nil, "rev-list", "--count", head+"..refs/heads/"+p.base); err == nil {
		behind, _ = strconv.Atoi(count)
	}
	out := object{
		"iid": p.Number, "title": p.title, "description": p.body, "state": state, "draft": draftTitle.MatchString(p.title),
		"source_branch": p.head, "target_branch": p.base, "source_project_id": l.repo.ID, "target_project_id": l.repo.ID, "sha": head,
		"author": l.account(p.author), "labels": p.labels, "reviewers": reviewers, "created_at": p.created, "updated_at": p.updated,
		"detailed_merge_status": merge, "has_conflicts": merge == "conflict", "merge_commit_sha": nil, "squash_commit_sha": nil,
		"rebase_in_progress": p.rebasing > 0, "merge_error": nil, "diverged_commits_count": behind,
		"web_url": l.URL() + "/" + l.repo.Path + "/-/merge_requests/" + strconv.FormatInt(p.Number, 10),
	}
	if p.merged {
		out["merge_commit_sha"] = p.mergeCommit
	}
	if p.mergeError != "" {
		out["merge_error"] = p.mergeError
	}
	return out
}

func (l *lab) createMergeRequest() {
	var in struct {
		Title, Description string
		SourceBranch       string `json:"source_branch"`
		TargetBranch       string `json:"target_branch"`
	}
	if !l.read(&in) {
		return
	}
	if l.repo.Head(in.SourceBranch) == "" || l.repo.Head(in.TargetBranch) == "" {
		l.fail(http.StatusBadRequest, object{"source_branch": []string{"does not exist"}})
		return
	}
	for _, p := range l.repo.subjects {
		if p.PullRequest && !p.closed && p.head == in.SourceBranch && p.base == in.TargetBranch {
			l.fail(http.StatusConflict, []string{"Another open merge request already exists for this source branch: !" + strconv.FormatInt(p.Number, 10)})
			return
		}
	}
	made := l.repo.open(&subject{
		Subject: forge.Subject{PullRequest: true}, title: in.Title, body: in.Description, head: in.SourceBranch, base: in.TargetBranch, author: l.user.Login,
	})
	l.send(http.StatusCreated, l.shownMergeRequest(made))
}

func (l *lab) editMergeRequest() {
	var in struct {
		labelChange
		Title, Description *string
		StateEvent         string   `json:"state_event"`
		ReviewerIDs        *[]int64 `json:"reviewer_ids"`
	}
	p := l.find(true)
	if p == nil || !l.read(&in) {
		return
	}
	if in.Title != nil {
		p.title = *in.Title
	}
	if in.Description != nil {
		p.body = *in.Description
	}
	switch in.StateEvent {
	case "close":
		p.closed = true
	case "reopen":
		p.closed = p.merged
	}
	if in.ReviewerIDs != nil {
		p.reviewers = nil
		for _, user := range l.users {
			if slices.Contains(*in.ReviewerIDs, user.ID) {
				p.reviewers = append(p.reviewers, user.Login)
			}
		}
	}
	p.updated = l.tick()
	l.relabel(p, in.labelChange)
	l.send(http.StatusOK, l.shownMergeRequest(p))
}

func (l *lab) mergeMergeRequest() {
	var in struct {
		SHA     string `json:"sha"`
		Squash  bool   `json:"squash"`
		Message string `json:"merge_commit_message"`
	}
	p := l.find(true)
	if p == nil || !l.read(&in) {
		return
	}
	head := l.repo.headOf(p)
	switch {
	case p.closed || draftTitle.MatchString(p.title):
		l.fail(http.StatusMethodNotAllowed, "405 Method Not Allowed")
		return
	case in.SHA != "" && in.SHA != head:
		l.fail(http.StatusConflict, "SHA does not match HEAD of source branch: "+head)
		return
	case len(l.repo.required) > 0 && slices.ContainsFunc(l.repo.latest(head), func(s *status) bool { return s.state != forge.CheckSuccess }):
		l.fail(http.StatusMethodNotAllowed, "405 Method Not Allowed")
		return
	}
	method := "merge"
	if in.Squash {
		method = "squash"
	}
	if in.Message == "" {
		in.Message = "Merge branch '" + p.head + "' into '" + p.base + "'"
	}
	made, err := mergeCommits(l.repo.dir, p.base, head, method, in.Message)
	if err != nil {
		l.fail(http.StatusUnprocessableEntity, "Branch cannot be merged")
		return
	}
	p.merged, p.closed, p.mergeCommit, p.mergedHead, p.updated = true, true, made, head, l.tick()
	l.send(http.StatusOK, l.shownMergeRequest(p))
}
