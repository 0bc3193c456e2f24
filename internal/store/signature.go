package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// signature identifies what a record is about, so that it is recognized under another number. It
// does not include the time or the run's state: those differ when a workflow task is repeated. It
// has two parts, separated by |. The first describes what the rows themselves prevent from
// happening twice: the end of the run ("over") or of an execution, and the events that belong to
// it. These may arrive with a different record than before. The second describes everything else
// that happened; it may be empty.
func signature(r contract.Record) string {
	var ended, told strings.Builder
	if r.Run != nil && r.Run.Finished {
		ended.WriteString("over ")
	}
	events := r.Events
	own := min(max(r.EndEvents, 0), len(events))
	if r.End != nil {
		// The outcome is not included: an execution ends only once.
		fmt.Fprintf(&ended, "end %d ", r.End.ExecutionID)
	}
	write(&ended, events[:own])
	events = events[own:]
	if r.End != nil {
		if r.EndEvents == 0 && len(events) > 0 { // the events belong to that end
			fmt.Fprintf(&told, "end %d ", r.End.ExecutionID)
		}
	}
	write(&told, events)
	if b := r.Begin; b != nil {
		fmt.Fprintf(&told, "begin %s/%s ", b.Phase, strings.ReplaceAll(b.Step, "|", "/"))
		if b.With != "" {
			fmt.Fprintf(&told, "with %s ", digest(b.With))
		}
	}
	for _, h := range r.Heals {
		if r.EndEvents > 0 && (h.Status == contract.HealSuccess || h.Status == contract.HealFailed) {
			continue // the end covers it
		}
		fmt.Fprintf(&told, "heal %d %s ", h.Number, h.Status)
	}
	for _, i := range r.Interventions {
		fmt.Fprintf(&told, "intervention %d %s ", i.Number, i.Status)
	}
	if id := r.Notes["id"]; id != "" {
		fmt.Fprintf(&told, "approval %s %s ", digest(id), digest(r.Notes["status"]))
	}
	return ended.String() + "|" + told.String()
}

// write writes the types of events. For an updated run, the changes are part of the signature: a
// pause is not a resume. For a message, its id and text are: two messages are two.
func write(to *strings.Builder, events []contract.EventDraft) {
	for _, e := range events {
		to.WriteString(strings.ReplaceAll(string(e.Type), "|", "/"))
		if e.Type == contract.EventRunUpdated || e.Type == contract.EventMessageAdded {
			to.WriteString(":" + changes(e.Payload))
		}
		to.WriteByte(' ')
	}
}

// changes returns the digest of the names and plain values of a payload.
func changes(payload any) string {
	raw, err := json.Marshal(payload)
	if err != nil {
		return "" // encoding the record reports the error
	}
	var fields map[string]any
	if json.Unmarshal(raw, &fields) != nil {
		return "" // not an object: nothing to distinguish
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch value := fields[name].(type) {
		case map[string]any, []any:
			fmt.Fprintf(&text, "%q ", name)
		default:
			fmt.Fprintf(&text, "%q=%q ", name, fmt.Sprint(value))
		}
	}
	return digest(text.String())
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
