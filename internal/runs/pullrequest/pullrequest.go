// Package pullrequest opens and updates the pull requests of runs. Everything it does can be repeated
// after a crash at any point: it finds what an earlier attempt did, by branch, by its own marks in
// texts, and by name.
package pullrequest

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
)

// Request is a pull request as it should be.
type Request struct {
	RunID      int64
	Repo       string // path on the forge
	Head, Base string
	Commit     string // released to Head
	Title      string // of a new pull request; an existing one keeps its title
	Body       string // the run's part of the body: what people add around it stays
	Draft      bool   // of a new pull request
	Labels     []string
	// OwnLabels matches the labels that only runs set: those that are not in Labels are removed.
	OwnLabels func(label string) bool
	Reviewers forge.Reviewers
	Statuses  []forge.Status
	Comments  []forge.LineComment // on lines of the change
	// Notes are added to those of the result.
	Notes []string
	// Known is the pull request that the run opened before; 0: none.
	Known int64
	// OfBranch are pull requests that other runs had open from Head, newest first: people may have given
	// one another base.
	OfBranch []int64
}

// Result is what became of a request.
type Result struct {
	PullRequest forge.PullRequest
	Opened      bool     // by this run
	Notes       []string // what could not be done, for people
}

// Open makes the pull request of a released branch as it should be: it opens one, or updates the open
// one from this branch. One that a person closed or that was merged stays as it is. An error means that
// there may be no pull request; parts that the forge refused, such as an unknown reviewer, are notes.
func Open(ctx context.Context, service forge.Service, r Request) (Result, error) {
	pr, err := find(ctx, service, r)
	if err != nil {
		return Result{}, err
	}
	out := Result{}
	switch {
	case pr == nil:
		made, err := create(ctx, service, r)
		if err != nil {
			return Result{}, err
		}
		pr = &made
	case pr.State != forge.Open:
		out.PullRequest, out.Opened = *pr, ofRun(pr.Body, r.RunID)
		out.Notes = []string{fmt.Sprintf("pull request %d is %s, so the run left it as it is and opened no other one", pr.Number, pr.State)}
		return out, nil
	}
	if body := merged(pr.Body, r); body != pr.Body {
		if *pr, err = service.UpdatePullRequest(ctx, r.Repo, pr.Number, forge.PullRequestChange{Body: &body}); err != nil {
			return Result{}, err
		}
	}
	out.PullRequest, out.Opened = *pr, ofRun(pr.Body, r.RunID)
	more, err := decorate(ctx, service, r, *pr)
	out.Notes = slices.Concat(r.Notes, more)
	return out, err
}

// find returns the pull request that a run must use, nil if it must open one.
func find(ctx context.Context, service forge.Service, r Request) (*forge.PullRequest, error) {
	if r.Known != 0 {
		pr, err := service.PullRequest(ctx, r.Repo, r.Known)
		return &pr, err
	}
	if found, err := service.FindPullRequest(ctx, r.Repo, r.Head, r.Base); found != nil || err != nil {
		return found, err
	}
	for _, number := range r.OfBranch {
		pr, err := service.PullRequest(ctx, r.Repo, number)
		switch {
		case fault.Is(err, contract.CodeRepository): // it was removed
		case err != nil:
			return nil, err
		case pr.State == forge.Open && pr.Head == r.Head && !pr.FromFork:
			return &pr, nil
		}
	}
	return nil, nil
}

// create opens a pull request. If the forge refuses because one exists, which an attempt whose answer
// was lost may have opened, that one is returned.
func create(ctx context.Context, service forge.Service, r Request) (forge.PullRequest, error) {
	made, err := service.CreatePullRequest(ctx, r.Repo, forge.NewPullRequest{
		Head: r.Head, Base: r.Base, Title: r.Title, Body: merged("", r), Draft: r.Draft,
	})
	if err == nil || fault.Of(err).Class == contract.ClassInfra {
		return made, err
	}
	if found, findErr := service.FindPullRequest(ctx, r.Repo, r.Head, r.Base); findErr == nil && found != nil {
		return *found, nil
	}
	return made, err
}

// decorate sets what belongs to an open pull request. It stops at failures that a later attempt may not
// have; others become notes.
func decorate(ctx context.Context, service forge.Service, r Request, pr forge.PullRequest) (notes []string, err error) {
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"the labels could not be set", func() error { return setLabels(ctx, service, r, pr) }},
		{"the statuses could not be set", func() error { return setStatuses(ctx, service, r) }},
		{"the reviewer's findings could not be added as comments", func() error { return comment(ctx, service, r, pr) }},
	} {
		if notes, err = noted(notes, step.what, step.do()); err != nil {
			return notes, err
		}
	}
	for _, one := range each(r.Reviewers) {
		name := strings.Join(append(slices.Clone(one.People), one.Teams...), "")
		err := service.RequestReviews(ctx, r.Repo, pr.Number, one)
		if notes, err = noted(notes, name+" could not be asked for a review", err); err != nil {
			return notes, err
		}
	}
	return notes, nil
}

// noted adds a failure to the notes, unless a later attempt may not have it: then it is returned.
func noted(notes []string, what string, err error) ([]string, error) {
	switch {
	case err == nil:
		return notes, nil
	case fault.Of(err).Class == contract.ClassInfra:
		return notes, err
	}
	return append(notes, what+": "+fault.Of(err).Message), nil
}

// each splits reviewers, because a forge refuses all of a request of which it does not know one.
func each(r forge.Reviewers) (out []forge.Reviewers) {
	for _, p := range r.People {
		out = append(out, forge.Reviewers{People: []string{p}})
	}
	for _, t := range r.Teams {
		out = append(out, forge.Reviewers{Teams: []string{t}})
	}
	return out
}

func setLabels(ctx context.Context, service forge.Service, r Request, pr forge.PullRequest) error {
	for _, has := range pr.Labels {
		if r.OwnLabels != nil && r.OwnLabels(has) && !slices.Contains(r.Labels, has) {
			if err := service.RemoveLabel(ctx, r.Repo, forge.OnPullRequest(pr.Number), has); err != nil {
				return err
			}
		}
	}
	missing := slices.DeleteFunc(slices.Clone(r.Labels), func(l string) bool { return slices.Contains(pr.Labels, l) })
	if len(missing) == 0 {
		return nil
	}
	return service.AddLabels(ctx, r.Repo, forge.OnPullRequest(pr.Number), missing)
}

func setStatuses(ctx context.Context, service forge.Service, r Request) error {
	for _, s := range r.Statuses {
		if err := service.SetStatus(ctx, r.Repo, r.Commit, s); err != nil {
			return err
		}
	}
	return nil
}

// comment adds a review with comments on lines, once for each commit.
func comment(ctx context.Context, service forge.Service, r Request, pr forge.PullRequest) error {
	if len(r.Comments) == 0 {
		return nil
	}
	access, err := service.Access(ctx, r.Repo)
	if err != nil {
		return err
	}
	before, err := service.Comments(ctx, r.Repo, forge.OnPullRequest(pr.Number), time.Time{})
	if err != nil {
		return err
	}
	mark := fmt.Sprintf("<!-- rgpt:review run=%d commit=%s -->", r.RunID, r.Commit)
	if slices.ContainsFunc(before, func(c forge.Comment) bool { return c.Author == access.Login && strings.Contains(c.Body, mark) }) {
		return nil
	}
	marked := slices.Clone(r.Comments)
	for i := range marked {
		marked[i].Body += "\n\n" + mark
	}
	return service.Review(ctx, r.Repo, pr.Number, forge.NewReview{
		Commit: r.Commit, Body: "Findings of the model that reviewed this change.\n\n" + mark, Comments: marked,
	})
}

// The run's part of a body is between these marks.
const endMark = "<!-- rgpt:end -->"

var beginMark = regexp.MustCompile(`<!-- rgpt:begin run=(\d+) by=(\d+) commit=[0-9a-f]* -->`)

// ofRun reports whether a run opened the pull request with this body.
func ofRun(body string, run int64) bool {
	m := beginMark.FindStringSubmatch(body)
	return m != nil && m[1] == fmt.Sprint(run)
}

// merged returns a body with the run's part in place of an earlier run's part, or at the end. The run
// that opened the pull request stays named in it.
func merged(body string, r Request) string {
	opener := fmt.Sprint(r.RunID)
	begin := beginMark.FindStringSubmatchIndex(body)
	if begin != nil {
		opener = body[begin[2]:begin[3]]
	} else if body != "" {
		opener = "0" // a person opened it
	}
	part := fmt.Sprintf("<!-- rgpt:begin run=%s by=%d commit=%s -->\n%s\n%s", opener, r.RunID, r.Commit, strings.TrimSpace(r.Body), endMark)
	if begin == nil {
		return strings.TrimSpace(body + "\n\n" + part)
	}
	rest := body[begin[1]:]
	if end := strings.Index(rest, endMark); end >= 0 {
		return body[:begin[0]] + part + rest[end+len(endMark):]
	}
	return body[:begin[0]] + part // a person removed the end; the rest is the old part
}
