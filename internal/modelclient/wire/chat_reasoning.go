package wire

import (
	"encoding/json"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/model"
)

// chatAPI identifies the reasoning of this API in stored conversations: OpenRouter's extension of it.
const chatAPI = "openrouter-chat"

// reasoningDetails is the field of a message with what the model thought, some of it encrypted or signed.
const reasoningDetails = "reasoning_details"

// detailPieces is one item of a list of details. A stream sends its text in pieces.
type detailPieces struct {
	fields map[string]json.RawMessage
	whole  json.RawMessage // as it arrived, until a piece is added
	kind   string
	index  string
	text   strings.Builder
}

// detailTexts are the fields that a stream sends in pieces, by the type of the item.
var detailTexts = map[string]string{"reasoning.text": "text", "reasoning.summary": "summary"}

// addDetails adds a list of details, of a whole message or of a piece of a stream. A list that has
// another form is ignored: the response itself does not depend on it.
func (c *chatCollector) addDetails(raw string, piece bool) {
	var list []json.RawMessage
	if raw == "" || json.Unmarshal([]byte(raw), &list) != nil {
		return
	}
	for _, item := range list {
		var fields map[string]json.RawMessage
		if json.Unmarshal(item, &fields) != nil || fields == nil {
			continue
		}
		c.size += callOverhead + int64(len(item))
		d := &detailPieces{fields: fields, whole: item, kind: stringOf(fields["type"]), index: string(fields["index"])}
		if n := len(c.details); piece && n > 0 && c.details[n-1].continues(d) {
			c.details[n-1].extend(d)
			continue
		}
		d.text.WriteString(stringOf(fields[detailTexts[d.kind]]))
		c.details = append(c.details, d)
	}
}

// continues reports whether the next item is a further piece of this one.
func (d *detailPieces) continues(next *detailPieces) bool {
	return detailTexts[d.kind] != "" && d.kind == next.kind && d.index == next.index
}

// extend adds a piece: its text is added, and its other fields apply.
func (d *detailPieces) extend(next *detailPieces) {
	text := detailTexts[d.kind]
	d.text.WriteString(stringOf(next.fields[text]))
	for name, value := range next.fields {
		if name != text && string(value) != "null" {
			d.fields[name] = value
		}
	}
	d.whole = nil
}

// raw returns the item.
func (d *detailPieces) raw() (json.RawMessage, error) {
	if d.whole != nil {
		return d.whole, nil
	}
	text, err := json.Marshal(d.text.String())
	if err != nil {
		return nil, err
	}
	d.fields[detailTexts[d.kind]] = text
	return json.Marshal(d.fields)
}

// reasoning returns what the model thought; nil if it does not say.
func (c *chatCollector) reasoning() *model.Reasoning {
	if len(c.details) == 0 {
		return nil
	}
	list := make([]json.RawMessage, len(c.details))
	for i, d := range c.details {
		var err error
		if list[i], err = d.raw(); err != nil {
			return nil
		}
	}
	items, err := json.Marshal(list)
	if err != nil {
		return nil
	}
	return &model.Reasoning{API: chatAPI, Model: c.asked, Items: items}
}

// stringOf returns a JSON string, "" for anything else.
func stringOf(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // otherwise ""
	return s
}
