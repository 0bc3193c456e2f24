package wire

import (
	"encoding/json"
	"strings"

	"google.golang.org/genai"

	"github.com/rocketgpt/orchestrator/internal/model"
)

// geminiContent is one side's turn of a conversation, and geminiPart a part of it, as they are sent
// and received. The SDK's own types change the arguments of calls, and cannot express an empty text
// that carries a signature.
type (
	geminiContent struct {
		Role  string       `json:"role,omitempty"` // user or model
		Parts []geminiPart `json:"parts"`
	}
	geminiPart struct {
		Text             *string                 `json:"text,omitempty"`
		Thought          bool                    `json:"thought,omitempty"`
		FunctionCall     *geminiCall             `json:"functionCall,omitempty"`
		FunctionResponse *genai.FunctionResponse `json:"functionResponse,omitempty"`
		InlineData       *genai.Blob             `json:"inlineData,omitempty"`
		ThoughtSignature string                  `json:"thoughtSignature,omitempty"`
	}
	geminiCall struct {
		ID   string          `json:"id,omitempty"`
		Name string          `json:"name,omitempty"`
		Args json.RawMessage `json:"args,omitempty"`
	}
)

// ownCallID starts the ids that are made here for calls without one. They are not sent.
const ownCallID = "rgpt_"

func geminiID(id string) string {
	if strings.HasPrefix(id, ownCallID) {
		return ""
	}
	return id
}

// noSignature replaces the signature that Gemini 3 requires with a call, for calls that it did not
// make itself, such as those of another model.
const noSignature = "skip_thought_signature_validator"

// geminiConversation converts messages. Those of one side that follow each other become one content,
// because the API wants all results of a turn's tools together.
type geminiConversation struct {
	call     *Call
	system   *genai.Content
	contents []geminiContent
	names    map[string]string // tools by the id of a call
}

func (g *geminiConversation) add(m model.Message) {
	switch {
	case m.Role == model.RoleSystem && len(g.contents) == 0:
		if m.Text != "" {
			if g.system == nil {
				g.system = &genai.Content{}
			}
			g.system.Parts = append(g.system.Parts, &genai.Part{Text: m.Text})
		}
	case m.Role == model.RoleAssistant:
		g.put("model", g.turn(m))
	case m.Role == model.RoleTool:
		g.result(m)
	default:
		g.put("user", g.said(m))
	}
}

func (g *geminiConversation) put(role string, parts []geminiPart) {
	switch n := len(g.contents); {
	case len(parts) == 0:
	case n > 0 && g.contents[n-1].Role == role:
		g.contents[n-1].Parts = append(g.contents[n-1].Parts, parts...)
	default:
		g.contents = append(g.contents, geminiContent{Role: role, Parts: parts})
	}
}

// said returns the text of a user and its pictures. The API rejects empty texts.
func (g *geminiConversation) said(m model.Message) []geminiPart {
	var parts []geminiPart
	text, pictures := g.shown(m)
	if text != "" {
		parts = append(parts, textPart(text))
	}
	for _, p := range pictures {
		parts = append(parts, picturePart(p))
	}
	return parts
}

// result adds the result of a tool. Its pictures are part of it for Gemini 3, and follow it for
// older models.
func (g *geminiConversation) result(m model.Message) {
	name, known := g.names[m.ToolCallID]
	if !known { // the API accepts results only for calls
		g.put("user", g.said(m))
		return
	}
	text, pictures := g.shown(m)
	r := &genai.FunctionResponse{ID: geminiID(m.ToolCallID), Name: name, Response: map[string]any{"output": text}}
	parts := []geminiPart{{FunctionResponse: r}}
	for _, p := range pictures {
		if beforeGemini3(g.call.Request.Choice.Model) {
			parts = append(parts, picturePart(p))
		} else {
			r.Parts = append(r.Parts, &genai.FunctionResponsePart{InlineData: &genai.FunctionResponseBlob{MIMEType: p.MediaType, Data: p.Data}})
		}
	}
	g.put("user", parts)
}

// shown returns what a message shows to the model, with a note for each picture that it cannot see.
func (g *geminiConversation) shown(m model.Message) (text string, pictures []model.Image) {
	text, all := g.call.shown(m)
	for _, p := range all {
		if p.MediaType == "image/gif" {
			text = joined(text, "[a picture is left out: you cannot see GIF]")
		} else {
			pictures = append(pictures, p)
		}
	}
	return text, pictures
}

// turn returns the parts of a turn of the model, with its signatures on the same parts as received.
func (g *geminiConversation) turn(m model.Message) []geminiPart {
	calls := make([]geminiPart, len(m.ToolCalls))
	for i, c := range m.ToolCalls {
		if g.names == nil {
			g.names = map[string]string{}
		}
		g.names[c.ID] = c.Name
		calls[i] = geminiPart{FunctionCall: &geminiCall{ID: geminiID(c.ID), Name: c.Name, Args: argumentsOf(c)}}
	}
	parts, ok := g.signed(m, calls)
	if !ok {
		parts = nil
		if strings.TrimSpace(m.Text) != "" {
			parts = append(parts, textPart(m.Text))
		}
		parts = append(parts, calls...)
	}
	if len(calls) > 0 && !beforeGemini3(g.call.Request.Choice.Model) && !anySignature(parts) {
		parts[len(parts)-len(calls)].ThoughtSignature = noSignature
	}
	return parts
}

// anySignature reports whether a call is signed. Of calls at once, only the first is.
func anySignature(parts []geminiPart) bool {
	for _, p := range parts {
		if p.FunctionCall != nil && p.ThoughtSignature != "" {
			return true
		}
	}
	return false
}

// trace is a part of a turn as stored with it, for the order of the parts and their signatures. The
// texts and calls themselves are in the message.
type trace struct {
	Text      int     `json:"text,omitempty"`      // bytes of the message's text
	Thought   *string `json:"thought,omitempty"`   // a summary of what was thought
	Call      bool    `json:"call,omitempty"`      // the next call
	Signature string  `json:"signature,omitempty"` // as received
}

// signed returns the parts of a turn as they were received, false if the turn is not one of this model
// or has changed since.
func (g *geminiConversation) signed(m model.Message, calls []geminiPart) (parts []geminiPart, ok bool) {
	r := m.Reasoning
	if r == nil || r.API != geminiAPI || r.Model != g.call.Request.Choice.Model {
		return nil, false
	}
	var traces []trace
	_ = json.Unmarshal(r.Items, &traces) // written below
	text := m.Text
	for _, t := range traces {
		var p geminiPart
		switch {
		case t.Call && len(calls) > 0:
			p, calls = calls[0], calls[1:]
		case t.Call || t.Text < 0 || t.Text > len(text):
			return nil, false
		case t.Thought != nil:
			p = geminiPart{Text: t.Thought, Thought: true}
		default:
			p, text = textPart(text[:t.Text]), text[t.Text:]
		}
		p.ThoughtSignature = t.Signature
		parts = append(parts, p)
	}
	return parts, text == "" && len(calls) == 0
}

// argumentsOf returns the arguments of a call as the model wrote them. A conversation may have a call
// that was rejected because they are not JSON.
func argumentsOf(c model.ToolCall) json.RawMessage {
	if !json.Valid([]byte(c.Arguments)) {
		return json.RawMessage("{}")
	}
	return json.RawMessage(c.Arguments)
}

func textPart(s string) geminiPart { return geminiPart{Text: &s} }

func picturePart(p model.Image) geminiPart {
	return geminiPart{InlineData: &genai.Blob{MIMEType: p.MediaType, Data: p.Data}}
}
