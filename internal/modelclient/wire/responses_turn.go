package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/rocketgpt/orchestrator/internal/model"
)

// responsesAPI identifies the reasoning of this API in stored conversations, together with the name of
// the provider: another one cannot decrypt it.
const responsesAPI = "openai-responses"

func (c *Call) responsesReasoning() string { return responsesAPI + " " + c.Provider.Name }

// storedItem is an item of a model's turn as it is stored: what the model thought in full, and for
// the rest where it was between the thoughts. Exactly one of Thought, Text and Call is set.
type storedItem struct {
	Thought json.RawMessage `json:"thought,omitempty"`
	Text    *int            `json:"text,omitempty"`  // its length in bytes
	Phase   string          `json:"phase,omitempty"` // of a text
	Call    string          `json:"call,omitempty"`  // the id of a tool call
}

// responsesTurn returns a model's turn as items, in the order in which the model wrote them if it is
// the same model.
func responsesTurn(c *Call, m model.Message, ids *callIDs) responses.ResponseInputParam {
	var stored []storedItem
	if r := m.Reasoning; r != nil && r.API == c.responsesReasoning() && r.Model == c.Request.Choice.Model {
		_ = json.Unmarshal(r.Items, &stored) // written by responsesCollector
	}
	t := turn{ids: ids, texts: splitTexts(m.Text, stored), calls: m.ToolCalls}
	for _, item := range stored {
		switch {
		case item.Thought != nil:
			t.thoughts = append(t.thoughts, item.Thought)
		case item.Text != nil:
			t.addText(item.Phase)
		default:
			t.addCall(item.Call)
		}
	}
	for len(t.texts) > 0 {
		t.addText("")
	}
	for len(t.calls) > 0 {
		t.addCall(t.calls[0].ID)
	}
	return t.items
}

// turn assembles the items of a model's turn.
type turn struct {
	ids      *callIDs
	texts    []string         // that are left
	calls    []model.ToolCall // that are left
	thoughts []json.RawMessage
	items    responses.ResponseInputParam
}

// add adds an item after the thoughts before it. The API rejects thoughts that nothing follows.
func (t *turn) add(item responses.ResponseInputItemUnionParam) {
	for _, thought := range t.thoughts {
		raw := param.Override[responses.ResponseReasoningItemParam](thought)
		t.items = append(t.items, responses.ResponseInputItemUnionParam{OfReasoning: &raw})
	}
	t.thoughts = nil
	t.items = append(t.items, item)
}

func (t *turn) addText(phase string) {
	if len(t.texts) == 0 {
		return
	}
	item := responses.ResponseInputItemParamOfMessage(t.texts[0], responses.EasyInputMessageRoleAssistant)
	item.OfMessage.Phase = responses.EasyInputMessagePhase(phase)
	t.texts = t.texts[1:]
	t.add(item)
}

func (t *turn) addCall(id string) {
	for i, call := range t.calls {
		if call.ID == id {
			t.calls = append(t.calls[:i:i], t.calls[i+1:]...)
			t.add(responses.ResponseInputItemParamOfFunctionCall(call.Arguments, t.ids.next(id), call.Name))
			return
		}
	}
}

// splitTexts returns the texts that a turn's text consists of. If it was changed since, it is one.
func splitTexts(text string, stored []storedItem) []string {
	var out []string
	rest, whole := text, true
	for _, item := range stored {
		if item.Text == nil || !whole {
			continue
		}
		if len(out) > 0 {
			rest, whole = strings.CutPrefix(rest, betweenTexts)
		}
		if n := *item.Text; whole && n >= 0 && n <= len(rest) {
			out, rest = append(out, rest[:n]), rest[n:]
		} else {
			whole = false
		}
	}
	switch {
	case whole && rest == "" && len(out) > 0:
		return out
	case text == "": // a turn of calls alone
		return nil
	default:
		return []string{text}
	}
}

// notInCallID matches characters that APIs reject in the id of a call. Other providers use them.
var notInCallID = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// maxCallID is the API's limit for the length of a call's id.
const maxCallID = 64

// callIDs gives each call of a conversation an id of its own, which other providers do not.
type callIDs struct {
	used    map[string]bool
	current map[string]string // by the call's own id: that of the last call with it
}

func newCallIDs() *callIDs { return &callIDs{used: map[string]bool{}, current: map[string]string{}} }

// next returns the id of a call in the form that the API accepts.
func (c *callIDs) next(id string) string {
	out := notInCallID.ReplaceAllString(id, "_")
	if len(out) > maxCallID || out == "" {
		sum := sha256.Sum256([]byte(id))
		out = "call_" + hex.EncodeToString(sum[:16])
	}
	for base, n := out, 2; c.used[out]; n++ {
		out = base[:min(len(base), maxCallID-8)] + "_" + strconv.Itoa(n)
	}
	c.used[out] = true
	c.current[id] = out
	return out
}
