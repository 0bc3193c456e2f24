package modelclient

import (
	"cmp"
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
	"github.com/rocketgpt/orchestrator/internal/modelclient/wire"
)

// explain converts the error that ended a call into a failure without secrets.
func (x *call) explain(ctx context.Context, err error) *fault.Error {
	var typed *fault.Error
	var status *statusError
	var bad *unusable
	var reported *wire.ReportedError
	var malformed *wire.MalformedError
	switch {
	case errors.As(err, &typed):
		return typed
	case errors.As(err, &status):
		return x.explainStatus(status)
	case errors.As(err, &bad):
		return fault.New(contract.ClassLLM, bad.code, "%s: %s", x.who(), x.scrub.clean(bad.reason))
	case errors.Is(err, wire.ErrTooLarge):
		return fault.New(contract.ClassLLM, contract.CodeTruncated, "%s: the response exceeds %d bytes and was cut off", x.who(), x.client.opts.MaxResponse)
	case errors.As(err, &reported):
		return x.explainReported(reported)
	case ctx.Err() != nil:
		return x.explainEnd(ctx, err)
	case errors.As(err, &malformed):
		return fault.Wrap(x.scrub.cause(malformed.Err), contract.ClassLLM, contract.CodeInvalidOutput, "%s: the response does not match the API's JSON format", x.who())
	default:
		return fault.Wrap(x.scrub.cause(err), contract.ClassInfra, contract.CodeUnavailable,
			"%s: the provider is unreachable or closed the connection", x.who())
	}
}

// who describes the model, its provider and the address.
func (x *call) who() string {
	return fmt.Sprintf("model %s of provider %s (%s)", fault.Clip(x.req.Choice.Model, 80), x.provider.Name, x.provider.Address())
}

// explainEnd explains a call whose context ended.
func (x *call) explainEnd(ctx context.Context, err error) *fault.Error {
	waiting := ""
	if errors.Is(err, errNoSlot) {
		waiting = fmt.Sprintf(" while all %d of the provider's slots were in use (max_concurrent)", x.provider.MaxConcurrent)
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errIdle):
		return fault.New(contract.ClassInfra, contract.CodeTimeout, "%s: no data received for %s (models.idle_timeout)", x.who(), x.client.opts.IdleTimeout)
	case errors.Is(cause, errDeadline):
		return fault.New(contract.ClassInfra, contract.CodeTimeout, "%s: no complete response within %s (models.timeout)", x.who(), x.timeout())
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault.Wrap(context.DeadlineExceeded, contract.ClassInfra, contract.CodeTimeout, "%s: the deadline was exceeded%s", x.who(), waiting)
	default:
		return fault.Wrap(context.Canceled, contract.ClassInfra, contract.CodeCancelled, "%s: the call was cancelled%s", x.who(), waiting)
	}
}

// apiError is an error in the form reported by providers. Code is a text for most providers, and
// the HTTP status for some.
type apiError struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    any    `json:"code"`
	Status  string `json:"status"`
	Param   any    `json:"param"`
}

// readAPIError finds the error in a body: an object, a list with one object (Gemini), plain text, or
// fields of the body itself (some providers).
func readAPIError(body []byte) apiError {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var doc struct {
		Error  json.RawMessage `json:"error"`
		Detail string          `json:"detail"`
	}
	_ = json.Unmarshal(body, &doc) // a detail of another form is left out
	var e apiError
	if len(doc.Error) == 0 || string(doc.Error) == "null" {
		_ = json.Unmarshal(body, &e) // of any form
		e.Message = cmp.Or(e.Message, doc.Detail)
		return e
	}
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

// saysNoStream matches "type code status message", in lower case, of providers that do not stream.
// [fault.OfHTTP] interprets all other messages.
var saysNoStream = regexp.MustCompile(`\bstream(ing|_options)?\b[^.]{0,80}\b(not|un|isn't|unknown|unrecognized|unsupported|invalid)[ _-]?(support|avail|allow|implement|permitted|enabled|\b)|\b(unsupported|unknown|unrecognized|not support|cannot|can't|does not|doesn't|extra)\b[^.]{0,80}\bstream(ing|_options)?\b`)

func (e apiError) words() string {
	return strings.ToLower(strings.Join([]string{e.Type, e.code(), e.Status, e.Message}, " "))
}

// deniesStreaming reports whether a provider rejected a request because of streaming.
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
			"%s: the address redirects to another one (HTTP %d), and redirects are not followed; set base_url to the final address", x.who(), e.status)
	}
	failed := x.explainAPIError(e.status, e.body, said)
	limited := failed.Code == contract.CodeRateLimited || failed.Code == contract.CodeQuotaExhausted
	wait := retryAfter(e.header, time.Now(), limited)
	if wait == 0 && failed.Code != contract.CodeQuotaExhausted {
		wait = retryDelay(e.body)
	}
	failed = failed.After(min(wait, MaxRetryAfter))
	if failed.Code == contract.CodeQuotaExhausted && wait > 0 {
		failed.Wait = min(max(wait, MinQuotaWait), MaxQuotaWait)
	}
	return failed
}

// explainReported explains an error reported with HTTP 200.
func (x *call) explainReported(e *wire.ReportedError) *fault.Error {
	said := readAPIError(e.Body)
	status, err := strconv.Atoi(said.code())
	if e.Status != 0 {
		status, err = e.Status, nil
	}
	if err != nil || status < 400 || status > 599 {
		status = http.StatusOK
	}
	failed := x.explainAPIError(status, e.Body, said)
	if failed.Code != contract.CodeQuotaExhausted {
		failed = failed.After(min(retryDelay(e.Body), MaxRetryAfter))
	}
	return failed
}

func (x *call) explainAPIError(status int, body []byte, said apiError) *fault.Error {
	known := fault.OfHTTP(status, body)
	class, code := known.Class, known.Code
	detail := fmt.Sprintf("HTTP %d", status)
	if said.Message != "" {
		detail += ": " + fault.Clip(x.scrub.clean(said.Message), 400)
	}
	hint := ""
	switch code {
	case contract.CodeUnauthorized:
		hint = "; the API key comes from " + x.provider.KeySource()
		if x.provider.Kind.Cloud() {
			hint = "; the credentials come from " + x.provider.KeySource() + "; they must be allowed to call this model"
		}
	case contract.CodeModelNotFound:
		hint = "; check that the provider has this model and that base_url is correct"
	case contract.CodeQuotaExhausted:
		hint = "; the provider's quota is used up: raise it or switch to another model"
	default: // the provider's message is sufficient
	}
	return fault.New(class, code, "%s responded with %s%s", x.who(), detail, hint)
}
