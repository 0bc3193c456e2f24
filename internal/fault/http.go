package fault

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// MaxScanBody is the number of bytes of an error body that are scanned.
const MaxScanBody = 64 << 10

// bodyRule recognises an error that providers describe in the body rather than by the status.
type bodyRule struct {
	words  *regexp.Regexp // in lower case
	status func(int) bool // nil: any below 500
	class  contract.Class
	code   contract.Code
}

func statusIn(statuses ...int) func(int) bool {
	return func(got int) bool {
		return slices.Contains(statuses, got)
	}
}

// bodyRules are tried from top to bottom.
var bodyRules = []bodyRule{
	// Gemini says the same of an exhausted quota and of a limit per minute, except in the details.
	{re(`per[_-]?(day|month)|quota exceeded for metric[^\n"]{0,300}limit: 0\b`), statusIn(http.StatusTooManyRequests), contract.ClassInfra, contract.CodeQuotaExhausted},
	{re(`google\.rpc\.quotafailure[\s\S]*per[_-]?minute|google\.rpc\.retryinfo`), statusIn(http.StatusTooManyRequests), contract.ClassInfra, contract.CodeRateLimited},
	{re(`insufficient_quota|exceeded your current quota|credit balance is too low|insufficient (credits|balance|funds)|requires more credits|billing.{0,10}hard.{0,3}limit|quota_exceeded|per[_-]?day|(daily|monthly) (usage )?(limit|quota)|usage_limit|spend(ing)? limit|payment required|out of credits`), nil, contract.ClassInfra, contract.CodeQuotaExhausted},
	{re(`rate.?limit|too many requests|throttl|slow down|resource.{0,10}exhausted`), statusIn(http.StatusTooManyRequests, http.StatusForbidden, http.StatusBadRequest), contract.ClassInfra, contract.CodeRateLimited},
	{re(`context_length_exceeded|maximum context length|context (window|length|limit|size)|exceeds? (the )?max(imum)? (context )?length|context_exceeded|prompt is too long|(input|prompt|request) is too (long|large)|input token count .* exceeds|exceeds the maximum number of tokens|too many (input )?tokens|string_above_max_length|exceed_context_size|max_new_tokens.{0,5} must be|request_too_large|reduce the length of`), statusIn(http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge, http.StatusOK, http.StatusNotFound), contract.ClassLLM, contract.CodeContextOverflow},
	{re(`content_filter|content_policy|invalid_prompt|bio_policy|misalignment_policy|flagged as (potentially )?violating|content management policy|prohibited_content|requires moderation|input was flagged|safety system|violates (our |the )?(usage|content) (guidelines|policy|policies)|safety_check|responsibleai|"blockreason"`), nil, contract.ClassLLM, contract.CodeRefusal},
	{re(`json_validate_failed|tool_use_failed|failed to generate json|failed to call a function`), statusIn(http.StatusBadRequest, http.StatusUnprocessableEntity), contract.ClassLLM, contract.CodeInvalidOutput},
	{re(`invalid_api_key|api_key_invalid|api key not valid|(invalid|incorrect|missing) (x-)?api.?key|authentication_error|permission_error|permission_denied|user location is not supported|unsupported_country`), nil, contract.ClassConfig, contract.CodeUnauthorized},
	{re(`model_not_found|not a valid model id|not_found_error|deploymentnotfound|no endpoints found|model .{0,80}(does not exist|not found|is not available|deprecated|decommissioned)|is not found for api version|model identifier is invalid|try pulling it first`), statusIn(http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusForbidden), contract.ClassConfig, contract.CodeModelNotFound},
}

// overflowed matches a context overflow that a provider reports as a server error (5xx).
var overflowed = re(`context (size|length|window) (has been |is |was )?exceeded|exceeds? the (available |maximum )?context`)

const (
	statusCloudflareSlow   = 524
	statusCloudflareNoConn = 522
)

// OfHTTP returns the failure for a model provider's error response. The body takes precedence if it
// is more specific than the status; the formats of OpenAI, Anthropic, OpenRouter, Gemini, Ollama
// and compatible servers are recognised. Status 200 means an error in place of a completion. The
// message quotes the provider's message, shortened.
func OfHTTP(status int, body []byte) *contract.Failure {
	doc := string(body[:min(len(body), MaxScanBody)])
	said := readProviderError(body)
	if said.Status >= http.StatusBadRequest && status < http.StatusMultipleChoices {
		status = said.Status
	}
	class, code := classOfBody(status, strings.ToLower(doc))
	cause := strings.TrimSpace(strings.Join(nonEmpty(said.Message, said.Raw, said.Kind), "\n"))
	if cause == "" {
		cause = oneLine(readable(doc), maxShownLine)
	}
	head := fmt.Sprintf("HTTP %d", status)
	if name := http.StatusText(status); name != "" {
		head += " " + name
	}
	cause = Clip(hideLogins(readable(strings.TrimSpace(head+"\n"+cause))), MaxOutputCause)
	message := fmt.Sprintf("the model provider responded with %s: %s", head, oneLine(strings.TrimPrefix(cause, head), maxShownLine))
	return &contract.Failure{Class: class, Code: code, Message: Clip(strings.TrimSuffix(message, ": ")+"; "+httpTodo(code), MaxOutputMessage), Cause: cause}
}

func classOfBody(status int, words string) (contract.Class, contract.Code) {
	if status >= http.StatusInternalServerError {
		if overflowed.MatchString(words) {
			return contract.ClassLLM, contract.CodeContextOverflow
		}
		if status == statusCloudflareSlow || status == statusCloudflareNoConn {
			return contract.ClassInfra, contract.CodeTimeout
		}
		return OfHTTPStatus(status)
	}
	for _, rule := range bodyRules {
		if (rule.status == nil || rule.status(status)) && rule.words.MatchString(words) {
			return rule.class, rule.code
		}
	}
	switch {
	case status == http.StatusProxyAuthRequired:
		return contract.ClassConfig, contract.CodeUnauthorized
	case status < http.StatusBadRequest: // not a usable response; a retry may succeed
		return contract.ClassInfra, contract.CodeUnavailable
	}
	return OfHTTPStatus(status)
}

var httpTodos = map[contract.Code]string{
	contract.CodeQuotaExhausted:  "raise the quota, or use another provider until the limit resets",
	contract.CodeRateLimited:     "wait, or use another provider",
	contract.CodeContextOverflow: "send less context, or use a model with a larger window",
	contract.CodeRefusal:         "reword the request, or use another model",
	contract.CodeUnauthorized:    "check the key and its permissions",
	contract.CodeModelNotFound:   "check that the provider offers the model and that base_url is correct",
	contract.CodeInvalidOutput:   "ask again",
	contract.CodeBadRequest:      "correct the model settings",
}

func httpTodo(code contract.Code) string {
	return cmp.Or(httpTodos[code], "try again later, or use another provider")
}

// providerError is the content of an error body in any supported format.
type providerError struct {
	Message, Kind, Raw string
	Status             int
}

// readProviderError reads {"error": {…}}, {"error": "…"}, {"message": …}, a list
// of one of these (Gemini), and Gemini's blocked prompts.
func readProviderError(body []byte) providerError {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var doc map[string]json.RawMessage
	if json.Unmarshal(body, &doc) != nil {
		return providerError{}
	}
	if raw, ok := doc["error"]; ok {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			return providerError{Message: text}
		}
		_ = json.Unmarshal(raw, &doc) // if it is not an object, the fields of the body are used
	}
	var e providerError
	if blocked, ok := doc["promptFeedback"]; ok {
		e.Message = string(blocked)
	}
	text := func(key string) (s string) {
		_ = json.Unmarshal(doc[key], &s) // a number or nothing: not text
		return s
	}
	var meta struct {
		Raw string `json:"raw"`
	}
	_ = json.Unmarshal(doc["metadata"], &meta) // optional
	_ = json.Unmarshal(doc["code"], &e.Status) // a string for some providers
	if e.Message == "" {
		e.Message = text("message")
	}
	e.Kind = strings.Join(nonEmpty(text("type"), text("code"), text("status"), text("__type")), " ")
	e.Raw = meta.Raw
	return e
}

func nonEmpty(all ...string) []string {
	var kept []string
	for _, s := range all {
		if strings.TrimSpace(s) != "" {
			kept = append(kept, s)
		}
	}
	return kept
}
