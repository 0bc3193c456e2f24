package webhook

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/rocketgpt/orchestrator/internal/forge"
)

// hubPayload is what the payloads of GitHub and Gitea have in common. Those of Gitea imitate GitHub's.
type hubPayload struct {
	Action     string `json:"action"`
	Repository struct {
		FullName string `json:"full_name"`
	} `json:"repository"`
	Sender hubUser `json:"sender"`

	Ref   string `json:"ref"`
	After string `json:"after"`

	Issue       hubIssue    `json:"issue"`
	IsPull      bool        `json:"is_pull"` // Gitea: the comment is on a pull request
	PullRequest hubPull     `json:"pull_request"`
	Label       hubLabel    `json:"label"` // GitHub: that was added or removed
	Comment     *hubComment `json:"comment"`
	Review      struct {
		Body    string  `json:"body"`    // GitHub
		Content string  `json:"content"` // Gitea
		User    hubUser `json:"user"`    // GitHub
		Commit  string  `json:"commit_id"`
	} `json:"review"`

	// Of a status.
	ID          int64  `json:"id"`
	SHA         string `json:"sha"`
	State       string `json:"state"`
	Context     string `json:"context"`
	Description string `json:"description"`
	TargetURL   string `json:"target_url"`

	CheckRun struct {
		ID         int64  `json:"id"`
		Name       string `json:"name"`
		HeadSHA    string `json:"head_sha"`
		Status     string `json:"status"`
		Conclusion string `json:"conclusion"`
		HTMLURL    string `json:"html_url"`
		Output     struct {
			Title string `json:"title"`
		} `json:"output"`
	} `json:"check_run"`
}

type hubUser struct {
	Login string `json:"login"`
	Type  string `json:"type"` // GitHub
}

type hubLabel struct {
	Name string `json:"name"`
}

type hubIssue struct {
	Number      int64      `json:"number"`
	Labels      []hubLabel `json:"labels"`
	PullRequest *struct{}  `json:"pull_request"` // it is one
}

type hubPull struct {
	Number int64 `json:"number"`
	Merged bool  `json:"merged"`
	Head   struct {
		SHA string `json:"sha"`
	} `json:"head"`
	Labels []hubLabel `json:"labels"`
}

type hubComment struct {
	ID        int64     `json:"id"`
	Body      string    `json:"body"`
	User      hubUser   `json:"user"`
	HTMLURL   string    `json:"html_url"`
	Path      string    `json:"path"`
	Line      int       `json:"line"`
	Commit    string    `json:"commit_id"`
	ReplyTo   int64     `json:"in_reply_to_id"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

func names(labels []hubLabel) []string {
	var all []string
	for _, l := range labels {
		all = append(all, l.Name)
	}
	return all
}

// onPull sets the pull request of the event.
func (e Event) onPull(p hubPull) Event {
	e.Subject, e.Labels, e.Commit = forge.OnPullRequest(p.Number), names(p.Labels), p.Head.SHA
	return e
}

// onIssue sets the issue of the event.
func (e Event) onIssue(i hubIssue, isPull bool) Event {
	e.Subject, e.Labels = forge.Subject{Number: i.Number, PullRequest: isPull || i.PullRequest != nil}, names(i.Labels)
	return e
}

// said sets the comment of the event.
func (e Event) said(c *hubComment) Event {
	if c == nil {
		return e
	}
	e.Kind = Comment
	e.Comment = forge.Comment{
		ID: strconv.FormatInt(c.ID, 10), Author: c.User.Login, Bot: c.User.Type == "Bot", Body: c.Body, URL: c.HTMLURL,
		Path: c.Path, Line: c.Line, Commit: c.Commit, CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
	}
	if c.Path != "" {
		e.Comment.Thread = strconv.FormatInt(cmp.Or(c.ReplyTo, c.ID), 10)
	}
	return e
}

// subjectKinds are the kinds of events by what happened to an issue or pull request.
var subjectKinds = map[string]Kind{
	"opened": Opened, "closed": Closed, "reopened": Reopened,
	"synchronize": Updated, "synchronized": Updated, // of GitHub and Gitea
	"labeled": Labelled, "unlabeled": Labelled, // of GitHub
	"label_updated": Labelled, "label_cleared": Labelled, // of Gitea
}

// happened completes the event of an issue or pull request.
func (e Event) happened(p *hubPayload) Event {
	e.Kind = cmp.Or(subjectKinds[p.Action], Ignored)
	if e.Kind == Closed && p.PullRequest.Merged {
		e.Kind = Merged
	}
	if p.Action == "labeled" {
		e.Label = p.Label.Name
	}
	return e
}

// reviewed completes the event of a review.
func (e Event) reviewed(p *hubPayload) Event {
	e.Kind = Reviewed
	e.Comment = forge.Comment{Author: cmp.Or(p.Review.User.Login, e.Sender), Bot: p.Review.User.Type == "Bot", Body: cmp.Or(p.Review.Body, p.Review.Content), Commit: p.Review.Commit}
	return e
}

// reported completes the event of a status.
func (e Event) reported(p *hubPayload) Event {
	e.Kind, e.Commit = Check, p.SHA
	e.Check = forge.Check{ID: strconv.FormatInt(p.ID, 10), Name: p.Context, State: statusState(p.State), Description: p.Description, URL: p.TargetURL}
	return e
}

func statusState(state string) forge.CheckState {
	switch state {
	case "success":
		return forge.CheckSuccess
	case "failure", "warning": // a warning prevents a merge
		return forge.CheckFailure
	case "error":
		return forge.CheckError
	case "skipped":
		return forge.CheckSkipped
	}
	return forge.CheckPending
}

// parseGitea reads a payload of Gitea or Forgejo.
func parseGitea(header http.Header, body []byte) (Event, error) {
	e, p := Event{Kind: Ignored}, &hubPayload{}
	event := header.Get("X-Gitea-Event")
	switch event {
	case "push", "pull_request", "issues", "issue_comment", "pull_request_comment", "pull_request_approved", "pull_request_rejected", "status":
	default:
		return e, nil
	}
	if err := decode(body, p); err != nil {
		return e, err
	}
	e.Repo, e.Sender = p.Repository.FullName, p.Sender.Login
	switch event {
	case "push":
		return e.pushed(p.Ref, p.After), nil
	case "pull_request":
		return e.onPull(p.PullRequest).happened(p), nil
	case "issues":
		return e.onIssue(p.Issue, false).happened(p), nil
	case "status":
		e = e.reported(p)
		e.Check.ID = "" // it is not the number that the API uses
		return e, nil
	case "issue_comment":
		if p.Action != "created" {
			return e, nil
		}
		return e.onIssue(p.Issue, p.IsPull).said(p.Comment), nil
	}
	return e.onPull(p.PullRequest).reviewed(p), nil
}

// parseGitHub reads a payload of GitHub.
func parseGitHub(header http.Header, body []byte) (Event, error) {
	e, p := Event{Kind: Ignored}, &hubPayload{}
	event := header.Get("X-GitHub-Event")
	switch event {
	case "push", "pull_request", "issues", "issue_comment", "pull_request_review", "pull_request_review_comment", "status", "check_run":
	default:
		return e, nil
	}
	if err := decode(body, p); err != nil {
		return e, err
	}
	e.Repo, e.Sender = p.Repository.FullName, p.Sender.Login
	switch {
	case event == "push":
		return e.pushed(p.Ref, p.After), nil
	case event == "pull_request":
		return e.onPull(p.PullRequest).happened(p), nil
	case event == "issues":
		return e.onIssue(p.Issue, false).happened(p), nil
	case event == "status":
		return e.reported(p), nil
	case event == "issue_comment" && p.Action == "created":
		return e.onIssue(p.Issue, false).said(p.Comment), nil
	case event == "pull_request_review_comment" && p.Action == "created":
		return e.onPull(p.PullRequest).said(p.Comment), nil
	case event == "pull_request_review" && p.Action == "submitted":
		return e.onPull(p.PullRequest).reviewed(p), nil
	case event == "check_run" && (p.Action == "created" || p.Action == "completed"):
		run := p.CheckRun
		e.Kind, e.Commit = Check, run.HeadSHA
		e.Check = forge.Check{ID: strconv.FormatInt(run.ID, 10), Name: run.Name, State: runState(run.Status, run.Conclusion), Description: run.Output.Title, URL: run.HTMLURL}
	}
	return e, nil
}

// runState returns the state of a run of a check. One that waits for a person is pending.
func runState(status, conclusion string) forge.CheckState {
	if status != "completed" {
		return forge.CheckPending
	}
	switch conclusion {
	case "success", "neutral":
		return forge.CheckSuccess
	case "skipped":
		return forge.CheckSkipped
	case "failure", "timed_out":
		return forge.CheckFailure
	case "action_required":
		return forge.CheckPending
	}
	return forge.CheckError
}
