package stay

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/store/forgeevents"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// ignored is the outcome of an event that the run does not need.
func ignored(format string, args ...any) (forgeevents.Outcome, error) {
	return forgeevents.Outcome{State: forgeevents.Ignored, Reason: telemetry.Redact(fmt.Sprintf(format, args...))}, nil
}

// messageID returns the id of the message to the run about an event. It is the same in every attempt.
func messageID(e forgeevents.Event) string { return fmt.Sprintf("forge-event-%d", e.ID) }

// decide does what an event requires, and returns its outcome. An error means that it must be tried
// again.
func (s *Service) decide(ctx context.Context, e forgeevents.Event) (forgeevents.Outcome, error) {
	holders, err := forgeevents.Holders(ctx, s.Store, e.Forge, e.Repo, e.Number)
	if err != nil {
		return forgeevents.Outcome{}, err
	}
	if e.Kind == forgeevents.Closed || e.Kind == forgeevents.Merged {
		return s.decideEnd(ctx, e, holders)
	}
	var run *forgeevents.Holder
	for i := range holders { // the newest one first
		if holders[i].Staying {
			run = &holders[i]
			break
		}
	}
	if run == nil {
		return ignored("no run that has the pull request watches its branch any longer")
	}
	switch e.Kind {
	case forgeevents.Check:
		return s.decideCheck(ctx, e, *run)
	case forgeevents.Comment:
		return s.decideComment(ctx, e, *run)
	case forgeevents.Base:
		return s.decideBase(ctx, e, *run)
	default: // pushed
		return s.decidePush(ctx, e, *run)
	}
}

// decideEnd notes that a pull request was merged or closed, and ends the watch of its runs.
func (s *Service) decideEnd(ctx context.Context, e forgeevents.Event, holders []forgeevents.Holder) (out forgeevents.Outcome, err error) {
	state := contract.PullRequestClosed
	if e.Kind == forgeevents.Merged {
		state = contract.PullRequestMerged
	}
	out = forgeevents.Outcome{State: forgeevents.Ignored, Reason: "no run that has the pull request watches its branch any longer"}
	for _, h := range holders {
		if h.State == contract.PullRequestOpen {
			h.State = state
			if err := pullrequests.Save(ctx, s.Store, h.PullRequest, false); err != nil {
				return out, err
			}
		}
		if !h.Staying {
			continue
		}
		_, err := s.Runs.Steer(ctx, h.RunID, contract.UpdateStop, contract.Command{
			ID: fmt.Sprintf("%s-run-%d", messageID(e), h.RunID), By: contract.BySystem, Reason: fmt.Sprintf("pull request %d was %s, so nothing is left to do", e.Number, state),
		})
		if err := s.refusal(ctx, h, err); err != nil {
			return out, err
		}
		out = forgeevents.Outcome{State: forgeevents.Sent, Reason: "the run stopped watching its branch", RunID: h.RunID}
	}
	return out, nil
}

// refusal returns the error after which a command to a run must be sent again, nil if the run does not
// watch its branch any longer, so that it may refuse.
func (s *Service) refusal(ctx context.Context, h forgeevents.Holder, err error) error {
	if err == nil || fault.Of(err).Class != contract.ClassHuman {
		return err
	}
	run, lookup := s.Store.Run(ctx, h.RunID)
	switch {
	case lookup != nil:
		return lookup
	case run.StayingUntil != nil:
		return err // it may have too many messages waiting
	}
	return nil
}

// send sends a message to a run.
func (s *Service) send(ctx context.Context, run forgeevents.Holder, m contract.CheckMessage) (forgeevents.Outcome, error) {
	ack, err := s.Runs.Check(ctx, run.RunID, m)
	if err == nil {
		return forgeevents.Outcome{State: forgeevents.Sent, Reason: telemetry.Redact(ack.Message), RunID: run.RunID}, nil
	}
	if again := s.refusal(ctx, run, err); again != nil {
		return forgeevents.Outcome{RunID: run.RunID}, again
	}
	return ignored("%s", fault.Of(err).Message)
}

// decidePush tells the run that its branch was moved, so that it continues from there.
func (s *Service) decidePush(ctx context.Context, e forgeevents.Event, run forgeevents.Holder) (forgeevents.Outcome, error) {
	if e.Payload.Commit == run.Commit {
		return ignored("the run has moved the branch, or knows that it was moved")
	}
	return s.send(ctx, run, contract.CheckMessage{
		ID: messageID(e), Kind: contract.CheckPush, Name: e.Name, URL: e.Payload.URL, Commit: e.Payload.Commit, By: contract.ByForge,
	})
}

func (s *Service) decideCheck(ctx context.Context, e forgeevents.Event, run forgeevents.Holder) (forgeevents.Outcome, error) {
	m := contract.CheckMessage{
		ID: messageID(e), Kind: contract.CheckRun, Name: e.Name, Summary: e.Payload.Description, URL: e.Payload.URL, Commit: e.Payload.Commit, By: contract.ByForge,
	}
	switch forge.CheckState(e.Result) {
	case forge.CheckSuccess:
		m.Conclusion = contract.ConclusionSuccess
		return s.send(ctx, run, m)
	case forge.CheckFailure:
	default:
		return ignored("the check could not run, and no code change can fix that; run it again")
	}
	if e.Payload.Commit != run.Commit {
		return ignored("the check is about commit %.12s, but the run has released %.12s since", e.Payload.Commit, run.Commit)
	}
	log, err := s.checkLog(ctx, e)
	switch {
	case err != nil && e.Attempt >= logAttempts && ctx.Err() == nil:
		s.noteLimit(e.Forge, err)
		s.Log.WarnContext(ctx, "The log of a failed check could not be read; the run gets its result without it", "forge", e.Forge, "repository", e.Repo, "check", e.Name, "error", err)
		m.Summary = strings.TrimSpace(m.Summary + "\nThe log of the check could not be read: " + telemetry.Redact(fault.Of(err).Message))
	case err != nil:
		return forgeevents.Outcome{RunID: run.RunID}, err
	}
	m.Conclusion, m.Details = contract.ConclusionFailure, log
	return s.send(ctx, run, m)
}

// checkLog returns the end of the log of a failed check. Without rights to read it, there is none.
func (s *Service) checkLog(ctx context.Context, e forgeevents.Event) (string, error) {
	service, err := s.Forges.Named(e.Forge)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()
	log, err := service.CheckLog(ctx, e.Repo, forge.Check{
		ID: e.Payload.ID, Name: e.Name, State: forge.CheckState(e.Result), Description: e.Payload.Description, URL: e.Payload.URL,
	}, contract.CheckText)
	if err != nil && fault.Of(err).Class != contract.ClassInfra {
		s.Log.WarnContext(ctx, "The log of a failed check could not be read; the run gets its result without it", "forge", e.Forge, "repository", e.Repo, "check", e.Name, "error", err)
		return "", nil
	}
	return telemetry.Redact(telemetry.Visible(strings.ToValidUTF8(log, "�"))), err
}

// decideComment sends a comment to the run if a person with sufficient rights wrote it to the run:
// nobody else instructs runs.
func (s *Service) decideComment(ctx context.Context, e forgeevents.Event, run forgeevents.Holder) (forgeevents.Outcome, error) {
	p := e.Payload
	service, err := s.Forges.Named(e.Forge)
	if err != nil {
		return forgeevents.Outcome{}, err
	}
	own, err := s.ownLogin(ctx, service, e.Forge, e.Repo)
	switch {
	case err != nil:
		return forgeevents.Outcome{RunID: run.RunID}, err
	case isOwn(p.Author, p.Body, own):
		return ignored("a run wrote the comment")
	case p.Earlier:
		return ignored("the comment is older than the run's pull request")
	case p.Edited && s.Commenters >= forge.PermissionAdmin:
		return ignored("the comment was edited, perhaps by a person with fewer rights than its author (git.pull_request.commenters: admin)")
	case p.Bot:
		return ignored("a bot wrote the comment")
	case s.ignores(p.Author):
		return ignored("comments of %s do not count (git.pull_request.ignore)", p.Author)
	case strings.TrimSpace(p.Body) == "":
		return ignored("the comment is empty")
	case p.Path == "" && !p.Review && !mentions(p.Body, s.Mention):
		return ignored("the comment does not contain %s (git.pull_request.mention)", s.Mention)
	}
	may, err := service.Permission(ctx, e.Repo, p.Author)
	switch {
	case err != nil:
		return forgeevents.Outcome{RunID: run.RunID}, err
	case may < s.Commenters:
		return ignored("%s lacks the permission that people need so that runs carry out their comments (git.pull_request.commenters)", p.Author)
	}
	summary := fmt.Sprintf("%s wrote on pull request %d.", p.Author, e.Number)
	if p.Path != "" && p.Commit != "" {
		summary = fmt.Sprintf("%s wrote on pull request %d, about line %d of %s as of commit %.12s.", p.Author, e.Number, p.Line, line(p.Path, maxLine), p.Commit)
	}
	return s.send(ctx, run, contract.CheckMessage{
		ID: messageID(e), Kind: contract.CheckComment, Name: e.Name, Summary: summary, Details: p.Body, URL: p.URL, By: p.Author,
		Answer: &contract.CommentRef{
			Forge: e.Forge, Repo: e.Repo, Number: e.Number, Comment: p.ID, Thread: p.Thread, Path: p.Path, Line: p.Line, Commit: p.Commit, URL: p.URL, Event: e.Key, At: p.At,
		},
	})
}

// mentions reports whether a comment contains a mention as a word, in any case, outside of lines that
// quote another comment.
func mentions(body, mention string) bool {
	mention = strings.ToLower(mention)
	for line := range strings.Lines(body) {
		if strings.HasPrefix(strings.TrimSpace(line), ">") {
			continue
		}
		rest := strings.ToLower(line)
		for {
			before, after, found := strings.Cut(rest, mention)
			if !found {
				break
			}
			last, _ := utf8.DecodeLastRuneInString(before)
			next, _ := utf8.DecodeRuneInString(after)
			if (before == "" || !ofWord(last)) && (after == "" || !ofWord(next)) {
				return true
			}
			rest = after
		}
	}
	return false
}

// ofWord reports whether a character is part of a name on a forge.
func ofWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_' || r == '@' || r == '/'
}

// PermissionOf returns the permission of the setting git.pull_request.commenters.
func PermissionOf(setting string) forge.Permission {
	switch setting {
	case "read":
		return forge.PermissionRead
	case "admin":
		return forge.PermissionAdmin
	default:
		return forge.PermissionWrite
	}
}
