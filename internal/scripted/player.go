package scripted

import (
	"encoding/json"
	"net/http"
)

// Player answers requests for some models instead of a scenario.
type Player interface {
	// Play returns the reply to a request, false if the scenario shall answer it. An error is
	// returned to the client as HTTP 400. The reply must depend on nothing but the request, so that a
	// repeated request gets the same one.
	Play(r Request) (reply Reply, ok bool, err error)
}

// Request is a request to a player.
type Request struct {
	Model              string
	Run                int64
	Agent, Phase, Step string
	Attempt, Turn      int
	Tools              []string // names of the tools that the model may call
	Messages           []Message
}

// Message is a message of a request, in the form of chat completions.
type Message struct {
	Role  string
	Text  string
	Calls []string // names of the tools that the model called
}

// Reply is a player's reply: a text, or calls of tools.
type Reply struct {
	Text  string
	Calls []Call
}

// Call is one call of a tool.
type Call struct {
	Name      string
	Arguments any // becomes a JSON object
}

// play lets the player answer a request. It reports false if the scenario must answer.
func (a *answer) play(req *chatRequest) bool {
	p := a.server.opts.Player
	if p == nil {
		return false
	}
	reply, ok, err := p.Play(requestOf(req))
	if err == nil && !ok {
		return false
	}
	c := &completion{req: req, text: reply.Text, finish: "stop", id: completionID(req, 0)}
	for _, call := range reply.Calls {
		var arguments []byte
		if arguments, err = json.Marshal(call.Arguments); err != nil {
			break
		}
		c.calls, c.finish = append(c.calls, toolCall{call.Name, string(arguments)}), "tool_calls"
	}
	if err != nil {
		a.fail(apiError{status: http.StatusBadRequest, kind: "invalid_request_error", code: "no_rule", message: err.Error()})
		return true
	}
	c.usage = usage{prompt: req.promptTokens(), completion: c.tokens()}
	c.usage.cached, c.usage.written = a.server.cache.account(req)
	a.complete(c)
	return true
}

func requestOf(req *chatRequest) Request {
	c := req.caller
	out := Request{Model: req.Model, Run: c.run, Agent: c.agent, Phase: c.phase, Step: c.step, Attempt: c.attempt, Turn: c.turn}
	for _, t := range req.Tools {
		out.Tools = append(out.Tools, t.name)
	}
	for _, m := range req.Messages {
		out.Messages = append(out.Messages, messageOf(m))
	}
	return out
}

func messageOf(m chatMessage) Message {
	var doc struct {
		Role  string `json:"role"`
		Calls []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tool_calls"`
	}
	_ = json.Unmarshal(m.raw, &doc) // it was decoded before
	out := Message{Role: doc.Role}
	for _, text := range m.Content {
		out.Text += text
	}
	for _, call := range doc.Calls {
		out.Calls = append(out.Calls, call.Function.Name)
	}
	return out
}
