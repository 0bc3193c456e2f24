package ui

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// eventState returns the display state of an event.
func eventState(t contract.EventType) State {
	name := string(t)
	switch t {
	case contract.EventModelFallback, contract.EventModelWaiting:
		return Waiting
	case contract.EventModelRestored:
		return Done
	case contract.EventAgentError, contract.EventOrchestrationAborted, contract.EventRecoveryFailed:
		return Failed
	case contract.EventConsensusReached, contract.EventConflictResolved:
		return Done
	case contract.EventOrchestrationStarted, contract.EventAgentSpawned, contract.EventGammaSpawned:
		return Running
	case contract.EventRecoveryStarted:
		return Healing
	default: // its name says it all
	}
	switch {
	case strings.HasSuffix(name, ".error"), strings.HasSuffix(name, ".failed"), strings.HasSuffix(name, ".rejected"), t == contract.EventAgentRevoked:
		return Failed
	case strings.HasPrefix(name, "approval.requested"), strings.HasPrefix(name, "input.requested"), strings.HasPrefix(name, "intervention.re"), strings.HasSuffix(name, ".expired"), t == contract.EventChangeSetWaiting:
		return Waiting
	case t == contract.EventHealStarted:
		return Healing
	case strings.HasSuffix(name, ".completed"), strings.HasSuffix(name, ".success"), strings.HasSuffix(name, ".granted"), strings.HasSuffix(name, ".passed"):
		return Done
	case strings.HasSuffix(name, ".started"):
		return Running
	default:
		return Queued
	}
}

// EventWords summarizes the payload of an event on one line.
func EventWords(e contract.Event) string {
	var p map[string]any
	if json.Unmarshal(e.Payload, &p) != nil {
		return ""
	}
	text := func(names ...string) string {
		for _, name := range names {
			if v, ok := p[name].(string); ok && v != "" {
				return strings.ReplaceAll(Cut(v, 300), "\n", " ")
			}
		}
		return ""
	}
	var parts []string
	for _, part := range []string{
		text("step"), text("action", "heal_action"), text("error_type", "class"), text("severity"),
		text("message", "error_message", "reason", "name", "root_cause", "summary", "goal_title"), text("status"), text("branch"), text("model"), text("by"), pullRequestWords(e),
	} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if n, ok := p["attempt"].(float64); ok && n > 1 {
		parts = append(parts, fmt.Sprintf("attempt %.0f", n))
	}
	return strings.Join(parts, " · ")
}

// pullRequestWords names the pull request of an event about one, "" of others.
func pullRequestWords(e contract.Event) string {
	var p struct {
		Repo   string `json:"repository"`
		Number int64  `json:"number"`
	}
	if !strings.HasPrefix(string(e.Type), contract.EventPullRequestPrefix) || json.Unmarshal(e.Payload, &p) != nil {
		return ""
	}
	return fmt.Sprintf("%s #%d", Cut(p.Repo, 100), p.Number)
}

// ConsoleEvent formats an event as a line of the console.
func ConsoleEvent(e contract.Event) ConsoleLine {
	return ConsoleLine{
		ID: fmt.Sprintf("c-event-%d", e.Seq), At: e.CreatedAt, Class: eventState(e.Type).class(), Word: string(e.Type), Text: EventWords(e),
		Href: fmt.Sprintf("/runs/%d/events?order=oldest&at=%d#event-%d", e.RunID, e.Seq, e.Seq),
	}
}
