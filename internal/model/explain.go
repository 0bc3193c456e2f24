package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// MaxRetryAfter is the longest wait that a provider may ask for; a longer one
// is shortened, since a limit that lasts is better met by another provider.
const MaxRetryAfter = 60 * time.Second

// explain turns whatever ended a call into a failure without secrets.
func (x *call) explain(ctx context.Context, err error) *fault.Error {
	var typed *fault.Error
	var status *statusError
	var bad *unusable
	var reported *providerError
	var malformed *malformedError
	switch {
	case errors.As(err, &typed):
		return typed
	case errors.As(err, &status):
		return x.explainStatus(status)
	case errors.As(err, &bad):
		return fault.New(contract.ClassLLM, bad.code, "%s: %s", x.who(), x.scrub.clean(bad.reason))
	case errors.Is(err, errTooLarge):
		return fault.New(contract.ClassLLM, contract.CodeTruncated, "%s: the answer is larger than %d bytes and was cut", x.who(), x.client.opts.MaxResponse)
	case errors.As(err, &reported):
		return x.explainReported(reported)
	case ctx.Err() != nil:
		return x.explainEnd(ctx, err)
	case errors.As(err, &malformed):
		return fault.Wrap(x.scrub.cause(malformed.err), contract.ClassLLM, contract.CodeInvalidOutput, "%s: the answer is not the protocol's JSON", x.who())
	default:
		return fault.Wrap(x.scrub.cause(err), contract.ClassInfra, contract.CodeUnavailable,
			"%s: the provider could not be reached or broke the connection", x.who())
	}
}

// who names provider, address and model.
func (x *call) who() string {
	return fmt.Sprintf("model %s of provider %s (%s)", clip(x.req.Choice.Model, 80), x.provider.Name, x.provider.Address())
}

// explainEnd explains a call whose context ended.
func (x *call) explainEnd(ctx context.Context, err error) *fault.Error {
	waiting := ""
	if errors.Is(err, errNoSlot) {
		waiting = fmt.Sprintf(" while all %d places of the provider were taken (max_concurrent)", x.provider.MaxConcurrent)
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errIdle):
		return fault.New(contract.ClassInfra, contract.CodeTimeout, "%s: nothing arrived for %s", x.who(), x.client.opts.IdleTimeout)
	case errors.Is(cause, errDeadline):
		return fault.New(contract.ClassInfra, contract.CodeTimeout, "%s: no whole answer within %s", x.who(), x.timeout())
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault.Wrap(context.DeadlineExceeded, contract.ClassInfra, contract.CodeTimeout, "%s: the time for this work ended%s", x.who(), waiting)
	default:
		return fault.Wrap(context.Canceled, contract.ClassInfra, contract.CodeCancelled, "%s: the call was cancelled%s", x.who(), waiting)
	}
}

// apiError is what providers write about an error. Code is a text with most,
// the HTTP status with some.
type apiError struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    any    `json:"code"`
	Status  string `json:"status"`
	Param   any    `json:"param"`
}

// readAPIError finds the error in a body: an object, with Gemini a list of one,
// with some a plain text.
func readAPIError(body []byte) apiError {
	var doc struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &doc) != nil {
		var list []json.RawMessage
		if json.Unmarshal(body, &list) != nil || len(list) == 0 {
			return apiError{}
		}
		return readAPIError(list[0])
	}
	var e apiError
	if json.Unmarshal(doc.Error, &e) != nil {
		_ = json.Unmarshal(doc.Error, &e.Message)
	}
	return e
}

func (e apiError) code() string {
	switch c := e.Code.(type) {
	case string:
		return c
	case float64:
		return strconv.Itoa(int(c))
	}
	return ""
}

// The words by which providers tell what a status does not. Each looks at
// "type code status message", in lower case.
var (
	saysQuota    = regexp.MustCompile(`insufficient_quota|exceeded your current quota|credit balance is too low|insufficient credits|billing_hard_limit`)
	saysOverflow = regexp.MustCompile(`context_length_exceeded|maximum context length|context (window|length)|prompt is too long|input is too long|input token count .* exceeds|too many tokens in|string_above_max_length`)
	saysRefused  = regexp.MustCompile(`content_filter|content_policy|content management policy|prohibited_content`)
	saysBadKey   = regexp.MustCompile(`invalid_api_key|api_key_invalid|api key not valid|invalid api key|incorrect api key|authentication_error`)
	saysBadJSON  = regexp.MustCompile(`json_validate_failed|tool_use_failed|failed to generate json`)
	saysNoModel  = regexp.MustCompile(`model_not_found|not a valid model id|model .{0,80}(does not exist|not found)`)
	saysNoStream = regexp.MustCompile(`\bstream(ing|_options)?\b[^.]{0,80}\b(not|un|isn't|unknown|unrecognized|unsupported|invalid)[ _-]?(support|avail|allow|implement|permitted|enabled|\b)|\b(unsupported|unknown|unrecognized|not support|cannot|can't|does not|doesn't|extra)\b[^.]{0,80}\bstream(ing|_options)?\b`)
)

func (e apiError) words() string {
	return strings.ToLower(strings.Join([]string{e.Type, e.code(), e.Status, e.Message}, " "))
}

// deniesStreaming reports whether a provider refused a request because it was
// to be streamed.
func (e *statusError) deniesStreaming() bool {
	switch e.status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusUnprocessableEntity, http.StatusNotImplemented:
	default:
		return false
	}
	said := readAPIError(e.body)
	if p, ok := said.Param.(string); ok && (p == "stream" || strings.HasPrefix(p, "stream_options")) {
		return true
	}
	return said.code() != "no_rule" && saysNoStream.MatchString(said.words())
}

// explainStatus explains an HTTP status other than success.
func (x *call) explainStatus(e *statusError) *fault.Error {
	said := readAPIError(e.body)
	if e.status >= 300 && e.status < 400 {
		return fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"%s: the address redirects elsewhere (HTTP %d), which is not followed; set base_url to the final address", x.who(), e.status)
	}
	return x.explainAPIError(e.status, said).After(retryAfter(e.header, time.Now()))
}

// explainReported explains an error that came with HTTP 200.
func (x *call) explainReported(e *providerError) *fault.Error {
	said := readAPIError(e.body)
	status, err := strconv.Atoi(said.code())
	if err != nil || status < 400 || status > 599 {
		status = http.StatusBadGateway // unknown, and the same request may well succeed
	}
	return x.explainAPIError(status, said)
}

func (x *call) explainAPIError(status int, said apiError) *fault.Error {
	class, code := classOf(status, said.words())
	detail := fmt.Sprintf("HTTP %d", status)
	if said.Message != "" {
		detail += ": " + clip(x.scrub.clean(said.Message), 400)
	}
	hint := ""
	switch code {
	case contract.CodeUnauthorized:
		hint = "; the key comes from " + x.provider.KeySource()
	case contract.CodeModelNotFound:
		hint = "; see that the model exists there and that base_url is right"
	case contract.CodeQuotaExhausted:
		hint = "; the provider's quota is used up: raise it or switch the model"
	default: // the provider's words tell enough
	}
	return fault.New(class, code, "%s answered %s%s", x.who(), detail, hint)
}

// classOf finds class and code: by the provider's words where they tell more
// than the status.
func classOf(status int, words string) (contract.Class, contract.Code) {
	switch {
	case status >= http.StatusInternalServerError:
		return fault.OfHTTPStatus(status)
	case saysQuota.MatchString(words):
		return contract.ClassInfra, contract.CodeQuotaExhausted
	case status == http.StatusTooManyRequests, status == http.StatusUnauthorized:
		return fault.OfHTTPStatus(status)
	case saysBadKey.MatchString(words):
		return contract.ClassConfig, contract.CodeUnauthorized
	case saysOverflow.MatchString(words):
		return contract.ClassLLM, contract.CodeContextOverflow
	case saysRefused.MatchString(words):
		return contract.ClassLLM, contract.CodeRefusal
	case saysBadJSON.MatchString(words):
		return contract.ClassLLM, contract.CodeInvalidOutput
	case saysNoModel.MatchString(words):
		return contract.ClassConfig, contract.CodeModelNotFound
	}
	return fault.OfHTTPStatus(status)
}

// retryAfter reads how long a provider asks to wait, at most MaxRetryAfter.
func retryAfter(h http.Header, now time.Time) time.Duration {
	limit := func(d time.Duration) time.Duration { return min(max(d, 0), MaxRetryAfter) }
	number := func(name string, unit time.Duration) (time.Duration, bool) {
		n, err := strconv.ParseFloat(strings.TrimSpace(h.Get(name)), 64)
		if err != nil || n != n {
			return 0, false
		}
		return limit(time.Duration(min(max(n, 0), MaxRetryAfter.Seconds()*1000) * float64(unit))), true
	}
	if d, ok := number("Retry-After-Ms", time.Millisecond); ok {
		return d
	}
	if d, ok := number("Retry-After", time.Second); ok {
		return d
	}
	if t, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		return limit(t.Sub(now))
	}
	return 0
}
