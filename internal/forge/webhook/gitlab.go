package webhook

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/forge"
)

// gitLabPayload is the payload of GitLab's events.
type gitLabPayload struct {
	Kind    string `json:"object_kind"`
	Project struct {
		Path string `json:"path_with_namespace"`
	} `json:"project"`
	User         gitLabUser `json:"user"`
	UserUsername string     `json:"user_username"` // of a push

	Ref   string `json:"ref"`
	After string `json:"after"`

	Labels  []gitLabLabel `json:"labels"`
	Changes struct {
		Labels *struct {
			Previous []gitLabLabel `json:"previous"`
			Current  []gitLabLabel `json:"current"`
		} `json:"labels"`
	} `json:"changes"`
	Object       gitLabObject  `json:"object_attributes"`
	MergeRequest gitLabSubject `json:"merge_request"` // of a comment
	Issue        gitLabSubject `json:"issue"`

	// Of a job.
	BuildID     int64  `json:"build_id"`
	BuildName   string `json:"build_name"`
	BuildStatus string `json:"build_status"`
	SHA         string `json:"sha"`
}

type gitLabUser struct {
	Username string `json:"username"`
}

type gitLabLabel struct {
	Title string `json:"title"`
}

type gitLabSubject struct {
	IID        int64         `json:"iid"`
	Labels     []gitLabLabel `json:"labels"`
	LastCommit struct {
		ID string `json:"id"`
	} `json:"last_commit"`
}

type gitLabObject struct {
	ID         int64  `json:"id"`
	IID        int64  `json:"iid"`
	Action     string `json:"action"`
	OldRev     string `json:"oldrev"` // the merge request has other commits
	URL        string `json:"url"`
	LastCommit struct {
		ID string `json:"id"`
	} `json:"last_commit"`

	// Of a comment.
	Note       string `json:"note"`
	On         string `json:"noteable_type"` //nolint:misspell // GitLab's word
	System     bool   `json:"system"`
	Discussion string `json:"discussion_id"`
	CreatedAt  string `json:"created_at"`
	UpdatedAt  string `json:"updated_at"`
	Position   struct {
		NewPath string `json:"new_path"`
		NewLine int    `json:"new_line"`
		OldPath string `json:"old_path"`
		OldLine int    `json:"old_line"`
		HeadSHA string `json:"head_sha"`
	} `json:"position"`
}

func titles(labels []gitLabLabel) []string {
	var all []string
	for _, l := range labels {
		all = append(all, l.Title)
	}
	return all
}

// parseGitLab reads a payload of GitLab.
func parseGitLab(_ http.Header, body []byte) (Event, error) {
	e, p := Event{Kind: Ignored}, &gitLabPayload{}
	// Other events may have fields of the same name and another type.
	var first struct {
		Kind string `json:"object_kind"`
	}
	if err := decode(body, &first); err != nil {
		return e, err
	}
	switch first.Kind {
	case "push", "merge_request", "issue", "note", "build":
	default:
		return e, nil
	}
	if err := decode(body, p); err != nil {
		return e, err
	}
	e.Repo, e.Sender = p.Project.Path, cmp.Or(p.User.Username, p.UserUsername)
	switch p.Kind {
	case "push":
		return e.pushed(p.Ref, p.After), nil
	case "merge_request":
		e.Subject, e.Labels, e.Commit = forge.OnPullRequest(p.Object.IID), titles(p.Labels), p.Object.LastCommit.ID
		return e.changed(p), nil
	case "issue":
		e.Subject, e.Labels = forge.OnIssue(p.Object.IID), titles(p.Labels)
		return e.changed(p), nil
	case "note":
		return e.noted(p), nil
	}
	e.Kind, e.Commit = Check, p.SHA
	e.Check = forge.Check{ID: strconv.FormatInt(p.BuildID, 10), Name: p.BuildName, State: jobState(p.BuildStatus)}
	return e, nil
}

// changed completes the event of an issue or merge request.
func (e Event) changed(p *gitLabPayload) Event {
	switch p.Object.Action {
	case "open":
		e.Kind = Opened
	case "close":
		e.Kind = Closed
	case "merge":
		e.Kind = Merged
	case "reopen":
		e.Kind = Reopened
	case "approved", "unapproved":
		e.Kind, e.Comment = Reviewed, forge.Comment{Author: e.Sender}
	case "update":
		labels := p.Changes.Labels
		switch {
		case p.Object.OldRev != "":
			e.Kind = Updated
		case labels != nil:
			e.Kind = Labelled
			before := titles(labels.Previous)
			for _, now := range titles(labels.Current) {
				if !slices.Contains(before, now) {
					e.Label = now
				}
			}
		}
	}
	return e
}

// noted completes the event of a comment.
func (e Event) noted(p *gitLabPayload) Event {
	note := p.Object
	switch {
	case note.System || note.Action != "" && note.Action != "create":
		return e
	case note.On == "MergeRequest":
		e.Subject, e.Labels, e.Commit = forge.OnPullRequest(p.MergeRequest.IID), titles(p.MergeRequest.Labels), p.MergeRequest.LastCommit.ID
	case note.On == "Issue":
		e.Subject, e.Labels = forge.OnIssue(p.Issue.IID), titles(p.Issue.Labels)
	default: // on a commit or snippet
		return e
	}
	e.Kind = Comment
	place := note.Position
	e.Comment = forge.Comment{
		ID: strconv.FormatInt(note.ID, 10), Thread: note.Discussion, Author: e.Sender, Body: note.Note, URL: note.URL,
		Path: cmp.Or(place.NewPath, place.OldPath), Line: cmp.Or(place.NewLine, place.OldLine), Commit: place.HeadSHA,
		CreatedAt: gitLabTime(note.CreatedAt), UpdatedAt: gitLabTime(note.UpdatedAt),
	}
	return e
}

// gitLabTime reads a time in one of the forms that GitLab has used.
func gitLabTime(text string) time.Time {
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05 UTC", "2006-01-02 15:04:05 -0700"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	return time.Time{}
}

// jobState returns the state of a job. One that waits for a person is pending.
func jobState(status string) forge.CheckState {
	switch strings.ToLower(status) {
	case "success":
		return forge.CheckSuccess
	case "failed":
		return forge.CheckFailure
	case "canceled":
		return forge.CheckError
	case "skipped":
		return forge.CheckSkipped
	}
	return forge.CheckPending
}
