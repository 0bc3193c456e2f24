package source

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/runs/issue"
	"github.com/rocketgpt/orchestrator/internal/stay"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

// overlap is by how much the times of two looks overlap, because a forge may show a change only after
// one that was made later.
const overlap = time.Minute

// quiet is by how much the second look goes back behind the first one, if there was no change: clocks of
// forges may be late.
const quiet = time.Hour

// Limits of what a delivery says, in bytes.
const (
	maxText = 64 << 10
	maxLine = 1000
	maxName = 200
)

// maxRead is the number of issues of a trigger whose comments are known to have been read.
const maxRead = 10_000

// logTime is how long reading the log of a check may take, and logAttempts how often it is tried: then the
// check fires the trigger without it.
const (
	logTime     = time.Minute
	logAttempts = 3
)

// ownStatus is the beginning of the names of the statuses that runs set.
const ownStatus = "rgpt/"

// find adds what fires a trigger, and notes in the look up to when everything was read.
func (s *Service) find(ctx context.Context, t config.Trigger, l *triggers.Look) error {
	connected, err := s.Forges.Named(t.Forge)
	if err != nil {
		return err
	}
	service := limited{connected, s.Limit(t.Forge)}
	switch t.On {
	case config.OnIssue:
		return s.findIssues(ctx, service, t, l)
	case config.OnComment:
		return s.findComments(ctx, service, t, l)
	default:
		return s.findChecks(ctx, service, t, l)
	}
}

// later returns the later one of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// findIssues finds open issues with the label. Those of the first look are in time, however old they are:
// people may label issues before they configure the trigger.
func (s *Service) findIssues(ctx context.Context, service forge.Service, t config.Trigger, l *triggers.Look) error {
	first, until := l.Since.IsZero(), later(l.Since, l.Began.Add(-quiet))
	since := l.Since
	if !first {
		since, until = since.Add(-overlap), l.Since
	}
	err := s.eachIssue(ctx, service, t, t.Label, since, func(i forge.Issue) error {
		d, err := s.ofIssue(t, *l, i)
		if err != nil {
			return err
		}
		if d.OccurredAt = i.UpdatedAt; first {
			d.OccurredAt = l.Began
		} else {
			until = later(until, i.UpdatedAt)
		}
		_, err = triggers.Add(ctx, s.Store, d)
		return err
	})
	if err == nil {
		l.Since = until
	}
	return err
}

// eachIssue calls do for the open issues with a label, or all of them, that changed since a time, the
// oldest change first.
func (s *Service) eachIssue(ctx context.Context, service forge.Service, t config.Trigger, label string, since time.Time, do func(forge.Issue) error) error {
	for {
		found, err := service.Issues(ctx, t.Repository, label, since)
		if err != nil {
			return err
		}
		for _, i := range found {
			if err := do(i); err != nil {
				return err
			}
		}
		n := len(found)
		if n < forge.MaxIssues || !found[n-1].UpdatedAt.After(since) {
			return nil
		}
		since = found[n-1].UpdatedAt
	}
}

// ofIssue returns the delivery about an issue.
func (s *Service) ofIssue(t config.Trigger, l triggers.Look, i forge.Issue) (triggers.Delivery, error) {
	address, err := s.Forges.IssueURL(t.Forge, t.Repository, i.Number)
	return triggers.Delivery{Trigger: l.Trigger, At: triggers.PlaceOf(t.Forge, t.Repository), Key: fmt.Sprintf("issue:%d", i.Number), Payload: triggers.Payload{
		Issue: address, Title: line(i.Title, maxLine), Body: fault.Clip(telemetry.Redact(issue.Seen(i.Body)), maxText),
		Author: line(i.Author, maxName), Person: line(i.Author, maxName), URL: line(i.URL, maxLine),
	}}, err
}

// line returns a text of a stranger on one line.
func line(text string, most int) string {
	return fault.Clip(terminal.OneLine(telemetry.Redact(issue.Seen(text))), most)
}

// findComments finds comments on issues that contain the mention, by people with sufficient rights. The
// first look also reads older ones, of which the trigger catches up with those that are not too old. If a
// look fails, the next one of this server continues after the issues whose comments were read.
func (s *Service) findComments(ctx context.Context, service forge.Service, t config.Trigger, l *triggers.Look) error {
	since, until := l.Since.Add(-overlap), l.Since
	if l.Since.IsZero() {
		since = l.Began.Add(-max(t.CatchUp, quiet))
		until = since
	}
	err := s.eachIssue(ctx, service, t, "", since, func(i forge.Issue) error {
		until = later(until, i.UpdatedAt)
		if s.commentsRead(l.Trigger, i) {
			return nil
		}
		err := s.findCommentsOn(ctx, service, t, *l, i, since)
		if err == nil {
			s.noteRead(*l, i)
		}
		return err
	})
	if err == nil {
		l.Since = until
	}
	return err
}

// commentsRead reports whether the comments on an issue were read since it changed.
func (s *Service) commentsRead(trigger string, i forge.Issue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, known := s.read[trigger][i.Number]
	return known && at.Equal(i.UpdatedAt)
}

// noteRead notes that the comments on an issue were read, unless it has just changed: another change may
// then have the same time.
func (s *Service) noteRead(l triggers.Look, i forge.Issue) {
	if l.Began.Sub(i.UpdatedAt) < overlap {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.read[l.Trigger]) == 0 || len(s.read[l.Trigger]) >= maxRead {
		s.read[l.Trigger] = map[int64]time.Time{}
	}
	s.read[l.Trigger][i.Number] = i.UpdatedAt
}

func (s *Service) findCommentsOn(ctx context.Context, service forge.Service, t config.Trigger, l triggers.Look, i forge.Issue, since time.Time) error {
	comments, err := service.Comments(ctx, t.Repository, forge.OnIssue(i.Number), since)
	if err != nil || len(comments) == 0 {
		return err
	}
	own, err := s.ownLogin(ctx, service, t)
	if err != nil {
		return err
	}
	var keys []string
	for _, c := range comments {
		keys = append(keys, commentKey(c))
	}
	known, err := triggers.Known(ctx, s.Store, l.Trigger, triggers.PlaceOf(t.Forge, t.Repository), keys)
	if err != nil {
		return err
	}
	for _, c := range comments {
		if known[commentKey(c)] || c.UpdatedAt.Before(since) || !s.instructs(c, own) {
			continue
		}
		may, err := service.Permission(ctx, t.Repository, c.Author)
		if err != nil {
			return err
		}
		if may < s.Commenters {
			continue
		}
		d, err := s.ofIssue(t, l, i)
		if err != nil {
			return err
		}
		d.Key, d.OccurredAt = commentKey(c), c.UpdatedAt
		d.Payload.Author, d.Payload.URL = line(c.Author, maxName), line(c.URL, maxLine)
		d.Payload.Person = d.Payload.Author
		d.Payload.Text = fault.Clip(telemetry.Redact(issue.Seen(c.Body)), maxText)
		if _, err := triggers.Add(ctx, s.Store, d); err != nil {
			return err
		}
	}
	return nil
}

func commentKey(c forge.Comment) string { return "comment:" + fault.Clip(c.ID, maxName) }

// instructs reports whether a comment is an instruction, if its author may give one. If only
// administrators may, one that was edited does not count: a person with fewer rights may have done that.
func (s *Service) instructs(c forge.Comment, own string) bool {
	edited := !c.UpdatedAt.Equal(c.CreatedAt)
	return !c.Bot && (s.Ignores == nil || !s.Ignores(c.Author)) && !stay.IsOwn(c.Author, c.Body, own) && stay.Mentions(issue.Seen(c.Body), s.Mention) &&
		(!edited || s.Commenters < forge.PermissionAdmin)
}

// findChecks finds the failed checks of the newest commit of the branch.
func (s *Service) findChecks(ctx context.Context, service forge.Service, t config.Trigger, l *triggers.Look) error {
	commit, err := service.Branch(ctx, t.Repository, t.Base)
	if err != nil {
		return err
	}
	checks, err := service.Checks(ctx, t.Repository, commit)
	if err != nil {
		return err
	}
	failed := map[string]forge.Check{}
	var keys []string
	for _, c := range checks {
		if c.State != forge.CheckFailure || strings.HasPrefix(c.Name, ownStatus) {
			continue
		}
		key := fmt.Sprintf("check:%s:%s", commit, line(c.Name, maxName))
		failed[key] = c
		keys = append(keys, key)
	}
	known, err := triggers.Known(ctx, s.Store, l.Trigger, triggers.PlaceOf(t.Forge, t.Repository), keys)
	if err != nil {
		return err
	}
	var problem error
	for _, key := range keys {
		if known[key] {
			continue
		}
		// The log of one check may not be readable: the others fire the trigger nevertheless.
		d := triggers.Delivery{Trigger: l.Trigger, At: triggers.PlaceOf(t.Forge, t.Repository), Key: key, OccurredAt: l.Began}
		if err := s.addCheck(ctx, service, t, *l, d, commit, failed[key]); err != nil {
			problem = err
		}
	}
	if problem == nil {
		l.Since = l.Began
	}
	return problem
}

func (s *Service) addCheck(ctx context.Context, service forge.Service, t config.Trigger, l triggers.Look, d triggers.Delivery, commit string, c forge.Check) error {
	reading, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()
	log, err := service.CheckLog(reading, t.Repository, c, maxText)
	switch {
	case err != nil && fault.Of(err).Class == contract.ClassInfra && l.Failures+1 < logAttempts:
		return err
	case err != nil:
		s.Log.WarnContext(ctx, "The log of a failed check could not be read; it fires its trigger without it", "trigger", l.Trigger, "repository", t.Repository, "check", c.Name, "error", err)
		log = "The log of the check could not be read: " + fault.Of(err).Message
	}
	text := telemetry.Redact(telemetry.Visible(strings.ToValidUTF8(log, "�")))
	if description := line(c.Description, maxLine); description != "" {
		text = description + "\n\n" + text
	}
	if cut := len(text) - maxText; cut > 0 { // what failed is at the end
		text = strings.ToValidUTF8(text[cut:], "")
	}
	branch := t.Base
	if branch == "" {
		branch = "the default branch"
	}
	d.Payload = triggers.Payload{
		Title: fmt.Sprintf("%s failed on %s of %s", line(c.Name, maxName), branch, t.Repository), Text: text, URL: line(c.URL, maxLine), Commit: commit,
	}
	_, err = triggers.Add(ctx, s.Store, d)
	return err
}

// limited is a forge that is asked at most so many questions a minute.
type limited struct {
	forge.Service
	limit *rate.Limiter
}

func (l limited) wait(ctx context.Context) error {
	if err := l.limit.Wait(ctx); err != nil {
		return fault.New(contract.ClassInfra, contract.CodeTimeout, "the forge was not asked, because forges.<name>.poll_limit questions a minute were reached; raise it, or poll less often")
	}
	return nil
}

// Issues is that of the forge, when the limit allows it.
func (l limited) Issues(ctx context.Context, repo, label string, since time.Time) ([]forge.Issue, error) {
	if err := l.wait(ctx); err != nil {
		return nil, err
	}
	return l.Service.Issues(ctx, repo, label, since)
}

// Comments is that of the forge, when the limit allows it.
func (l limited) Comments(ctx context.Context, repo string, on forge.Subject, since time.Time) ([]forge.Comment, error) {
	if err := l.wait(ctx); err != nil {
		return nil, err
	}
	return l.Service.Comments(ctx, repo, on, since)
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
