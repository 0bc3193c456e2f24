package middleware

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/param"
)

// bodyTimeout is how long a client may take to send a body.
const bodyTimeout = 10 * time.Second

// LimitBody rejects requests whose body exceeds the limit in bytes, which may depend on the request.
func LimitBody(next http.Handler, limitOf func(*http.Request) int64, fail Fail) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit := limitOf(r)
		if r.ContentLength > limit {
			fail(w, r, tooLarge(fmt.Sprintf("The body is %d bytes long, more than the %d allowed (server.max_body).", r.ContentLength, limit)))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		next.ServeHTTP(w, r)
	})
}

// ReadBody reads the whole body, within the limits of time and size, before the request is
// processed. It rejects paths, queries and bodies that are not text, except for the bodies of requests
// that may contain files.
func ReadBody(next http.Handler, files func(*http.Request) bool, log *slog.Logger, fail Fail) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !param.IsText(r.URL.Path) {
			fail(w, r, apitypes.Problem{Title: "Not found", Status: http.StatusNotFound, Detail: "The path is not valid UTF-8.", Class: contract.ClassHuman, Code: store.CodeNotFound})
			return
		}
		for name, values := range r.URL.Query() {
			if !param.IsText(name) || !param.IsText(strings.Join(values, "")) {
				fail(w, r, apitypes.BadRequest("the query must be valid UTF-8 without NUL bytes"))
				return
			}
		}
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		// The deadline applies only to reading: afterwards it would end the request.
		conn := http.NewResponseController(w)
		logDeadline(log, r, conn.SetReadDeadline(time.Now().Add(bodyTimeout)))
		body, err := readBody(w, r, files(r))
		if err != nil {
			fail(w, r, err)
			return
		}
		logDeadline(log, r, conn.SetReadDeadline(time.Time{}))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		next.ServeHTTP(w, r)
	})
}

// readBody reads the body of a request, which must be text unless it may contain files, or returns a
// problem.
func readBody(w http.ResponseWriter, r *http.Request, files bool) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	switch {
	case err == nil && !files && !utf8.Valid(body):
		return nil, apitypes.BadRequest("the body must be valid UTF-8")
	case err == nil:
		return body, nil
	case errors.As(err, &large):
		return nil, tooLarge(fmt.Sprintf("The body exceeds the %d bytes allowed (server.max_body).", large.Limit))
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, apitypes.Problem{Title: "The request was sent too slowly", Status: http.StatusRequestTimeout, Detail: fmt.Sprintf("The body was not complete after %s.", bodyTimeout)}
	default:
		w.Header().Set("Connection", "close")
		return nil, apitypes.BadRequest("The body is incomplete.")
	}
}

func tooLarge(detail string) apitypes.Problem {
	return apitypes.Problem{Title: "The request is too large", Status: http.StatusRequestEntityTooLarge, Detail: detail}
}
