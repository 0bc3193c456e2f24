package activities

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/tool"
)

// A long conversation is compacted for its model. What the model sees is a pure function of the stored
// conversation and the model's context window, so it needs no state, and is the same after a retry or
// on another worker. Between two compactions nothing of it changes, so that providers can cache it:
//
//   - Results that are too long are shown in part from the beginning. The more often a conversation has
//     been compacted, the less of a result is shown.
//   - When the conversation reaches its limit, all older results become references, in one step.
//   - If that is not enough, the model is asked for a summary, which replaces the older turns. If it
//     gives none, a list of its calls does.
//
// Everything that is left out can be read with read_output; the stored conversation stays whole.

const (
	// resultParts is the part of a window that one result may fill before the first compaction; each
	// compaction halves it, down to leastResult tokens. turnParts is that of all results of a turn.
	resultParts, turnParts, leastResult = 16, 8, 512
	// recentParts is the part of the limit whose most recent results stay whole.
	recentParts = 10
	// enoughParts: references are enough if they reduce a conversation to this part of its limit.
	enoughParts = 3
	// leastTurns is how many turns a summary replaces at least.
	leastTurns = 4
	// stubBytes is the length up to which results and arguments stay as they are.
	stubBytes = 240
	// tokenBytes is the usual number of bytes of a token.
	tokenBytes = 4
	// listedCalls limits the list of calls that stands for a summary.
	listedCalls = 6 << 10
	// saidParts is the part of a window that the messages of people may fill whose turns are summarized.
	saidParts = 16
)

// contextLimit is how much of a model's context window a conversation may fill.
type contextLimit struct {
	window int64 // tokens
	limit  int64 // from which it is compacted; 0: never
}

// limitOf returns the limit of a conversation with a model, as the part of its context window that
// leaves room for a response.
func limitOf(window, output int64, part float64) contextLimit {
	if window <= 0 || part <= 0 {
		return contextLimit{}
	}
	limit := int64(part * float64(window))
	return contextLimit{window, max(min(limit, window-output), window/2)}
}

// placed is a message of a conversation with the id by which read_output finds it.
type placed struct {
	id string // of a tool's result; empty for other messages
	model.Message
}

// exchange is a response of the model, and what followed it.
type exchange []placed

// conversationView is a conversation as its model sees it.
type conversationView struct {
	messages    []model.Message
	compactions int
}

// compaction is how a conversation has been compacted up to a turn.
type compaction struct {
	stubs   int // exchanges up to it have references instead of results
	dropped int // exchanges up to it are replaced by the summary
	summary string
	given   string   // the last summary that the model gave
	covered int      // exchanges up to it are part of given
	said    []string // by people in the exchanges that are replaced
	asked   int      // the model was asked for a summary after this exchange; 0: it was not
	count   int
}

// viewWithin returns what a model sees of a conversation. base is the size of what comes before it in
// a request.
func viewWithin(opening []placed, turns []exchange, base int64, l contextLimit) conversationView {
	n := len(turns) + 1
	c := compactor{turns: turns, base: base, contextLimit: l, levels: make([]int, n), wholes: make([]int64, n), stubSizes: make([]int64, n)}
	for _, m := range opening {
		c.base += sizeOf(m.Message)
	}
	if l.limit > 0 {
		for n := 1; n <= len(turns); n++ {
			c.after(n)
		}
	}
	out := conversationView{compactions: c.count}
	for _, m := range opening {
		out.messages = append(out.messages, m.Message)
	}
	if c.summary != "" {
		out.messages = append(out.messages, model.Message{Role: model.RoleUser, Text: c.summary})
	}
	for n := c.dropped + 1; n <= len(turns); n++ {
		out.messages = append(out.messages, c.shown(n)...)
	}
	if c.asked == len(turns) && c.asked > 0 {
		out.messages = append(out.messages, model.Message{Role: model.RoleUser, Text: summaryRequest})
	}
	return out
}

// summaryRequest asks a model for a summary of its conversation.
const summaryRequest = "This conversation is about to exceed your context window. Call `summarize` now, alone, with everything that you need to continue."

// compactor replays the compactions of a conversation.
type compactor struct {
	contextLimit
	compaction
	turns  []exchange // from 1
	levels []int      // compactions before the results of an exchange were shown
	base   int64

	wholes, stubSizes []int64 // tokens of exchanges, once they are known
}

// after decides what happens to the conversation after the exchange n.
func (c *compactor) after(n int) {
	c.levels[n] = c.count
	if summary, ok := summaryIn(c.turns[n-1]); ok {
		c.given, c.covered = summary, c.recentFrom(n)-1
		c.replaceBy(n, prompt.Fenced("summary", summary))
	} else if c.asked == n-1 && c.asked > 0 {
		text := prompt.Fenced("calls", c.listCalls(c.covered, c.recentFrom(n)-1))
		if c.given != "" {
			text = prompt.Fenced("summary", c.given) + "\nAfter that:\n" + text
		}
		c.replaceBy(n, text)
	}
	size := c.size(n, c.stubs)
	if size <= c.limit {
		return
	}
	if upTo := c.recentFrom(n) - 1; upTo > c.stubs && c.size(n, upTo) <= c.limit/enoughParts {
		c.stubs = upTo
		c.count++
		return
	}
	if n-c.dropped >= leastTurns {
		c.asked = n
	}
}

// replaceBy replaces the exchanges up to the recent ones before n by a summary. What people wrote in
// them stays in view: it is an instruction, which a summary is not.
func (c *compactor) replaceBy(n int, summary string) {
	c.asked = 0
	upTo := c.recentFrom(n) - 1
	if upTo <= c.dropped {
		return
	}
	text := "The earlier part of this conversation is replaced by a summary:\n" + summary
	if said := c.saidUpTo(upTo); said != "" {
		text += "\nIn that part, you got these messages:\n" + said
	}
	if todo := c.todo(upTo); todo != "" {
		text += "\nYour todo list:\n" + prompt.Fenced("todo", todo)
	}
	c.summary = text + "\nread_output with the id of a turn, such as \"12\", shows it whole; \"12.0\" is the result of its first call."
	c.dropped, c.stubs = upTo, max(c.stubs, upTo)
	c.count++
}

// saidUpTo returns what people wrote in the exchanges up to n, the last messages if they are long.
func (c *compactor) saidUpTo(n int) string {
	for _, e := range c.turns[c.dropped:n] {
		for _, m := range e {
			if fromPerson(m.Message) {
				c.said = append(c.said, m.Text)
			}
		}
	}
	left, from := int(c.window/saidParts*tokenBytes), len(c.said)
	for from > 0 && left >= len(c.said[from-1]) {
		from--
		left -= len(c.said[from])
	}
	text := strings.Join(c.said[from:], "\n\n")
	if from > 0 {
		text = fmt.Sprintf("[%d earlier messages of people are omitted; read_output shows them with their turns]\n", from) + text
	}
	return text
}

// recentFrom returns the first of the last exchanges before and including n that stay whole.
func (c *compactor) recentFrom(n int) int {
	room := c.limit / recentParts
	from := n
	for ; from > c.dropped+1; from-- {
		if room -= c.wholeSize(from - 1); room < 0 {
			break
		}
	}
	return from
}

// size returns the tokens of the conversation up to n if exchanges up to stubs have references.
func (c *compactor) size(n, stubs int) int64 {
	size := c.base + tokensOf(len(c.summary))
	for i := c.dropped + 1; i <= n; i++ {
		if i <= stubs {
			size += c.stubSize(i)
		} else {
			size += c.wholeSize(i)
		}
	}
	return size
}

// wholeSize returns the tokens of an exchange that is shown. Its level is known by then.
func (c *compactor) wholeSize(n int) int64 {
	if c.wholes[n] == 0 {
		c.wholes[n] = sizeOfAll(c.whole(n))
	}
	return c.wholes[n]
}

// stubSize returns the tokens of an exchange with references.
func (c *compactor) stubSize(n int) int64 {
	if c.stubSizes[n] == 0 {
		c.stubSizes[n] = sizeOfAll(c.stubbed(n))
	}
	return c.stubSizes[n]
}

// shown returns the messages of an exchange as the model sees them.
func (c *compactor) shown(n int) []model.Message {
	if n <= c.stubs {
		return c.stubbed(n)
	}
	return c.whole(n)
}

// whole returns the messages of an exchange whose results are shown as far as they fit.
func (c *compactor) whole(n int) []model.Message {
	out := make([]model.Message, len(c.turns[n-1]))
	results := 0
	for _, m := range c.turns[n-1] {
		if m.id != "" {
			results++
		}
	}
	for i, m := range c.turns[n-1] {
		out[i] = m.Message
		if m.id == "" || c.limit == 0 {
			continue
		}
		most := max(min(c.window/resultParts>>c.levels[n], c.window/turnParts/int64(results)), leastResult)
		out[i].Text = tool.Shorten(m.Text, int(most*tokenBytes), m.id)
	}
	return out
}

// stubbed returns the messages of an exchange with references instead of long results and arguments.
func (c *compactor) stubbed(n int) []model.Message {
	names := map[string]string{}
	out := make([]model.Message, len(c.turns[n-1]))
	for i, m := range c.turns[n-1] {
		out[i] = m.Message
		if len(m.ToolCalls) > 0 {
			out[i].ToolCalls = slices.Clone(m.ToolCalls)
			for j, call := range m.ToolCalls {
				names[call.ID] = shownName(call.Name)
				if call.Name != tool.Todo {
					out[i].ToolCalls[j].Arguments = shortArguments(call.Arguments)
				}
			}
		}
		if m.id != "" && len(m.Text) > stubBytes {
			out[i].Text = fmt.Sprintf("[result of %s, %d bytes, omitted; read_output {\"id\": %q} shows it]", cmp.Or(names[m.ToolCallID], "a call"), len(m.Text), m.id)
		}
	}
	return out
}

// shortArguments shortens the long texts in the arguments of a call.
func shortArguments(arguments string) string {
	if len(arguments) <= stubBytes {
		return arguments
	}
	var args any
	if json.Unmarshal([]byte(arguments), &args) != nil {
		return arguments
	}
	raw, err := json.Marshal(shortTexts(args))
	if err != nil || len(raw) >= len(arguments) {
		return arguments
	}
	return string(raw)
}

func shortTexts(v any) any {
	switch v := v.(type) {
	case string:
		if len(v) > stubBytes {
			return strings.ToValidUTF8(v[:stubBytes/4], "") + fmt.Sprintf(" [… %d bytes omitted]", len(v)-stubBytes/4)
		}
	case []any:
		for i := range v {
			v[i] = shortTexts(v[i])
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			v[key] = shortTexts(v[key])
		}
	}
	return v
}

// todo returns the last todo list up to an exchange.
func (c *compactor) todo(n int) string {
	for i := n; i > 0; i-- {
		for _, m := range slices.Backward(c.turns[i-1]) {
			for _, call := range slices.Backward(m.ToolCalls) {
				var list tool.TodoList
				if call.Name == tool.Todo && json.Unmarshal([]byte(call.Arguments), &list) == nil && len(list.Items) > 0 {
					return list.String()
				}
			}
		}
	}
	return ""
}

// listCalls lists the calls of the exchanges after one and up to n, the last ones, for want of a
// summary.
func (c *compactor) listCalls(after, n int) string {
	var lines []string
	size := 0
	for i := n; i > after && size < listedCalls; i-- {
		for _, m := range slices.Backward(c.turns[i-1]) {
			for _, call := range slices.Backward(m.ToolCalls) {
				line := shownName(call.Name) + " " + clipped(call.Arguments, stubBytes/2)
				size += len(line) + 1
				lines = append(lines, line)
			}
		}
	}
	slices.Reverse(lines)
	return "The last calls, without their results:\n" + strings.Join(lines, "\n")
}

// summaryIn returns the summary that a model gives in an exchange.
func summaryIn(e exchange) (string, bool) {
	for _, m := range e {
		for _, call := range m.ToolCalls {
			var args struct{ Summary string }
			if call.Name == tool.Summarize && json.Unmarshal([]byte(call.Arguments), &args) == nil && args.Summary != "" {
				return clipped(args.Summary, tool.SummaryBytes), true
			}
		}
	}
	return "", false
}

func tokensOf(bytes int) int64 { return int64(bytes+tokenBytes-1) / tokenBytes }

// sizeOf returns the usual size of a message in tokens. The part of the window that a conversation
// does not use covers texts that need more.
func sizeOf(m model.Message) int64 {
	const perPart, perImage = 8, 1600
	bytes := len(m.Text)
	if m.Reasoning != nil {
		bytes += len(m.Reasoning.Items)
	}
	for _, c := range m.ToolCalls {
		bytes += len(c.Name) + len(c.Arguments)
	}
	return tokensOf(bytes) + perPart*int64(1+len(m.ToolCalls)) + perImage*int64(len(m.Images))
}

func sizeOfAll(all []model.Message) int64 {
	var size int64
	for _, m := range all {
		size += sizeOf(m)
	}
	return size
}
