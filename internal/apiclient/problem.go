package apiclient

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// problem converts an unsuccessful response to the error that it represents.
func (c *Client) problem(resp *http.Response) error {
	var p apitypes.Problem
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	known := kind == apitypes.ProblemType && err == nil && json.Unmarshal(raw, &p) == nil
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return retriable{error: c.unavailable(resp, p), sent: true}
	case http.StatusServiceUnavailable:
		if known && p.Code == contract.CodeTimeout { // the server has used up the available time
			return fault.New(p.Class, p.Code, "%s", textOf(p))
		}
		return retriable{error: c.unavailable(resp, p), sent: !known}
	case http.StatusConflict:
		if resp.Header.Get("Retry-After") != "" { // the only conflict that is temporary
			return retriable{error: c.unavailable(resp, p), sent: true, busy: true}
		}
	}
	if !known {
		return c.notThisAPI("it responded with " + resp.Status)
	}
	f := contract.Failure{Class: p.Class, Code: p.Code, Message: textOf(p)}
	switch {
	case f.Class != "":
	case resp.StatusCode == http.StatusNotFound:
		f.Class, f.Code = contract.ClassHuman, store.CodeNotFound
	case resp.StatusCode == http.StatusRequestEntityTooLarge:
		f.Class, f.Code = contract.ClassHuman, contract.CodeTooLarge
	case resp.StatusCode == http.StatusMisdirectedRequest:
		f.Class, f.Code = contract.ClassConfig, contract.CodeInvalidConfig
	case resp.StatusCode == http.StatusGone:
		f.Class, f.Code = contract.ClassRuntime, contract.CodeUnknown
	case resp.StatusCode < http.StatusInternalServerError:
		f.Class, f.Code = contract.ClassHuman, contract.CodeInvalidConfig
	default:
		f.Class, f.Code = contract.ClassRuntime, contract.CodeUnknown
		f.Message = fmt.Sprintf("%s (request %s to %s)", f.Message, p.Instance, c.Address())
	}
	if f.Code == store.CodeNotFound {
		return fault.Wrap(store.ErrNotFound, f.Class, f.Code, "%s", f.Message)
	}
	return fault.Restore(f)
}

// unavailable returns the error for an unavailable component of the server.
func (c *Client) unavailable(resp *http.Response, p apitypes.Problem) error {
	what := cmp.Or(textOf(p), resp.Status)
	return fault.New(contract.ClassInfra, contract.CodeUnavailable, "the server at %s cannot process this request now: %s", c.Address(), what)
}

// textOf returns a problem's text for users.
func textOf(p apitypes.Problem) string {
	text := cmp.Or(p.Detail, p.Title)
	var wrong []string
	for _, e := range p.Errors {
		wrong = append(wrong, e.At+": "+e.Message)
	}
	if len(wrong) > 0 {
		text += ": " + strings.Join(wrong, "; ")
	}
	return text
}
