package stay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/runs/issue"
	"github.com/rocketgpt/orchestrator/internal/store/forgeevents"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

// overlap is by how much the times of two looks overlap, because a forge may show a comment only
// after one that was written later.
const overlap = time.Minute

// Limits of what a look adds to the inbox.
const (
	maxBody = contract.CheckText // bytes of a comment
	maxLine = contract.CheckLine // bytes of other texts
	maxName = contract.CheckName // bytes of names
)

// ownStatus is the beginning of the names of the statuses that runs set.
const ownStatus = "rgpt/"

// ownMark is in everything that runs write on forges.
const ownMark = "<!-- rgpt:"

// watch looks at the pull requests of one forge that are due. One server at a time does that for a
// forge; the others wait for their chance.
func (s *Service) watch(ctx context.Context, name string) {
	under := newLooks(s.SlowLook)
	defer under.all.Wait()
	for ctx.Err() == nil {
		release, owned, err := s.Store.TryLease(ctx, "forge/"+name)
		switch {
		case err != nil:
			if ctx.Err() == nil {
				s.Log.WarnContext(ctx, "Pull requests could not be looked at; trying again", "forge", name, "error", err)
			}
		case owned:
			s.watchOwned(ctx, name, under)
			release()
		}
		if !pause(ctx, s.Tick) {
			return
		}
	}
}

// watchOwned begins looks at the pull requests that are due, for a while. Looks that have not ended then
// go on: another server may look at the same pull request meanwhile, which has no further effect.
func (s *Service) watchOwned(ctx context.Context, name string, under *looks) {
	owned, cancel := context.WithTimeout(ctx, ownTime)
	defer cancel()
	for owned.Err() == nil {
		if rest := s.pausedFor(name); rest > 0 {
			pause(owned, rest)
			return
		}
		due, err := forgeevents.Due(ctx, s.Store, name, duePage)
		if err != nil {
			if ctx.Err() == nil {
				s.Log.WarnContext(ctx, "Pull requests could not be looked at; trying again", "forge", name, "error", err)
			}
			return
		}
		for _, w := range due {
			if !under.begin(owned, w, func() { s.look(ctx, w) }) {
				return
			}
		}
		pause(owned, s.Tick)
	}
}

// look looks at a pull request and adds what it finds to the inbox.
func (s *Service) look(ctx context.Context, w forgeevents.Watch) {
	if ctx.Err() != nil || s.pausedFor(w.Forge) > 0 {
		return
	}
	held, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	added, reason, err := s.find(held, &w)
	s.noteLimit(w.Forge, err)
	if ctx.Err() != nil {
		return
	}
	wait := s.Settings[w.Forge].Poll
	if wait == 0 {
		wait = -1 // only when a webhook asks for it
	}
	if err != nil {
		w.Failures++
		wait, reason = s.wait(w.Failures, err), fault.Of(err).Message
		s.Log.WarnContext(ctx, "A pull request could not be looked at; trying again later",
			"forge", w.Forge, "repository", w.Repo, "number", w.Number, "wait", wait, "error", err)
	} else {
		w.Failures = 0
	}
	telemetry.CountForgeLook(err == nil)
	if err := forgeevents.EndLook(ctx, s.Store, w, wait, reason); err != nil && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "A look at a pull request could not be noted; it is looked at again", "number", w.Number, "error", err)
		pause(ctx, s.Tick)
	}
	if added > 0 {
		s.Wake()
	}
}

// find adds what happened to a pull request to the inbox, and returns how much of it is new. It sets
// the time up to which comments were read. A reason says what may not be read on the forge: nobody but
// an administrator can change that, so the look does not fail.
func (s *Service) find(ctx context.Context, w *forgeevents.Watch) (added int, reason string, err error) {
	service, err := s.named(w.Forge)
	if err != nil {
		return 0, "", err
	}
	pr, err := service.PullRequest(ctx, w.Repo, w.Number)
	if err != nil {
		return 0, "", err
	}
	var found []forgeevents.Event
	add := func(e forgeevents.Event) {
		e.Forge, e.Repo, e.Number = w.Forge, w.Repo, w.Number
		e.Name = line(e.Name, maxName)
		found = append(found, e)
	}
	// A push comes before comments: the run is to carry them out on top of it. While the run does not know
	// the commit, it is an event again and again: the run may not have been able to fetch it.
	if pr.State == forge.Open && pushesNothing(w.Status) && pr.HeadCommit != w.Commit && pr.HeadCommit != "" {
		key := fmt.Sprintf("pushed:%d:%s:%d", w.Number, pr.HeadCommit, time.Now().Truncate(s.PushAgain).UnixMilli())
		add(forgeevents.Event{Kind: forgeevents.Pushed, Key: key, Name: "a push", Payload: forgeevents.Payload{
			Commit: fault.Clip(pr.HeadCommit, maxName), URL: fault.Clip(telemetry.Redact(pr.URL), maxLine), At: pr.UpdatedAt,
		}})
	}
	since, err := s.findComments(ctx, service, *w, add)
	if err != nil {
		return 0, "", err
	}
	if added, err = forgeevents.Add(ctx, s.Store, found); err != nil {
		return 0, "", err
	}
	w.Since, found = since, nil // what follows may fail: the comments are stored
	switch {
	case pr.State != forge.Open:
		kind := forgeevents.Closed
		if pr.State == forge.Merged {
			kind = forgeevents.Merged
		}
		add(forgeevents.Event{Kind: kind, Key: fmt.Sprintf("state:%d:%s:run-%d", w.Number, kind, w.RunID), Payload: forgeevents.Payload{Commit: pr.MergeCommit, URL: pr.URL, At: pr.UpdatedAt}})
	default:
		switch err := s.findChecks(ctx, service, *w, add); {
		case err == nil:
		case fault.Of(err).Class == contract.ClassConfig:
			reason = "the checks are not read: " + fault.Of(err).Message
			s.warnOnce(ctx, *w, err)
		default:
			return added, "", err
		}
	}
	var baseErr error
	if pr.State == forge.Open {
		baseErr = s.findBase(ctx, service, *w, pr, add)
		s.merge(ctx, *w, pr)
	}
	more, err := forgeevents.Add(ctx, s.Store, found)
	if err == nil {
		err = baseErr
	}
	return added + more, reason, err
}

// pushesNothing reports whether a run in a status does not push to its branch, so an unknown commit there is one
// of people.
func pushesNothing(s contract.Status) bool {
	return s == contract.StatusDone || s == contract.StatusWaitingForApproval
}

// warnOnce logs that the checks of a repository may not be read.
func (s *Service) warnOnce(ctx context.Context, w forgeevents.Watch, err error) {
	key := [2]string{w.Forge, w.Repo}
	s.mu.Lock()
	known := s.unreadable[key]
	s.unreadable[key] = true
	s.mu.Unlock()
	if !known {
		s.Log.WarnContext(ctx, "The checks of a repository may not be read, so its runs do not get them", "forge", w.Forge, "repository", w.Repo, "error", err)
	}
}

// findComments finds comments since the last look, and returns the time of the last change of one.
// Those that runs wrote are no events.
func (s *Service) findComments(ctx context.Context, service forge.Service, w forgeevents.Watch, add func(forgeevents.Event)) (time.Time, error) {
	comments, err := service.Comments(ctx, w.Repo, forge.OnPullRequest(w.Number), w.Since.Add(-overlap))
	since := w.Since
	if err != nil || len(comments) == 0 {
		return since, err
	}
	own, err := s.ownLogin(ctx, service, w.Forge, w.Repo)
	if err != nil {
		return since, err
	}
	for _, c := range comments {
		if c.UpdatedAt.After(since) {
			since = c.UpdatedAt
		}
		if isOwn(c.Author, c.Body, own) {
			continue
		}
		add(commentEvent(c, w))
	}
	return since, nil
}

// commentEvent returns the event of a comment.
func commentEvent(c forge.Comment, w forgeevents.Watch) forgeevents.Event {
	name := "a comment"
	switch {
	case c.Path != "" && c.Line > 0:
		name = fmt.Sprintf("%s:%d", c.Path, c.Line)
	case c.Path != "":
		name = c.Path
	case c.Review:
		name = "a review"
	}
	return forgeevents.Event{Kind: forgeevents.Comment, Key: "comment:" + c.ID, Name: name, Payload: forgeevents.Payload{
		ID: c.ID, Body: fault.Clip(telemetry.Redact(issue.Seen(c.Body)), maxBody), URL: fault.Clip(telemetry.Redact(c.URL), maxLine),
		Author: fault.Clip(terminal.OneLine(c.Author), maxName), Bot: c.Bot, Thread: c.Thread, Review: c.Review,
		Path: fault.Clip(c.Path, maxLine), Line: c.Line, Commit: fault.Clip(c.Commit, maxName), At: c.CreatedAt,
		Earlier: c.CreatedAt.Before(w.Opened.Add(-overlap)), Edited: !c.UpdatedAt.Equal(c.CreatedAt),
	}}
}

// line returns a text of a stranger as one line of what readers see, without secrets.
func line(s string, most int) string {
	return fault.Clip(terminal.OneLine(telemetry.Redact(issue.Seen(s))), most)
}

// isOwn reports whether a run wrote a comment: by its author, if the own name is known, and else by the
// mark that runs leave, unless it is quoted.
func isOwn(author, body, own string) bool {
	if own != "" {
		return strings.EqualFold(author, own)
	}
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(strings.TrimSpace(line), ">") && strings.Contains(line, ownMark) {
			return true
		}
	}
	return false
}

// findChecks finds checks of the released commit that have ended. A success is an event only after a
// failure of the same check.
func (s *Service) findChecks(ctx context.Context, service forge.Service, w forgeevents.Watch, add func(forgeevents.Event)) error {
	checks, err := service.Checks(ctx, w.Repo, w.Commit)
	if err != nil {
		return err
	}
	last, err := forgeevents.LastChecks(ctx, s.Store, w.Forge, w.Repo, w.Number)
	if err != nil {
		return err
	}
	ended := []forge.CheckState{forge.CheckFailure, forge.CheckError, forge.CheckSuccess}
	for _, c := range checks {
		if strings.HasPrefix(c.Name, ownStatus) || !slices.Contains(ended, c.State) {
			continue
		}
		name := line(c.Name, maxName)
		if c.State == forge.CheckSuccess && last[name] != string(forge.CheckFailure) {
			continue
		}
		add(forgeevents.Event{Kind: forgeevents.Check, Key: fmt.Sprintf("check:%s:%s", c.ID, c.State), Name: name, Result: string(c.State), Payload: forgeevents.Payload{
			ID: c.ID, Description: line(c.Description, maxLine), URL: fault.Clip(telemetry.Redact(c.URL), maxLine), Commit: w.Commit,
		}})
	}
	return nil
}

// limited is a forge that is asked at most so many questions a minute.
type limited struct {
	forge.Service
	limit *rate.Limiter
}

// named returns a forge that is asked at most so many questions a minute, with those of all looks.
func (s *Service) named(name string) (forge.Service, error) {
	connected, err := s.Forges.Named(name)
	if err != nil {
		return nil, err
	}
	return limited{connected, s.limits[name]}, nil
}

func (l limited) wait(ctx context.Context) error {
	if err := l.limit.Wait(ctx); err != nil {
		return fault.New(contract.ClassInfra, contract.CodeTimeout, "the forge was not asked, because forges.<name>.poll_limit questions a minute were reached; raise it, or poll less often")
	}
	return nil
}

// PullRequest is that of the forge, when the limit allows it.
func (l limited) PullRequest(ctx context.Context, repo string, number int64) (forge.PullRequest, error) {
	if err := l.wait(ctx); err != nil {
		return forge.PullRequest{}, err
	}
	return l.Service.PullRequest(ctx, repo, number)
}

// Branch is that of the forge, when the limit allows it.
func (l limited) Branch(ctx context.Context, repo, branch string) (string, error) {
	if err := l.wait(ctx); err != nil {
		return "", err
	}
	return l.Service.Branch(ctx, repo, branch)
}

// Checks is that of the forge, when the limit allows it.
func (l limited) Checks(ctx context.Context, repo, commit string) ([]forge.Check, error) {
	if err := l.wait(ctx); err != nil {
		return nil, err
	}
	return l.Service.Checks(ctx, repo, commit)
}

// Comments is that of the forge, when the limit allows it.
func (l limited) Comments(ctx context.Context, repo string, on forge.Subject, since time.Time) ([]forge.Comment, error) {
	if err := l.wait(ctx); err != nil {
		return nil, err
	}
	return l.Service.Comments(ctx, repo, on, since)
}
