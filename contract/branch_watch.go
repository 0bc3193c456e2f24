package contract

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// UpdateCheck informs a run that watches its branch of an event after the release; see
// CheckMessage. It also exists as a signal of the same name.
const UpdateCheck = "check"

// ActivityTakeCheck stores a message about a branch and returns whether it needs a fix.
const ActivityTakeCheck = "rgpt.run.TakeCheck"

// CheckKind is the kind of a message about a released branch.
type CheckKind string

// The kinds of messages.
const (
	CheckRun     CheckKind = "check"   // of a CI system: its conclusion counts
	CheckComment CheckKind = "comment" // of a person who reviewed the branch: the requested change
	CheckPush    CheckKind = "push"    // people moved the branch to the message's commit
	CheckBase    CheckKind = "base"    // the base of the pull request has commits that the branch needs
)

// The conclusions of a check.
const (
	ConclusionFailure = "failure"
	ConclusionSuccess = "success"
)

// The conclusions of a message about the base: why the branch needs its commits.
const (
	ConclusionConflict = "conflict" // the forge says that the branch conflicts with it
	ConclusionBehind   = "behind"   // the forge or the settings demand that the branch has its newest commit
)

// CheckMessage is a message from a CI system or a reviewer about a released branch. ID makes it
// idempotent: a repeat with the same id changes nothing.
type CheckMessage struct {
	ID         string    `json:"id"`
	Kind       CheckKind `json:"kind,omitempty"`       // empty: check
	Name       string    `json:"name"`                 // of the check; for a comment, its location
	Conclusion string    `json:"conclusion,omitempty"` // of a check: failure or success
	Summary    string    `json:"summary,omitempty"`
	Details    string    `json:"details,omitempty"` // the text of the log or comment
	Commit     string    `json:"commit,omitempty"`  // the commit concerned; empty: the one released when it arrives
	URL        string    `json:"url,omitempty"`     // for people
	By         string    `json:"by,omitempty"`
	// Answer is the comment on a forge that the run answers; nil: it answers nothing.
	Answer *CommentRef `json:"answer,omitempty"`
}

// CommentRef refers to a comment on a pull request.
type CommentRef struct {
	Forge   string    `json:"forge"` // name in the configuration
	Repo    string    `json:"repo"`  // path on the forge
	Number  int64     `json:"number"`
	Comment string    `json:"comment"`          // its id on the forge
	Thread  string    `json:"thread,omitempty"` // of the comment on the forge
	Path    string    `json:"path,omitempty"`   // of a comment on a line
	Line    int       `json:"line,omitempty"`
	Commit  string    `json:"commit,omitempty"` // that a comment on a line was made on
	URL     string    `json:"url,omitempty"`
	Event   string    `json:"event"` // key of its event in the inbox
	At      time.Time `json:"at"`    // when it was written
}

// ActivityAnswer answers a comment on a pull request.
const ActivityAnswer = "rgpt.releaser.Answer"

// AnswerInput is the input for answering a comment.
type AnswerInput struct {
	RunID   int64      `json:"run_id"`
	Message string     `json:"message"` // id of the message; the comment is answered once for it
	To      CommentRef `json:"to"`
	Branch  string     `json:"branch"`
	Before  string     `json:"before,omitempty"` // commit that was released before
	Commit  string     `json:"commit"`           // commit that is released now
	// NotDone is why the comment was not carried out, "" if it was.
	NotDone string `json:"not_done,omitempty"`
}

// Limits of a CheckMessage.
const (
	// CheckText is the number of bytes kept of a message's details, from their end.
	CheckText = 32 << 10
	// CheckLine is the maximum length of its summary and its address in bytes.
	CheckLine = 2 << 10
	// CheckName is the maximum length of its id, name, commit and sender in bytes.
	CheckName = 200

	checkJSON = PayloadLimit * 3 / 4 // of the whole message, with escapes
)

// Failed reports whether a message requires a fix.
func (m CheckMessage) Failed() bool {
	return m.Kind == CheckComment || m.Conclusion == ConclusionFailure && m.Kind != CheckPush
}

// Problem describes what is missing or invalid in a message, "" if nothing is.
func (m CheckMessage) Problem() string {
	switch {
	case m.ID == "" || len(m.ID) > CheckName:
		return "needs an id of 1 to 200 bytes"
	case m.Name == "" || len(m.Name) > CheckName:
		return "needs a name of 1 to 200 bytes"
	case m.Kind == CheckPush && m.Commit == "":
		return "is about a push without a commit; add the commit to which the branch was moved"
	case m.Kind == CheckPush:
		return ""
	case m.Kind == CheckBase && (m.Commit == "" || m.Conclusion != ConclusionConflict && m.Conclusion != ConclusionBehind):
		return "is about the base, so it needs the commit of the branch, and the conclusion \"conflict\" or \"behind\""
	case m.Kind == CheckBase:
		return ""
	case m.Kind != "" && m.Kind != CheckRun && m.Kind != CheckComment:
		return "has an unknown kind; use \"check\", \"comment\", \"push\" or \"base\""
	case m.Kind == CheckComment && strings.TrimSpace(m.Summary+m.Details) == "":
		return "is an empty comment; add details"
	case m.Kind != CheckComment && m.Conclusion != ConclusionFailure && m.Conclusion != ConclusionSuccess:
		return "needs a conclusion: \"failure\" or \"success\""
	}
	return ""
}

// Truncate returns the message within its limits. It keeps the end of the details, which usually
// names the failure.
func (m CheckMessage) Truncate() CheckMessage {
	m.Kind = cmp.Or(m.Kind, CheckRun)
	m.ID, m.Name = truncate(m.ID, CheckName+1), truncate(m.Name, CheckName+1) // still too long, for Problem to report
	m.Commit, m.By = truncate(m.Commit, CheckName), truncate(m.By, CheckName)
	m.Summary, m.URL = truncate(m.Summary, CheckLine), truncate(m.URL, CheckLine)
	m.Answer = m.Answer.bounded()
	for most := CheckText; ; most /= 2 {
		if n := len(m.Details); n > most+len("…") {
			start := n - most
			for start < n && !utf8.RuneStart(m.Details[start]) {
				start++
			}
			m.Details = "…" + m.Details[start:]
		}
		if raw, err := json.Marshal(m); err != nil || len(raw) <= checkJSON || most == 0 {
			return m
		}
	}
}

// bounded returns the reference, or nil if it cannot be one of a forge.
func (c *CommentRef) bounded() *CommentRef {
	if c == nil || c.Number <= 0 || c.Forge == "" || c.Repo == "" || c.Comment == "" || len(c.Path) > CheckLine || len(c.URL) > CheckLine {
		return nil
	}
	for _, text := range []string{c.Forge, c.Repo, c.Comment, c.Thread, c.Commit, c.Event} {
		if len(text) > refName {
			return nil
		}
	}
	return c
}

// refName is the maximum length of each name in a CommentRef.
const refName = 1000

// truncate cuts a text at its end.
func truncate(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-len("…")], "") + "…"
}

// TakeCheckInput is the input for storing and counting a message.
type TakeCheckInput struct {
	RunID      int64        `json:"run_id"`
	Repo       string       `json:"repo"`
	Branch     string       `json:"branch"`
	MaxRepairs int          `json:"most"` // repairs of the branch, across all runs
	Message    CheckMessage `json:"message"`
}

// TakeCheckResult is the decision on a message.
type TakeCheckResult struct {
	ID             int64   `json:"id"`     // of its row
	Repair         int     `json:"repair"` // number of the repair of the branch, from 1; 0: MaxRepairs has been reached
	AcceptedBefore bool    `json:"again"`  // it was accepted before this run was replayed
	Failure        Failure `json:"failure"`
}

// BranchWatch is the visible state of a run that watches its branch.
type BranchWatch struct {
	Until      time.Time `json:"until"`
	Repairs    int       `json:"repairs"` // of this run, since its first release
	MaxRepairs int       `json:"max_repairs"`
	Waiting    int       `json:"waiting"`         // messages that are not handled yet
	Ignored    int       `json:"ignored"`         // messages without effect
	Check      string    `json:"check,omitempty"` // the name of the check being fixed
}

// isHex reports whether a text can be part of a commit id.
func isHex(s string) bool {
	return !slices.ContainsFunc([]byte(s), func(c byte) bool { return !strings.ContainsRune("0123456789abcdef", rune(c)) })
}

// About reports whether a message is about a commit, whose id it may shorten.
func (m CheckMessage) About(commit string) bool {
	const short = 7
	named := strings.ToLower(m.Commit)
	return named == commit || len(named) >= short && isHex(named) && strings.HasPrefix(commit, named)
}
