package report

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// The part of a pull request about its change set is between these marks, so that it can be replaced.
const (
	setBegin = "<!-- rgpt:change-set -->"
	setEnd   = "<!-- rgpt:change-set end -->"
)

var setPart = regexp.MustCompile(`(?s)` + setBegin + `.*?` + setEnd)

// ChangeSet is the part of a pull request about the change set to which it belongs.
type ChangeSet struct {
	Set  changesets.Set
	Run  int64                  // of the set, that the pull request belongs to
	Link func(run int64) string // address of a run's page; nil: none
}

// Section returns the part: the pull requests of the other repositories, and what is missing with its
// reason. Reasons and names are escaped.
func (c ChangeSet) Section() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n## Change set\n\n", setBegin)
	missing := 0
	for _, m := range c.Set.Runs {
		if c.missing(m) {
			missing++
		}
	}
	fmt.Fprintf(&b, "This change belongs to change set %d, together with those of other repositories.", c.Set.ID)
	if missing > 0 {
		fmt.Fprintf(&b, " **It is incomplete: %d of %d changes are missing.**", missing, len(c.Set.Runs))
	}
	b.WriteString("\n\n| repository | change |\n| --- | --- |\n")
	for _, m := range c.Set.Runs {
		name := m.Project
		if m.PullRequest != nil {
			name = m.PullRequest.Repo
		}
		fmt.Fprintf(&b, "| %s | %s |\n", code(telemetry.Redact(name)), c.change(m))
	}
	fmt.Fprintf(&b, "\n%s", setEnd)
	return b.String()
}

// Draft reports whether new pull requests of the set are drafts, because it was released without some of
// its runs.
func (c ChangeSet) Draft() bool {
	return c.Set.Outcome == contract.OutcomeIncomplete && c.Set.Settings.Incomplete == contract.IncompleteDraft
}

// missing reports whether the change of a run is not to be had: neither as a pull request or branch, nor
// because nothing had to be changed.
func (c ChangeSet) missing(m changesets.Member) bool {
	if m.PullRequest != nil {
		return m.PullRequest.State == contract.PullRequestClosed
	}
	return m.Status != contract.StatusDone && !c.releasing(m)
}

// releasing reports whether a run was ready when the set was decided about, and is not released yet.
func (c ChangeSet) releasing(m changesets.Member) bool {
	return m.ReadyAt != nil && !m.Ended() && c.Set.DecidedAt != nil
}

// change says what became of a run.
func (c ChangeSet) change(m changesets.Member) string {
	who := fmt.Sprintf("run %d", m.RunID)
	if c.Link != nil && m.RunID != c.Run {
		if address := c.Link(m.RunID); address != "" {
			who = fmt.Sprintf("[run %d](%s)", m.RunID, address)
		}
	}
	if p := m.PullRequest; p != nil {
		return c.pullRequest(m, *p)
	}
	switch {
	case m.RunID == c.Run:
		return "this pull request"
	case m.Status == contract.StatusDone && m.Branch != "":
		return fmt.Sprintf("branch %s, without a pull request (%s)", code(m.Branch), who)
	case m.Status == contract.StatusDone:
		return fmt.Sprintf("nothing had to be changed (%s)", who)
	case c.releasing(m):
		return fmt.Sprintf("being released (%s)", who)
	}
	why, failure := m.Missing()
	if failure != "" {
		failure = ": " + escape(failure)
	}
	return fmt.Sprintf("**missing**: %s (%s)%s", why, who, failure)
}

// pullRequest links the pull request of a run.
func (c ChangeSet) pullRequest(m changesets.Member, p changesets.PullRequest) string {
	state := string(p.State)
	if p.Draft && p.State == contract.PullRequestOpen {
		state = "draft"
	}
	if m.RunID == c.Run {
		return "this pull request"
	}
	text := fmt.Sprintf("pull request %d", p.Number)
	if u, err := url.Parse(p.URL); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil {
		text = fmt.Sprintf("[%s](%s)", text, strings.NewReplacer("(", "%28", ")", "%29", "|", "%7C").Replace(u.String()))
	}
	note := ""
	if p.State == contract.PullRequestClosed {
		note = ": **missing**"
	}
	return fmt.Sprintf("%s (%s)%s", text, cmp.Or(state, "open"), note)
}

// WithSection returns the body of a pull request with another part about its change set, and whether it
// has one: a person may have removed it.
func WithSection(body, section string) (string, bool) {
	at := setPart.FindStringIndex(body)
	if at == nil {
		return body, false
	}
	return body[:at[0]] + section + body[at[1]:], true
}
