package ui

import (
	"fmt"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/store/messages"
)

// MessageState says which agents got a message, or that none has got it yet.
func MessageState(m messages.Message) string {
	if len(m.Deliveries) == 0 {
		if m.Step != "" {
			return "not delivered yet, for " + Cut(m.Step, maxShownStep)
		}
		return "not delivered yet"
	}
	const shown = 3
	var to []string
	for i, d := range m.Deliveries {
		if i == shown {
			to = append(to, fmt.Sprintf("%d more", len(m.Deliveries)-shown))
			break
		}
		name := string(d.Agent)
		if d.Step != "" {
			name += " of " + Cut(d.Step, maxShownStep)
		}
		to = append(to, fmt.Sprintf("%s (turn %d)", name, d.Turn))
	}
	return "delivered to the " + strings.Join(to, ", ")
}

// maxShownStep is the length to which a step's name is cut in a line.
const maxShownStep = 40
