package prompt

// Message is a message from a person to an agent at work.
type Message struct {
	By   string // on one line; empty: unknown
	Text string
}

// Messages renders messages from people for an agent's next turn.
func Messages(all []Message) (string, error) { return executed("messages", all) }
