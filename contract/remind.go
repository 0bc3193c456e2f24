package contract

import (
	"strings"
	"time"
)

// Receivers of reminders. A further kind needs a prefix here and the code that delivers to it.
const (
	// ReceiverPage is the run's page, its events and the command line, where every reminder is shown.
	ReceiverPage = "page"
	// ReceiverWebhook is the prefix of the name of a webhook, which gets the reminder even if it is not
	// registered for such events.
	ReceiverWebhook = "webhook:"
	// ReceiverChannel is the prefix of the name of a notification channel (notifications), which gets the
	// reminder even if it is not notified of questions.
	ReceiverChannel = "channel:"
)

// Reminder is a reminder of a question to a person, with a time either since it was asked or before its
// deadline. It is skipped if the question has less time.
type Reminder struct {
	After  time.Duration `json:"after,omitempty"`
	Before time.Duration `json:"before,omitempty"`
	To     []string      `json:"to,omitempty"` // receivers
	// Escalate says that the reminder is an escalation: others must answer now.
	Escalate bool `json:"escalate,omitempty"`
}

// PlannedReminder is a reminder of a question that was asked, in the event of the question.
type PlannedReminder struct {
	Number     int       `json:"number"` // from 1
	At         time.Time `json:"at"`
	To         []string  `json:"to,omitempty"`
	Escalation bool      `json:"escalation,omitempty"`
}

// WebhookOf returns the name of the webhook that a receiver is, "" if it is none.
func WebhookOf(receiver string) string { return named(receiver, ReceiverWebhook) }

// ChannelOf returns the name of the notification channel that a receiver is, "" if it is none.
func ChannelOf(receiver string) string { return named(receiver, ReceiverChannel) }

func named(receiver, prefix string) string {
	name, ok := strings.CutPrefix(receiver, prefix)
	if !ok {
		return ""
	}
	return name
}
