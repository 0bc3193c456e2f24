// Package param reads and checks the parameters of requests: path parameters, queries, and cursors
// of lists. It returns an apitypes.Problem or store.ErrNotFound for invalid ones.
package param

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// ID returns the id in a path.
func ID(r *http.Request) (int64, error) { return Number(r, "id") }

// Number reads a path parameter that is a number, 1 or greater.
func Number(r *http.Request, name string) (int64, error) {
	id, err := strconv.ParseInt(r.PathValue(name), 10, 64)
	if err != nil || id <= 0 {
		return 0, store.ErrNotFound // no such number was ever assigned
	}
	return id, nil
}

// Query returns a request's query, or an error if its values are not text.
func Query(r *http.Request) (url.Values, error) {
	q := r.URL.Query()
	for name, values := range q {
		if err := CheckText(name, strings.Join(values, "")); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// OneOf returns an error if a parameter is set to a value that is not allowed.
func OneOf[T ~string](name string, value T, all []T) error {
	if value == "" || slices.Contains(all, value) {
		return nil
	}
	return apitypes.BadRequest(fmt.Sprintf("%s %q is invalid; must be one of %v", name, value, all))
}

// IsText reports whether a string is text: UTF-8 without NUL.
func IsText(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// CheckText returns an error if one of the parameters, given as name and value, is not text.
func CheckText(pairs ...string) error {
	for i := 1; i < len(pairs); i += 2 {
		if !IsText(pairs[i]) {
			return apitypes.BadRequest(pairs[i-1] + " must be valid UTF-8 without NUL bytes")
		}
	}
	return nil
}

// CheckFilter returns an error for a filter that no run can match.
func CheckFilter(f store.Filter) error {
	if err := CheckText("project", f.Project, "text", f.Text); err != nil {
		return err
	}
	for _, label := range f.Labels {
		if bad := contract.LabelProblem(label); bad != "" {
			return apitypes.BadRequest(fmt.Sprintf("label %.110q %s", label, bad))
		}
	}
	for _, status := range f.Status {
		if err := OneOf("status", status, contract.Statuses()); err != nil {
			return err
		}
	}
	if err := OneOf("phase", f.Phase, contract.Phases()); err != nil {
		return err
	}
	return OneOf("error", f.ErrorClass, contract.Classes())
}

// Before returns the parameter before, the ID at which an earlier page of a list ended; 0 without it.
func Before(r *http.Request) (int64, error) {
	text := r.URL.Query().Get("before")
	if text == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return 0, apitypes.BadRequest(fmt.Sprintf("before %.40q is not an ID", text))
	}
	return id, nil
}
