package modelcheck

import (
	"context"
	_ "embed" // the picture
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/budget"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
)

const sayReady = "Reply with the single word ready."

// chat makes the plain call and reports whether the model responded. It also shows whether the
// response is streamed.
func (c *checker) chat(ctx context.Context) bool {
	pieces := 0
	req := c.request(Chat, sayReady)
	req.Delta = func(model.DeltaKind, string) { pieces++ }
	resp, err := c.ask(ctx, req, c.entry, budget.Known{})
	if err != nil {
		v, why := failed(err)
		if v == No { // the request has nothing that a model could lack
			v = Unknown
		}
		c.add(Chat, v, why)
		c.skip("the plain call did not succeed", model.CapabilityStreaming)
		return false
	}
	if !resp.Estimated {
		c.plain = resp.Usage.PromptTokens
	}
	c.add(Chat, Yes, fmt.Sprintf("responded with %s after %.1fs", quote(resp.Text), resp.Latency.Seconds()))
	if resp.Streamed {
		c.add(model.CapabilityStreaming, Yes, fmt.Sprintf("pieces of the response: %d", pieces))
	} else {
		c.add(model.CapabilityStreaming, No, "the response came in one piece")
	}
	return true
}

// temperature finds out whether the model rejects a temperature.
func (c *checker) temperature(ctx context.Context) {
	const value = 0.5
	temperature := value
	req := c.request(model.CapabilityFixedTemperature, sayReady)
	req.Choice.Temperature = &temperature
	_, err := c.ask(ctx, req, c.entry.WithCapability(model.CapabilityFixedTemperature, false), c.knownPlain())
	if err == nil {
		c.add(model.CapabilityFixedTemperature, No, fmt.Sprintf("temperature %g was accepted", value))
		return
	}
	v, why := failed(err)
	if v == No {
		v = Yes
	}
	c.add(model.CapabilityFixedTemperature, v, why)
}

// tryEffort sets the amount of reasoning. A server that ignores settings that it does not know accepts
// it as well, so the response must show that the model reasoned, except where the maker of the model
// itself checks the settings.
func (c *checker) tryEffort(ctx context.Context) {
	budgeted := c.entry.Can(model.CapabilityThinkingBudget)
	v, why := c.reason(ctx, budgeted)
	if v == No && c.target.Provider.Kind.Messages() { // older models have the other form
		if other, alsoWhy := c.reason(ctx, !budgeted); other != No {
			budgeted, v, why = !budgeted, other, alsoWhy
		}
	}
	c.add(model.CapabilityEffort, v, why)
	if v == Yes && c.target.Provider.Kind.Messages() {
		c.add(model.CapabilityThinkingBudget, map[bool]Verdict{true: Yes, false: No}[budgeted], map[bool]string{true: "a budget of tokens sets the effort", false: "an effort sets it"}[budgeted])
	}
	if v == Yes && !budgeted {
		c.effort = contract.EffortLow // the other calls cost less
	}
}

// reason makes a call with an effort, which is set as a budget of tokens or not.
func (c *checker) reason(ctx context.Context, budgeted bool) (Verdict, string) {
	req := c.request(model.CapabilityEffort, "What is 17 times 23, minus 45? Reply with the number only.")
	req.Choice.Effort = contract.EffortLow
	resp, err := c.ask(ctx, req, c.entry.WithCapability(model.CapabilityEffort, true).WithCapability(model.CapabilityThinkingBudget, budgeted), c.knownPlain())
	reasoned := resp.Usage.ReasoningTokens
	switch {
	case err != nil:
		return failed(err)
	case reasoned > 0:
		return Yes, fmt.Sprintf("effort low was accepted; the model reasoned in %d tokens", reasoned)
	case resp.Reasoning != nil:
		return Yes, "effort low was accepted, and the model reasoned"
	case c.checksSettings():
		return Yes, "effort low was accepted"
	default:
		return Unknown, "effort low was accepted, but nothing shows that the model reasoned"
	}
}

// checksSettings reports whether the provider is known to reject settings that a model does not have.
func (c *checker) checksSettings() bool {
	switch p := c.target.Provider; p.Kind {
	case model.KindAzure:
		return true
	case model.KindBedrock:
		return strings.HasSuffix(p.BaseURL, ".amazonaws.com")
	case model.KindVertex:
		return strings.HasSuffix(p.BaseURL, ".googleapis.com")
	case model.KindOpenAI, model.KindAnthropic, model.KindGemini:
		return p.BaseURL == model.DefaultBaseURL(p.Kind)
	default:
		return false
	}
}

// weather is the document that the schema enforces.
type weather struct {
	Sky     string `json:"sky" jsonschema:"enum=clear,enum=cloudy"`
	Degrees int    `json:"degrees"`
}

// schema asks for plain text under a JSON schema: only a schema that is enforced wins.
func (c *checker) schema(ctx context.Context) {
	s := model.SchemaOf[weather]()
	req := c.request(model.CapabilityJSONSchema, "Describe a summer day in five words of plain text. Do not write JSON.")
	req.Schema = &s
	resp, err := c.ask(ctx, req, c.entry.WithCapability(model.CapabilityJSONSchema, true), c.knownPlain())
	if err == nil {
		if _, err := model.CheckJSON(s, resp.Text); err != nil {
			c.add(model.CapabilityJSONSchema, No, "responded with "+quote(resp.Text)+" in spite of the schema")
			return
		}
		c.add(model.CapabilityJSONSchema, Yes, "asked for plain text, it responded with "+quote(resp.Text))
		return
	}
	v, why := failed(err)
	if fault.Of(err).Code == contract.CodeInvalidOutput {
		v = Unknown
	}
	c.add(model.CapabilityJSONSchema, v, why)
}

var weatherTool = model.Tool{
	Name: "get_weather", Description: "Returns the weather in a city.",
	Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`),
}

// tools asks for two calls in one response, and returns their results.
func (c *checker) tools(ctx context.Context) {
	req := c.request(model.CapabilityTools, "Find out the weather in Lima and the weather in Oslo with the tool get_weather. Call it for both cities at once.")
	req.Tools = []model.Tool{weatherTool}
	var resp model.Response
	var err error
	for req.Headers.Attempt = 1; ; req.Headers.Attempt++ {
		resp, err = c.ask(ctx, req, c.entry, budget.Known{})
		spoiled := err != nil && fault.Of(err).Code == contract.CodeInvalidOutput
		if again := spoiled || err == nil && len(resp.ToolCalls) == 0; !again || req.Headers.Attempt > 1 {
			break
		}
	}
	switch {
	case err != nil && fault.Of(err).Code == contract.CodeInvalidOutput:
		c.add(model.CapabilityTools, No, "two responses had unusable calls: "+fault.Of(err).Message)
	case err != nil:
		v, why := failed(err)
		c.add(model.CapabilityTools, v, why)
	case len(resp.ToolCalls) == 0:
		c.add(model.CapabilityTools, No, "called no tool in two responses, the last of which was "+quote(resp.Text))
	default:
		c.results(ctx, req, resp)
		return
	}
	c.skip("no tool was called", model.CapabilityParallelTools)
}

// results returns the results of the calls to the model.
func (c *checker) results(ctx context.Context, req model.Request, called model.Response) {
	n := len(called.ToolCalls)
	known := budget.Known{}
	if !called.Estimated {
		known = budget.Known{Messages: len(req.Messages), Tokens: called.Usage.PromptTokens}
	}
	req.Messages = append(req.Messages, called.Message())
	for _, call := range called.ToolCalls {
		req.Messages = append(req.Messages, model.Message{Role: model.RoleTool, ToolCallID: call.ID, Text: `{"sky":"clear","degrees":21}`})
	}
	req.Headers.Turn = 2
	name := fault.Clip(called.ToolCalls[0].Name, 40)
	resp, err := c.ask(ctx, req, c.entry, known)
	if err == nil {
		c.add(model.CapabilityTools, Yes, fmt.Sprintf("called %s, and read the result: %s", name, quote(resp.Text)))
	} else if v, why := failed(err); v == No {
		c.add(model.CapabilityTools, No, "called "+name+", but its result was "+why)
	} else {
		c.add(model.CapabilityTools, Yes, fmt.Sprintf("called %s; it is not known whether it reads the result: %s", name, why))
	}
	if n > 1 {
		c.add(model.CapabilityParallelTools, Yes, fmt.Sprintf("%d calls in one response", n))
	} else {
		c.add(model.CapabilityParallelTools, No, "one call in a response that was to have two")
	}
}

// stripes is a picture of 96 by 96 pixels: a green, a yellow and a blue stripe, from top to bottom.
//
//go:embed stripes.png
var stripes []byte

// vision shows a picture whose description is hard to guess.
func (c *checker) vision(ctx context.Context) {
	req := c.request(model.CapabilityVision, "The picture has three horizontal stripes. Name their colours from top to bottom, in English, separated by commas.")
	req.Messages[1].Images = []model.Image{{MediaType: "image/png", Data: stripes}}
	var resp model.Response
	for req.Headers.Attempt = 1; req.Headers.Attempt <= 2; req.Headers.Attempt++ {
		var err error
		if resp, err = c.ask(ctx, req, c.entry.WithCapability(model.CapabilityVision, true), c.knownPlain()); err != nil {
			v, why := failed(err)
			c.add(model.CapabilityVision, v, why)
			return
		}
		if inOrder(strings.ToLower(resp.Text), "green", "yellow", "blue") {
			c.add(model.CapabilityVision, Yes, "described the picture as "+quote(resp.Text))
			return
		}
	}
	c.add(model.CapabilityVision, No, "took the picture, but described it twice wrongly, at last as "+quote(resp.Text))
}

// inOrder reports whether a text has words in this order.
func inOrder(text string, words ...string) bool {
	for _, w := range words {
		_, after, ok := strings.Cut(text, w)
		if !ok {
			return false
		}
		text = after
	}
	return true
}

// cache sends the same long beginning twice. Providers do not promise to find it in their cache, so it
// says nothing if they do not.
func (c *checker) cache(ctx context.Context) {
	req := c.request(model.CapabilityPromptCache, sayReady)
	least := c.leastCached()
	req.Messages[0].Text = digits(least + least/4)
	known := budget.Known{}
	for req.Headers.Turn = 1; req.Headers.Turn <= 2; req.Headers.Turn++ {
		resp, err := c.ask(ctx, req, c.entry, known)
		if err != nil {
			v, why := failed(err)
			if v == No {
				v = Unknown
			}
			c.add(model.CapabilityPromptCache, v, why)
			return
		}
		if u := resp.Usage; u.CachedTokens > 0 {
			c.add(model.CapabilityPromptCache, Yes, fmt.Sprintf("%d of %d tokens of the prompt were read from the cache", u.CachedTokens, u.PromptTokens))
			return
		}
		if !resp.Estimated {
			known = budget.Known{Messages: len(req.Messages), Tokens: resp.Usage.PromptTokens}
		}
	}
	c.add(model.CapabilityPromptCache, Unknown, fmt.Sprintf("no part of a prompt of %d tokens was read from the cache the second time", known.Tokens))
}

// leastCached returns the tokens of the shortest prompt that the model's provider caches.
func (c *checker) leastCached() int {
	name := c.target.Choice.Model
	switch {
	case strings.Contains(name, "claude") && strings.Contains(name, "sonnet"), strings.Contains(name, "gemini-2"):
		return 2048
	case strings.Contains(name, "claude"), strings.Contains(name, "gemini"):
		return 4096
	}
	return 1024
}

// digits returns a text of about as many tokens as bytes, so that the most that it can cost is close to
// what it costs: no tokenizer joins digits that are apart.
func digits(n int) string {
	var b strings.Builder
	b.WriteString(system + " Ignore these numbers:")
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, " %d", (i*7+i/10)%10)
	}
	return b.String()
}

// embeddings computes one embedding.
func (c *checker) embeddings(ctx context.Context) {
	const text = "a summer day"
	req := c.request(model.CapabilityEmbeddings, text)
	most := budget.Cost(c.prompt(req, budget.Known{}), 0, c.entry)
	if most > c.left {
		c.needs += most
		c.add(model.CapabilityEmbeddings, Skipped, (&tooDear{most, c.left}).Error())
		return
	}
	got, err := c.client.Embed(ctx, model.EmbeddingRequest{Choice: req.Choice, Texts: []string{text}, Headers: req.Headers, Timeout: req.Timeout})
	c.spend(got.Usage, err, most)
	if err != nil {
		v, why := failed(err)
		if v == No && fault.Of(err).Code == contract.CodeModelNotFound {
			v = Unknown
		}
		c.add(model.CapabilityEmbeddings, v, why)
		return
	}
	c.add(model.CapabilityEmbeddings, Yes, fmt.Sprintf("a vector of %d dimensions", len(got.Vectors[0])))
}
