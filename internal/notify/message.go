package notify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

const (
	maxItems = 20  // notifications that a message shows; it says how many more there are
	maxFact  = 300 // characters of a text from a model, a repository or a person
)

// message is what a channel sends. Only the texts of facts come from models, repositories or people.
type message struct {
	key       string    // the same in each attempt to send it, and in no other message of the database
	at        time.Time // when it was put together
	title     string
	items     []item
	more      int    // notifications that are not shown
	waits     bool   // a run waits for a person
	dashboard string // URL; may be empty
}

// item is a notification.
type item struct {
	headline string
	facts    []fact
	path     string // of the page in the dashboard: of the run or its change set
	page     string // what that page shows: a run or a change set
	link     string // to that page; may be empty
	command  string // with which a person answers; may be empty
}

// fact is a text from a model, a repository or a person, with our name for it. The text is one line
// without secrets, invisible characters and control characters; what else it needs depends on the channel
// that sends it.
type fact struct{ name, text string }

// newFact cleans a text.
func newFact(name, text string) fact {
	text = terminal.OneLine(telemetry.Redact(text))
	if r := []rune(text); len(r) > maxFact {
		text = string(r[:maxFact]) + "…"
	}
	return fact{name, text}
}

// compose returns the content of a message. All its events must be stored.
func compose(m notifications.Message, dashboard string) message {
	dashboard = strings.TrimRight(dashboard, "/")
	out := message{key: fmt.Sprintf("%d.%d", m.ID, m.Composed.UnixMicro()), at: m.Composed, dashboard: dashboard}
	kinds := map[string]int{}
	for i, e := range m.Entries {
		kinds[e.Kind]++
		if i < maxItems {
			out.items = append(out.items, newItem(e, dashboard))
		}
	}
	out.waits = kinds[config.NotifyWaits] > 0
	out.more = len(m.Entries) - len(out.items)
	out.title = titleOf(out.items, len(m.Entries), kinds)
	return out
}

func titleOf(items []item, all int, kinds map[string]int) string {
	if all == 1 {
		return items[0].headline
	}
	words := map[string]string{config.NotifyWaits: "waiting", config.NotifyFailed: "failed", config.NotifyDone: "done", config.NotifyBudget: "about budgets"}
	var parts []string
	for _, kind := range config.NotifyKinds() {
		if n := kinds[kind]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, words[kind]))
		}
	}
	return fmt.Sprintf("%d notifications: %s", all, strings.Join(parts, ", "))
}

// details are the parts of events' payloads that messages show.
type details struct {
	Kind     string     `json:"kind"`
	Reason   string     `json:"reason"`
	Action   string     `json:"action_required"`
	Question string     `json:"question"`
	Options  []string   `json:"options"`
	Deadline *time.Time `json:"deadline"`
	Problem  string     `json:"error_message"`
	Warning  string     `json:"warning"`
	Set      int64      `json:"change_set"`
}

// newItem describes a notification.
func newItem(e notifications.Entry, dashboard string) item {
	var d details
	_ = json.Unmarshal(e.Payload, &d) // what cannot be read is not shown
	run := fmt.Sprintf("Run %d", e.RunID)
	out := item{facts: []fact{newFact("Project", e.Project), newFact("Goal", e.Goal)}}
	add := func(name, text string) {
		if text != "" {
			out.facts = append(out.facts, newFact(name, text))
		}
	}
	subject, after, _ := strings.Cut(string(e.Type), ".")
	switch {
	case after == "reminded":
		out.headline = "Reminder: " + strings.ToLower(run[:1]) + run[1:] + " still waits for an answer"
	case after == "escalated":
		out.headline = "Escalation: " + strings.ToLower(run[:1]) + run[1:] + " still waits for an answer"
	case e.Type == contract.EventApprovalRequested && d.Kind == contract.ApprovalPlan:
		out.headline = run + " waits for approval of its plan"
	case e.Type == contract.EventApprovalRequested:
		out.headline = run + " waits for approval of its release"
	case e.Type == contract.EventInputRequested:
		out.headline = run + " asks a question"
	case e.Type == contract.EventInterventionRequested:
		out.headline = run + " needs help"
	case e.Type == contract.EventChangeSetWaiting:
		out.headline = fmt.Sprintf("Change set %d waits for a decision", d.Set)
	case e.Type == contract.EventRunFailed:
		out.headline = run + " failed"
	case e.Kind == config.NotifyDone && e.Type == contract.EventRunUpdated:
		out.headline = run + " is done"
	case e.Kind == config.NotifyDone:
		out.headline = run + " is done: its change is released"
		add("Branch", e.Branch)
	case e.Type == contract.EventBudgetWarning:
		out.headline = run + ": a budget is nearly used up"
	default:
		out.headline = run + ": a budget is used up"
	}
	add("Question", d.Question)
	add("Options", strings.Join(d.Options, " / "))
	add("Reason", cmp.Or(d.Problem, d.Warning, d.Reason))
	add("Needed", d.Action)
	if d.Deadline != nil {
		add("Until", d.Deadline.UTC().Format(time.DateTime+" MST"))
	}
	if e.Kind == config.NotifyWaits {
		out.command = fmt.Sprintf("rgpt run approve %d", e.RunID)
		if subject == "input" {
			out.command = fmt.Sprintf("rgpt run answer %d OPTION", e.RunID)
		}
	}
	out.path, out.page = fmt.Sprintf("/runs/%d", e.RunID), "run"
	if e.Type == contract.EventChangeSetWaiting {
		out.path, out.page = fmt.Sprintf("/change-sets/%d", d.Set), "change set"
		out.command = fmt.Sprintf("rgpt set release %d", d.Set)
	}
	if dashboard != "" {
		out.link = dashboard + out.path
	}
	return out
}

// lines are the parts of a message as lines, for recipients that show plain text. quote makes the text of
// a fact harmless for them.
func (i item) lines(quote func(string) string) []string {
	out := []string{i.headline}
	for _, f := range i.facts {
		out = append(out, f.name+": "+quote(f.text))
	}
	if i.link != "" {
		out = append(out, "Link: "+i.link)
	}
	if i.command != "" {
		out = append(out, "Command: "+i.command)
	}
	return out
}

// rest says how many notifications a message does not show; empty if it shows all.
func (m message) rest() string {
	if m.more == 0 {
		return ""
	}
	return fmt.Sprintf("and %d more: rgpt notification list", m.more)
}
