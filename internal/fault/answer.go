package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

const (
	// MaxScanAnswer is the number of bytes of a model response that are scanned as prose. JSON is
	// checked in full.
	MaxScanAnswer = 64 << 10
	// loopLines is the number of repetitions of one line at which a response counts as a loop.
	loopLines = 40
)

// ToolCall is a tool call requested by a model.
type ToolCall struct {
	Name      string `yaml:"name"`
	Arguments string `yaml:"arguments"` // JSON as the model wrote it
}

// Answer is a model response and the facts that are needed to judge it.
type Answer struct {
	Text string
	// FinishReason is the provider's reason why the response ended.
	FinishReason string
	// Refusal is the content of the refusal field that some providers have.
	Refusal string
	// WantJSON is whether the text must be one JSON value, optionally in a code fence.
	WantJSON bool
	// ToolCalls are the requested calls; Tools are the names of the available tools.
	ToolCalls []ToolCall
	Tools     []string
	// Problem is an error that a check of schema or content found in the response.
	Problem string
	// MissingFiles are files that the response treats as existing but that do not exist.
	MissingFiles []string
}

// The verdicts on model responses.
var (
	declined     = verdict{contract.ClassLLM, contract.CodeRefusal, "the model declined", "ask again with constraints that resolve its concerns, or use another model"}
	cutShort     = verdict{contract.ClassLLM, contract.CodeTruncated, "the model's response was truncated", "request less per call, or allow a longer response"}
	saidNothing  = verdict{contract.ClassLLM, contract.CodeEmptyOutput, "the model's response is empty", "ask again"}
	wentRound    = verdict{contract.ClassLLM, contract.CodeLoop, "the model is repeating itself", "ask again at a different temperature, or use another model"}
	madeUp       = verdict{contract.ClassLLM, contract.CodeHallucination, "the model referred to a nonexistent tool or file", "ask again with a list of existing names"}
	unusableForm = verdict{contract.ClassLLM, contract.CodeInvalidOutput, "the model's response does not have the required format", "report the error to the model and ask again"}
)

// OfAnswer returns the failure that a model response represents, nil if it is usable. The most
// conclusive checks come first: a refusal, a loop and the finish reason, then the calls, then the
// text.
func OfAnswer(a Answer) *contract.Failure {
	for _, check := range []func(Answer) (verdict, string){
		ofRefusalField, ofLoop, ofFinish, ofCalls, ofEmptiness, ofText, ofContent,
	} {
		if v, cause := check(a); v.class != "" {
			return v.failure(Output{}, finding{cause: Clip(readable(cause), MaxOutputCause)})
		}
	}
	return nil
}

func ofRefusalField(a Answer) (verdict, string) {
	if strings.TrimSpace(a.Refusal) != "" {
		return declined, a.Refusal
	}
	return verdict{}, ""
}

// ofFinish judges the finish reason, as defined by OpenAI, Anthropic, Gemini and Ollama.
func ofFinish(a Answer) (verdict, string) {
	cause := "the provider's finish reason is " + a.FinishReason
	switch strings.ToLower(a.FinishReason) {
	case "length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded":
		return cutShort, cause
	case "content_filter", "safety", "refusal", "recitation", "blocklist", "prohibited_content", "spii", "image_safety", "language", "content_filtered", "guardrail_intervened":
		return declined, cause
	case "malformed_function_call", "unexpected_tool_call", "malformed_tool_use":
		return unusableForm, cause
	}
	return verdict{}, ""
}

// ofLoop detects a line that repeats until the output limit is reached.
func ofLoop(a Answer) (verdict, string) {
	last, count := "", 0
	for line := range strings.Lines(a.Text[:min(len(a.Text), MaxScanAnswer)]) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || len(line) < 3:
		case line == last:
			if count++; count >= loopLines {
				return wentRound, "the response repeats the same line: " + line
			}
		default:
			last, count = line, 1
		}
	}
	return verdict{}, ""
}

func ofCalls(a Answer) (verdict, string) {
	for _, call := range a.ToolCalls {
		if !slices.Contains(a.Tools, call.Name) {
			return madeUp, "unknown tool " + oneLine(call.Name, maxShownLine) + "; available tools: " + strings.Join(a.Tools, ", ")
		}
		if strings.TrimSpace(call.Arguments) == "" {
			continue // as some providers say {}
		}
		if err := wholeJSON(call.Arguments); err != nil {
			v := unusableForm
			if errors.Is(err, io.ErrUnexpectedEOF) {
				v = cutShort
			}
			return v, "the arguments of " + call.Name + " are not JSON: " + err.Error()
		}
	}
	return verdict{}, ""
}

func ofEmptiness(a Answer) (verdict, string) {
	if len(a.ToolCalls) == 0 && strings.Trim(unfence(a.Text), " \t\r\n`") == "" {
		return saidNothing, "the response is empty"
	}
	return verdict{}, ""
}

var (
	// refusals matches the beginning of a sentence in which a model declines; later in a sentence,
	// the same words have other meanings.
	refusals = regexp.MustCompile(`(?i)^` + preface + `(?:but )?(?:i|we)` + cannot + `(?:help|assist|comply|fulfill?|engage|participate|support (?:that|this)|provide (?:that|this|assistance|help)|do (?:that|this)|with (?:that|this)|(?:that|this) request|writing|creating|helping|to (?:help|assist|comply))\b(?: with\b| you\b| to\b|[^b]|$)`)
	// apologies matches vague refusals, which count only if they start with an apology.
	apologies = regexp.MustCompile(`(?i)^` + apology + `[\s,.;:—-]*(?:but )?(?:i|we)` + cannot + `(?:create|write|generate|produce|provide|build|make|share|continue|answer|discuss|help|assist|comply|do|fulfill?|engage)\b`)
	// against matches refusals that state their reason.
	against = regexp.MustCompile(`(?i)^[^\n]{0,300}(?:against|violates?|not (?:in line|consistent) with) (?:my|our|openai['’]s|anthropic['’]s|the) (?:\w+ )?(?:guidelines|polic(?:y|ies)|principles|values)|^[^\n]{0,300}\b(?:i|we) (?:must|have to|need to) (?:respectfully )?(?:decline|refuse)\b|^\W*as an ai (?:language )?model\b[^\n]{0,80}(?:not able|unable|cannot|can['’]t)`)
	// calledInProse matches a tool call written as text.
	calledInProse = regexp.MustCompile(`<tool_call>|<function[=_ ]|<\|tool_call|<\|python_tag\|>|<invoke name=|\[TOOL_CALLS\]`)
)

const (
	apology = `\W*(?:(?:i['’]?m|i am|we['’]?re) (?:very |really |truly )?sorry\b[^.!?\n]{0,40}?|sorry\b[^.!?\n]{0,40}?|unfortunately|apologies[^.!?\n]{0,40}?|i apologi[sz]e[^.!?\n]{0,40}?)`
	preface = `(?:` + apology + `|\W*as an ai\b[^.!?\n]{0,60}?|\W*i (?:understand|appreciate)[^.\n]{0,120}?)?[\s,.;:—"'-]*`
	cannot  = `(?: am|['’]m|['’]ll)?[\s-]*(?:can(?:not|['’]t| not)|won['’]t|will not|must (?:decline|refuse)|(?:do not|don['’]t) feel comfortable|not (?:be )?(?:able|comfortable|willing|allowed|permitted)|unable|decline|refuse|have to (?:decline|refuse))(?: be able)?(?: to)? ?(?:in good conscience |currently |actually |really |directly )?`
	// openingSentences is the number of sentences of a response that are searched for a refusal.
	openingSentences = 3
)

var sentenceEnd = regexp.MustCompile(`[.!?]\s+`)

// declines reports whether a response opens with a refusal.
func declines(text string) bool {
	if against.MatchString(text) {
		return true
	}
	rest := text[:min(len(text), maxScanLine)]
	for range openingSentences {
		if refusals.MatchString(rest) || apologies.MatchString(rest) {
			return !strings.Contains(strings.ToLower(rest[:min(len(rest), 80)]), "help but")
		}
		end := sentenceEnd.FindStringIndex(rest)
		if end == nil {
			return false
		}
		rest = rest[end[1]:]
	}
	return false
}

// ofText detects a refusal, a tool call written as text, or invalid JSON.
func ofText(a Answer) (verdict, string) {
	text := strings.TrimSpace(a.Text[:min(len(a.Text), MaxScanAnswer)])
	if len(a.ToolCalls) == 0 && declines(text) {
		return declined, FirstLine(text)
	}
	if len(a.Tools) > 0 && len(a.ToolCalls) == 0 {
		if at := calledInProse.FindStringIndex(text); at != nil {
			return unusableForm, "a tool call was written as text: " + Clip(text[at[0]:], maxShownLine)
		}
	}
	if !a.WantJSON || len(a.ToolCalls) > 0 {
		return verdict{}, ""
	}
	body := strings.TrimSpace(unfence(a.Text))
	err := wholeJSON(body)
	switch {
	case err == nil && body == "null":
		return unusableForm, "the response is null"
	case err == nil:
		return verdict{}, ""
	case !strings.HasPrefix(body, "{") && !strings.HasPrefix(body, "["):
		return unusableForm, "the response is not JSON: " + FirstLine(body)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return cutShort, "unexpected end of JSON"
	}
	return unusableForm, "the response is not JSON: " + err.Error()
}

func ofContent(a Answer) (verdict, string) {
	if len(a.MissingFiles) > 0 {
		return madeUp, "not in the repository: " + strings.Join(a.MissingFiles[:min(len(a.MissingFiles), 10)], ", ")
	}
	if strings.TrimSpace(a.Problem) != "" {
		return unusableForm, a.Problem
	}
	return verdict{}, ""
}

// unfence removes one code fence around a text.
func unfence(s string) string {
	s = strings.TrimSpace(s)
	rest, ok := strings.CutPrefix(s, "```")
	if !ok {
		return s
	}
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[i+1:]
	} else {
		rest = ""
	}
	return strings.TrimSuffix(strings.TrimSpace(rest), "```")
}

// wholeJSON returns an error unless a text is exactly one JSON value; for a truncated value, it is
// io.ErrUnexpectedEOF.
func wholeJSON(s string) error {
	d := json.NewDecoder(bytes.NewReader([]byte(s)))
	var v json.RawMessage
	if err := d.Decode(&v); err != nil {
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text after the JSON value")
	}
	return nil
}
