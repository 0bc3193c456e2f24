// Package param reads and checks the parameters of requests: parts of paths, queries,
// and cursors of lists. It refuses with an apitypes.Problem or store.ErrNotFound.
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

// Number reads a part of a path that is a number from 1.
func Number(r *http.Request, name string) (int64, error) {
	id, err := strconv.ParseInt(r.PathValue(name), 10, 64)
	if err != nil || id <= 0 {
		return 0, store.ErrNotFound // no such number was ever assigned
	}
	return id, nil
}

// Query returns a request's query, whose values must be text.
func Query(r *http.Request) (url.Values, error) {
	q := r.URL.Query()
	for name, values := range q {
		if err := CheckText(name, strings.Join(values, "")); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// OneOf refuses a parameter that is set to none of the allowed values.
func OneOf[T ~string](name string, value T, all []T) error {
	if value == "" || slices.Contains(all, value) {
		return nil
	}
	return apitypes.BadRequest(fmt.Sprintf("%s %q is invalid; must be one of %v", name, value, all))
}

// IsText reports whether a string is text: UTF-8 without NUL.
func IsText(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// CheckText refuses parameters, given as name and value, that are not text.
func CheckText(pairs ...string) error {
	for i := 1; i < len(pairs); i += 2 {
		if !IsText(pairs[i]) {
			return apitypes.BadRequest(pairs[i-1] + " must be valid UTF-8 without NUL bytes")
		}
	}
	return nil
}

// CheckFilter refuses a filter that no run can match.
func CheckFilter(f store.Filter) error {
	if err := CheckText("project", f.Project, "text", f.Text); err != nil {
		return err
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
