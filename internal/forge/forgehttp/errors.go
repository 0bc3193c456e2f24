package forgehttp

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// StatusError is a response that is not a success.
type StatusError struct {
	Status  int
	Header  http.Header
	Message string // what the forge says, on one line; it may repeat credentials
}

// Error returns the status and the forge's message.
func (e *StatusError) Error() string {
	text := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", e.Status, http.StatusText(e.Status)))
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// StatusOf returns the HTTP status and the message of a failed request, 0 if the error is not that
// of a response.
func StatusOf(err error) (status int, message string) {
	var e *StatusError
	if errors.As(err, &e) {
		return e.Status, e.Message
	}
	return 0, ""
}

// RateLimit reports whether an error is a response because of a rate limit, and how long to wait.
func RateLimit(err error) (time.Duration, bool) {
	var e *StatusError
	if errors.As(err, &e) {
		return e.rateLimit()
	}
	return 0, false
}

// Waits that follow from rate limits.
const (
	// MaxWait limits the wait that a forge may request. Rate limits start again after an hour at most.
	MaxWait = time.Hour
	// unknownWait is the wait if a forge reports a limit without one. GitHub demands a minute.
	unknownWait = time.Minute
)

// maxMessage is the number of bytes of a forge's message that an error shows.
const maxMessage = 500

// Explain returns the failure for an error of the client or of a library that uses it, nil for nil.
// operation completes "cannot …" and names the object, such as "merge pull request 7". repo is empty
// if the operation concerns none. The message contains no credentials.
func (c *Client) Explain(err error, operation, repo string) error {
	if err == nil {
		return nil
	}
	what := "cannot " + operation
	if repo != "" {
		what += " of " + repo
	}
	what += " on the forge " + c.String()
	class, code, why, wait := c.reason(err)
	return fault.New(class, code, "%s: %s", what, c.scrub(why)).After(wait)
}

// reason returns the class and code of an error, and its cause with what to do about it.
func (c *Client) reason(err error) (contract.Class, contract.Code, string, time.Duration) {
	var own *fault.Error
	if errors.As(err, &own) {
		return own.Class, own.Code, own.Message, own.RetryAfter
	}
	var status *StatusError
	if errors.As(err, &status) {
		return ofStatus(status)
	}
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err // without the URL, which may be signed
	}
	var certificate *tls.CertificateVerificationError
	var unreadable *json.SyntaxError
	var wrongType *json.UnmarshalTypeError
	var timeout net.Error
	var dial *net.OpError
	switch {
	case errors.Is(err, context.Canceled):
		return contract.ClassInfra, contract.CodeCancelled, "the request was cancelled", 0
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return contract.ClassInfra, contract.CodeTimeout, "it did not respond in time; whether the request had an effect is unknown", 0
	case errors.Is(err, errTooLarge):
		return contract.ClassInfra, contract.CodeTooLarge, fmt.Sprintf("the response has more than %d bytes", MaxBody), 0
	case errors.As(err, &certificate):
		return contract.ClassConfig, contract.CodeInvalidConfig, certificate.Error() + "; check url, or add the forge's CA to the system's certificates", 0
	case errors.As(err, &dial) && dial.Op == "dial", errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return contract.ClassInfra, contract.CodeUnavailable, oneLine(err.Error()) + "; check that it is running and can be reached", 0
	case errors.As(err, &unreadable), errors.As(err, &wrongType):
		return contract.ClassInfra, contract.CodeUnavailable, "its response cannot be read: " + oneLine(err.Error()), 0
	}
	f := fault.Of(err)
	if f.Class == contract.ClassRuntime && outer != nil { // the network failed in another way
		f.Class, f.Code = contract.ClassInfra, contract.CodeUnavailable
	}
	return f.Class, f.Code, oneLine(f.Message), 0
}

// ofStatus returns the class and code of a failed response.
func ofStatus(e *StatusError) (contract.Class, contract.Code, string, time.Duration) {
	text := e.Error()
	if wait, ok := e.rateLimit(); ok {
		return contract.ClassInfra, contract.CodeRateLimited, text + "; a rate limit was reached; try again in " + wait.Round(time.Second).String(), wait
	}
	switch {
	case e.Status == http.StatusUnauthorized:
		return contract.ClassConfig, contract.CodeUnauthorized, text + "; the credentials are wrong, expired or revoked: replace them", 0
	case e.Status == http.StatusProxyAuthRequired:
		return contract.ClassConfig, contract.CodeUnauthorized, text + "; the proxy requires credentials", 0
	case e.Status == http.StatusForbidden:
		return contract.ClassConfig, contract.CodeUnauthorized, text + "; " + e.missing(), 0
	case e.Status == http.StatusNotFound, e.Status == http.StatusGone, e.Status == http.StatusUnavailableForLegalReasons:
		return contract.ClassConfig, contract.CodeRepository, text + "; it does not exist, or the credentials may not see it" + e.alsoMissing(), 0
	case e.Status == http.StatusRequestTimeout, e.Status == http.StatusGatewayTimeout:
		return contract.ClassInfra, contract.CodeTimeout, text, e.retryAfter()
	case e.Status >= http.StatusInternalServerError:
		return contract.ClassInfra, contract.CodeUnavailable, text, e.retryAfter()
	}
	return contract.ClassConfig, contract.CodeBadRequest, text, 0
}

// rateLimit reports whether a rate limit was reached, and how long to wait.
func (e *StatusError) rateLimit() (time.Duration, bool) {
	message := strings.ToLower(e.Message)
	secondary := strings.Contains(message, "secondary rate limit") || strings.Contains(message, "abuse detection")
	exhausted := e.Header.Get("X-Ratelimit-Remaining") == "0"
	switch {
	case e.Status == http.StatusTooManyRequests:
	case e.Status == http.StatusForbidden && (secondary || exhausted || e.Header.Get("Retry-After") != "" || strings.Contains(message, "rate limit exceeded")):
	default:
		return 0, false
	}
	if wait := e.retryAfter(); wait > 0 {
		return wait, true
	}
	if secondary && !exhausted {
		return unknownWait, true
	}
	for _, name := range []string{"X-Ratelimit-Reset", "Ratelimit-Reset"} {
		seconds, err := strconv.ParseInt(e.Header.Get(name), 10, 64)
		if err != nil {
			continue
		}
		// One second more, because both times are rounded.
		return clamp(clamp(time.Unix(seconds, 0).Sub(e.sent())) + time.Second), true
	}
	return unknownWait, true
}

// retryAfter returns the wait that the response requests, 0 if it requests none.
func (e *StatusError) retryAfter() time.Duration {
	text := e.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return clamp(time.Duration(seconds) * time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		return clamp(at.Sub(e.sent()))
	}
	return 0
}

// sent returns when the forge sent the response, by its own clock if it says so.
func (e *StatusError) sent() time.Time {
	if at, err := http.ParseTime(e.Header.Get("Date")); err == nil {
		return at
	}
	return time.Now()
}

func clamp(d time.Duration) time.Duration { return min(max(d, time.Second), MaxWait) }

// missing says which rights a refused request needs.
func (e *StatusError) missing() string {
	if strings.HasPrefix(e.Header.Get("X-Github-Sso"), "required") {
		return "authorize the token for the organization's single sign-on"
	}
	if rights := Needed(e.Header); rights != "" {
		return "the credentials need " + rights
	}
	return "the credentials lack a right that it needs; docs/FORGES.md lists the rights"
}

func (e *StatusError) alsoMissing() string {
	if rights := Needed(e.Header); rights != "" {
		return ", for which they need " + rights
	}
	return ""
}

// Needed returns the rights that a request needs, as GitHub's headers name them, if the credentials
// do not have them as far as the headers say; "" otherwise.
func Needed(h http.Header) string {
	if fine := oneLine(h.Get("X-Accepted-Github-Permissions")); fine != "" {
		return "one of these permissions: " + strings.ReplaceAll(fine, ";", " or")
	}
	scopes, accepted := entries(h.Get("X-Oauth-Scopes")), entries(h.Get("X-Accepted-Oauth-Scopes"))
	if len(accepted) == 0 || slices.ContainsFunc(accepted, func(s string) bool { return slices.Contains(scopes, s) }) {
		return ""
	}
	return "one of these scopes: " + strings.Join(accepted, ", ") + " (the token has: " + strings.Join(scopes, ", ") + ")"
}

// entries splits a header's list.
func entries(header string) (out []string) {
	for part := range strings.SplitSeq(oneLine(header), ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// messageOf returns what the body of a failed response says, on one line.
func messageOf(body []byte) string {
	var doc any
	if json.Unmarshal(body, &doc) != nil {
		if strings.HasPrefix(strings.TrimSpace(string(body)), "<") {
			return "" // a web page
		}
		return oneLine(string(body))
	}
	var texts []string
	collect(doc, 0, &texts)
	return oneLine(strings.Join(slices.Compact(texts), "; "))
}

// messageKeys are the fields of failed responses that have texts for people, or explain them.
var messageKeys = []string{"message", "error", "error_description", "errors", "scope", "resource", "field", "code"}

// collect finds the texts in the forms that forges use: texts, lists, and objects by field.
func collect(v any, depth int, out *[]string) {
	const deepest, most = 4, 20
	if depth > deepest || len(*out) >= most {
		return
	}
	switch v := v.(type) {
	case string:
		*out = append(*out, v)
	case []any:
		for _, one := range v {
			collect(one, depth+1, out)
		}
	case map[string]any:
		known := false
		for _, key := range messageKeys {
			if inner, ok := v[key]; ok {
				known = true
				collect(inner, depth+1, out)
			}
		}
		if !known && depth > 0 { // GitLab: errors by field
			for _, key := range slices.Sorted(maps.Keys(v)) {
				*out = append(*out, key)
				collect(v[key], depth+1, out)
			}
		}
	}
}

// oneLine returns a text on one line of limited length, without characters that are not shown.
func oneLine(text string) string {
	text = strings.ToValidUTF8(fault.Clip(text, 4*maxMessage), "�")
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	return fault.Clip(strings.Join(strings.Fields(text), " "), maxMessage)
}

// scrub removes the credentials that were used last from a text.
func (c *Client) scrub(text string) string {
	used := c.used.Load()
	if used == nil || len(*used) < minSecret {
		return text
	}
	for _, secret := range []string{*used, url.QueryEscape(*used)} {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}

// minSecret is the length from which on a token is removed: a shorter one would break up words.
const minSecret = 4
