package ui

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// State is a display state. All statuses are mapped to these few.
type State string

// The states.
const (
	Queued  State = "queued"
	Running State = "running"
	Waiting State = "waiting"
	Healing State = "healing"
	Paused  State = "paused"
	Done    State = "done"
	Failed  State = "failed"
	Stopped State = "stopped"
)

var runStates = map[contract.Status]State{
	contract.StatusDone:               Done,
	contract.StatusFailed:             Failed,
	contract.StatusCancelled:          Stopped,
	contract.StatusPaused:             Paused,
	contract.StatusPending:            Queued,
	contract.StatusWaitingForApproval: Waiting,
	contract.StatusWaitingForInput:    Waiting,
	contract.StatusSelfHeal:           Healing,
}

// StateOf returns the state for a run's status.
func StateOf(s contract.Status) State { return cmp.Or(runStates[s], Running) }

// ExecutionState returns the state for an execution.
func ExecutionState(s contract.ExecutionStatus) State {
	switch s {
	case contract.ExecutionCompleted:
		return Done
	case contract.ExecutionFailed:
		return Failed
	case contract.ExecutionCancelled:
		return Stopped
	default:
		return Running
	}
}

// HealState returns the state for a heal.
func HealState(s contract.HealStatus) State {
	switch s {
	case contract.HealSuccess:
		return Done
	case contract.HealFailed:
		return Failed
	default:
		return Healing
	}
}

var stateIcons = map[State]string{
	Running: "circle-dot", Waiting: "hand", Healing: "bandage", Paused: "circle-pause", Done: "circle-check", Failed: "circle-x", Stopped: "ban",
}

// icon returns the icon of a state.
func (s State) icon() string { return cmp.Or(stateIcons[s], "circle-dashed") }

// word returns a state's name for users.
func (s State) word() string { return strings.ToUpper(string(s[:1])) + string(s[1:]) }

func (s State) class() string { return "s-" + string(s) }

// CostOf formats the cost of a usage, and says if it is estimated because a price is unknown.
func CostOf(u contract.Usage) string { return costOf(u.MicroUSD, u.EstimatedPrice) }

func costOf(micros int64, estimated bool) string {
	return contract.MarkEstimated(Dollars(micros), estimated)
}

// Dollars formats millionths of a dollar: $0.42, $0.0031, $12.
func Dollars(micros int64) string {
	d := float64(micros) / 1e6
	switch {
	case micros == 0:
		return "$0"
	case d < 0.01:
		return fmt.Sprintf("$%.4f", d)
	case d < 1000:
		return fmt.Sprintf("$%.2f", d)
	default:
		return "$" + grouped(int64(d+0.5))
	}
}

// Count formats a number: 812, 81k, 1.2M.
func Count(n int64) string {
	switch {
	case n < 1000:
		return strconv.FormatInt(n, 10)
	case n < 10_000:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1000)
	default:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
}

// grouped formats a number with spaces between its thousands.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "\u2009" + text[at:]
	}
	return text
}

// Size formats a number of bytes: 812 B, 3.4 KiB.
func Size(n int64) string {
	const step = 1024
	value, unit := float64(n), ""
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < step {
			break
		}
		value, unit = value/step, next
	}
	if unit == "" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

// Lasted formats a duration with at most two units: 340ms, 12s, 2m 10s, 3h 5m, 2d 4h.
func Lasted(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return twoUnits(d, time.Minute, "m", time.Second, "s")
	case d < day:
		return twoUnits(d, time.Hour, "h", time.Minute, "m")
	default:
		return twoUnits(d, day, "d", time.Hour, "h")
	}
}

func twoUnits(d, big time.Duration, bigName string, small time.Duration, smallName string) string {
	if rest := d % big / small; rest > 0 {
		return fmt.Sprintf("%d%s %d%s", d/big, bigName, rest, smallName)
	}
	return fmt.Sprintf("%d%s", d/big, bigName)
}

// Age formats an elapsed time with one unit: 12s, 4m, 3h, 2d.
func Age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}

// Exact formats a moment for machines and for tooltips.
func Exact(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 MST") }

// Short returns the beginning of a commit or a digest.
func Short(s string) string { return s[:min(len(s), 10)] }

// Cut limits a text to a number of bytes.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Words formats an identifier as words: correct_json becomes correct json.
func Words[T ~string](name T) string { return strings.ReplaceAll(string(name), "_", " ") }

// plural formats a number with its noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

func percent(part, all float64) string {
	if all <= 0 {
		return "0%"
	}
	return fmt.Sprintf("%.3f%%", 100*min(max(part/all, 0), 1))
}

// query escapes a value for the query of an address.
func query(v string) string { return url.QueryEscape(v) }
