package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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

// DefaultRequestTimeout is the longest time of a request where nothing else is said.
const DefaultRequestTimeout = 5 * time.Minute

// errLate is why the context of a request ended that took too long.
var errLate = errors.New("the request took too long")

type timeKey struct{}

// timed bounds what a request may take: until it has an answer, and a little
// more until the client has taken that.
func (s *server) timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		timer := time.AfterFunc(s.RequestTimeout, func() { cancel(errLate) })
		defer timer.Stop()
		s.deadline(r, http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.RequestTimeout+slowest)))
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, timeKey{}, timer)))
	})
}

// deadline notes that a connection takes no deadline. Those of tests do not.
func (s *server) deadline(r *http.Request, err error) {
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.Log.InfoContext(r.Context(), "A connection takes no deadline", "request", requestID(r.Context()), "error", err)
	}
}

// endless lifts the bound on the time of a request that lasts for as long as its
// client takes what it is sent, piece by piece. The returned writer gives each
// piece its time.
func (s *server) endless(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	if timer, ok := r.Context().Value(timeKey{}).(*time.Timer); ok {
		timer.Stop()
	}
	s.deadline(r, http.NewResponseController(w).SetReadDeadline(time.Time{}))
	return &patient{w}
}

// patient gives each piece that is written a time of its own.
type patient struct{ http.ResponseWriter }

// piece is what a client has to take in the time of slowest.
const piece = 16 << 10

func (p *patient) Write(b []byte) (n int, err error) {
	out := http.NewResponseController(p.ResponseWriter)
	for err == nil && n < len(b) {
		if err = out.SetWriteDeadline(time.Now().Add(slowest)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return n, err
		}
		var written int
		written, err = p.ResponseWriter.Write(b[n:min(len(b), n+piece)])
		n += written
	}
	return n, err
}

// Unwrap lets http.ResponseController flush and set deadlines.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// read takes a request in whole before anything is done: its body within its
// time and size, and nothing in it that is no text.
func (s *server) read(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !param.IsText(r.URL.Path) {
			s.answer(w, r, apitypes.Problem{Title: "There is no such thing", Status: http.StatusNotFound, Detail: "The path is no text in UTF-8.", Class: contract.ClassHuman, Code: store.CodeNotFound})
			return
		}
		for name, values := range r.URL.Query() {
			if !param.IsText(name) || !param.IsText(strings.Join(values, "")) {
				s.fail(w, r, apitypes.BadRequest("the query is no text: it holds bytes that are not UTF-8, or NUL"))
				return
			}
		}
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		body, err := s.body(w, r)
		if err != nil {
			s.unread(w, r, err)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		next.ServeHTTP(w, r)
	})
}

// body reads a body. What comes after it, while the request is carried out, has
// no deadline: it would end the request.
func (s *server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	conn := http.NewResponseController(w)
	s.deadline(r, conn.SetReadDeadline(time.Now().Add(bodyTime)))
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(body) {
		return nil, apitypes.BadRequest("the body is no text: it holds bytes that are not UTF-8")
	}
	s.deadline(r, conn.SetReadDeadline(time.Time{}))
	return body, nil
}

// unread says why a body was not read.
func (s *server) unread(w http.ResponseWriter, r *http.Request, err error) {
	var large *http.MaxBytesError
	var bad apitypes.Problem
	switch {
	case errors.As(err, &large):
		s.answer(w, r, tooLarge(fmt.Sprintf("Its body has more than the %d bytes allowed (server.max_body).", large.Limit)))
	case errors.As(err, &bad):
		s.fail(w, r, err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		s.answer(w, r, apitypes.Problem{Title: "The request came too slowly", Status: http.StatusRequestTimeout, Detail: fmt.Sprintf("Its body was not there after %s.", bodyTime)})
	default:
		w.Header().Set("Connection", "close")
		s.answer(w, r, apitypes.Problem{Title: "The request cannot be understood", Status: http.StatusBadRequest, Detail: "Its body ended early.", Class: contract.ClassHuman, Code: contract.CodeInvalidConfig})
	}
}

func tooLarge(detail string) apitypes.Problem {
	return apitypes.Problem{Title: "The request is too large", Status: http.StatusRequestEntityTooLarge, Detail: detail}
}
