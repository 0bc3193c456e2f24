package scripted

import (
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/rocketgpt/orchestrator/contract"
)

// agents are the names that a rule may match.
var agents = []string{"planner", "builder", "tester", "releaser", "analyzer", "repair", "environment", "judge", "reviewer", "alpha", "beta", "gamma", "indexer"}

// checker converts documents to rules and collects all errors.
type checker struct {
	file     *ast.File
	mistakes []mistake
}

func (c *checker) add(key, format string, args ...any) {
	c.mistakes = append(c.mistakes, mistake{line: lineOf(c.file, key), key: key, problem: fmt.Sprintf(format, args...)})
}

// whole reads an integer that is at least a minimum; an absent one is 0.
func (c *checker) whole(key string, v any, least int64) int64 {
	var n int64
	switch v := v.(type) {
	case nil:
	case int64:
		n = v
	case uint64:
		n = int64(min(v, math.MaxInt64))
	default:
		c.add(key, "%q is not a whole number", firstLine(fmt.Sprint(v)))
		return least
	}
	if n < least {
		c.add(key, "is %d; expected at least %d", n, least)
	}
	return n
}

func (c *checker) rule(key string, d *ruleDoc) rule {
	r := rule{when: c.when(key+".when", &d.When)}
	if d.Times != nil {
		r.times = c.whole(key+".times", d.Times, 1)
	}
	for _, wait := range []struct {
		key   string
		given *string
		to    *time.Duration
	}{{".latency", d.Latency, &r.latency}, {".pace", d.Pace, &r.pace}} {
		if wait.given == nil {
			continue
		}
		var err error
		if *wait.to, err = duration(*wait.given); err != nil {
			c.add(key+wait.key, "%v", err)
		}
	}
	if d.Usage != nil {
		r.usage = &usage{
			prompt:     c.whole(key+".usage.prompt_tokens", d.Usage.PromptTokens, 0),
			cached:     c.whole(key+".usage.cached_tokens", d.Usage.CachedTokens, 0),
			completion: c.whole(key+".usage.completion_tokens", d.Usage.CompletionTokens, 0),
		}
		if r.usage.cached > r.usage.prompt {
			c.add(key+".usage.cached_tokens", "is %d; expected at most prompt_tokens, which includes it", r.usage.cached)
		}
	}
	c.answer(key, d, &r)
	return r
}

// answer checks that a rule has exactly one action.
func (c *checker) answer(key string, d *ruleDoc, r *rule) {
	if d.Reply != nil {
		r.reply = c.reply(key+".reply", d.Reply)
	}
	if d.Fault != nil {
		r.fault = c.fault(key+".fault", d.Fault)
	}
	switch {
	case d.Reply == nil && d.Fault == nil:
		c.add(key, "requires a reply or a fault")
	case d.Reply == nil && (r.fault.truncate || r.fault.malformed || r.fault.disconnect):
		r.reply = reply{text: `{"summary": "this response was meant to be longer, but the scenario cuts it off"}`}
	case d.Reply != nil && d.Fault != nil && (r.fault.status != 0 || r.fault.timeout):
		c.add(key+".reply", "a rule with a status or timeout fault never replies; remove the reply")
	}
}

func (c *checker) when(key string, d *whenDoc) when {
	w := when{agent: d.Agent, step: d.Step, contains: d.Contains, model: d.Model}
	if d.Agent != nil && !slices.Contains(agents, *d.Agent) {
		c.add(key+".agent", "%q is not an agent; expected one of %s", firstLine(*d.Agent), strings.Join(agents, ", "))
	}
	if d.Phase != nil {
		if !knownPhase(*d.Phase) {
			c.add(key+".phase", "%q is not a phase; expected planner_running, builder_running, tester_running or releaser_running", firstLine(*d.Phase))
		}
		p := plainPhase(*d.Phase)
		w.phase = &p
	}
	if d.Attempt != nil {
		n := int(c.whole(key+".attempt", d.Attempt, 1))
		w.attempt = &n
	}
	if d.Turn != nil {
		n := int(c.whole(key+".turn", d.Turn, 1))
		w.turn = &n
	}
	if d.Pictures != nil {
		n := int(c.whole(key+".pictures", d.Pictures, 0))
		w.pictures = &n
	}
	return w
}

// knownPhase accepts phases (planner) and statuses of a run (planner_running). The empty phase
// matches requests outside any phase.
func knownPhase(s string) bool {
	return s == "" || contract.Phase(s).Valid() || slices.Contains(contract.Statuses(), contract.Status(s))
}

// plainPhase turns planner_running into planner, so that both forms match.
func plainPhase(s string) string { return strings.TrimSuffix(s, "_running") }

func (c *checker) reply(key string, d *replyDoc) reply {
	kinds := 0
	for _, given := range []bool{d.JSON != nil, d.Text != nil && d.ToolCalls == nil, d.ToolCalls != nil} {
		if given {
			kinds++
		}
	}
	if kinds != 1 {
		c.add(key, "requires exactly one of json, text and tool_calls, except that text may accompany tool_calls")
		return reply{}
	}
	var r reply
	if d.Text != nil {
		r.text = *d.Text
	}
	if d.Reasoning != nil {
		r.reasoning = *d.Reasoning
	}
	if d.JSON != nil {
		text, err := toJSON(d.JSON)
		if err != nil {
			c.add(key+".json", "%v", err)
		}
		r.text = text
	}
	if d.ToolCalls != nil && len(d.ToolCalls) == 0 {
		c.add(key+".tool_calls", "is empty; expected at least one call")
	}
	for i := range d.ToolCalls {
		r.calls = append(r.calls, c.call(fmt.Sprintf("%s.tool_calls[%d]", key, i), &d.ToolCalls[i]))
	}
	return r
}

func (c *checker) call(key string, d *callDoc) toolCall {
	if d.Name == "" {
		c.add(key+".name", "is missing")
	}
	call := toolCall{name: d.Name, arguments: "{}"}
	switch v := d.Arguments.(type) {
	case nil:
	case string: // unchanged, so a scenario can make it invalid
		call.arguments = v
	default:
		text, err := toJSON(v)
		if err != nil {
			c.add(key+".arguments", "%v", err)
		}
		call.arguments = text
	}
	return call
}

// errorCode matches error codes of providers.
var errorCode = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

func (c *checker) fault(key string, d *faultDoc) *faultSpec {
	f := &faultSpec{timeout: d.Timeout, truncate: d.Truncate, malformed: d.Malformed, disconnect: d.Disconnect}
	kinds := 0
	for _, given := range []bool{d.Status != nil, f.timeout, f.truncate, f.malformed, f.disconnect} {
		if given {
			kinds++
		}
	}
	if kinds != 1 {
		c.add(key, "requires exactly one of status, timeout, truncate, malformed and disconnect")
	}
	if d.Status != nil {
		f.status = int(c.whole(key+".status", d.Status, http.StatusBadRequest))
		if f.status > 599 {
			c.add(key+".status", "is %d; expected an HTTP error status from 400 to 599", f.status)
		}
	}
	if d.Code != nil {
		if f.code = *d.Code; d.Status == nil {
			c.add(key+".code", "is allowed only with status")
		} else if !errorCode.MatchString(f.code) {
			c.add(key+".code", "is %q; expected one word, such as insufficient_quota", f.code)
		}
	}
	if d.RetryAfter != nil {
		if d.Status == nil {
			c.add(key+".retry_after", "is allowed only with status")
		}
		var err error
		if f.retryAfter, err = duration(*d.RetryAfter); err != nil {
			c.add(key+".retry_after", "%v", err)
		}
	}
	return f
}
