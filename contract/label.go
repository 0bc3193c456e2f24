package contract

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The events of the labels of a run.
const (
	EventLabelAdded   EventType = "label.added"
	EventLabelRemoved EventType = "label.removed"
)

// SignalLabels says to a run's workflow that its labels were changed, so that the policy gate judges
// its release again.
const SignalLabels = "labels"

// Limits of labels.
const (
	MaxLabels     = 50  // of a run
	MaxLabelBytes = 100 // of one label
)

// LabelProblem returns why a text cannot be a label; empty: it can.
func LabelProblem(label string) string {
	switch {
	case label == "":
		return "is empty"
	case len(label) > MaxLabelBytes:
		return "is longer than 100 bytes"
	case !utf8.ValidString(label), strings.TrimSpace(label) != label:
		return "must be valid UTF-8 without spaces around it"
	case strings.ContainsFunc(label, func(r rune) bool { return !unicode.IsPrint(r) || r == ',' }):
		return "must have printable characters only, and no comma"
	}
	return ""
}
