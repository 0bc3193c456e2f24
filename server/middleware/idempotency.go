package middleware

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/param"
)

const (
	maxKey = 200 // bytes
	// maxKeyedPath is the longest path that is stored with a key, in bytes: more would
	// not fit into an index, and none of our paths is half as long.
	maxKeyedPath = 1000
	// keyWait is how long a request waits for another one under the same key.
	keyWait = 10 * time.Second
	// keyRetryAfter is after how many seconds the client may try again then.
	keyRetryAfter = "2"
	// keepTimeout limits the time for storing a response: the client may be gone.
	keepTimeout = 10 * time.Second
)

// idempotency carries out each keyed request once.
type idempotency struct {
	next  http.Handler
	Store *store.Store
	log   *slog.Logger
	fail  Fail
}

// Idempotency carries out a POST or DELETE under an idempotency key once, and gives the
// same response for store.KeepRequests. It stores the responses of requests that
// changed something: a refusal changed nothing, so its key may be used again. A server
// that dies in between leaves a request without a response. It is carried out again
// then, with commands whose ids are derived from the key, so that nothing is done
// twice.
func Idempotency(next http.Handler, requests *store.Store, log *slog.Logger, fail Fail) http.Handler {
	return &idempotency{next, requests, log, fail}
}

func (s *idempotency) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get(apitypes.KeyHeader)
	if key == "" || (r.Method != http.MethodPost && r.Method != http.MethodDelete) || !strings.HasPrefix(r.URL.Path, "/api/") {
		s.next.ServeHTTP(w, r)
		return
	}
	if !param.IsText(key) || len(key) > maxKey {
		s.fail(w, r, apitypes.BadRequest(fmt.Sprintf("header.%s: must be text of at most %d bytes", apitypes.KeyHeader, maxKey)))
		return
	}
	if len(r.URL.Path) > maxKeyedPath {
		s.fail(w, r, store.ErrNotFound)
		return
	}
	release, owned, err := s.Store.LeaseRequest(r.Context(), r.URL.Path, key, keyWait)
	defer release()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if !owned {
		w.Header().Set("Retry-After", keyRetryAfter)
		s.fail(w, r, apitypes.Problem{Title: "The same request is already in progress", Status: http.StatusConflict, Detail: "Retry shortly to get its response.", Code: store.CodeConflict})
		return
	}
	s.serveOnce(w, r, key)
}

// requestDigest distinguishes the requests to one path.
func requestDigest(r *http.Request, body []byte) string {
	text := fmt.Appendf(nil, "%s\n%s", r.URL.RawQuery, body)
	if r.Method != http.MethodPost { // POST is not part of the digest: keys that were used before this are still recognized
		text = fmt.Appendf(nil, "%s %s", r.Method, text)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// serveOnce carries out a request under a key that no other request is using, or
// repeats the response that the key got before.
func (s *idempotency) serveOnce(w http.ResponseWriter, r *http.Request, key string) {
	body, err := readBody(w, r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	known, err := s.Store.BeginRequest(r.Context(), r.URL.Path, key, requestDigest(r, body))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if known != nil {
		w.Header().Set(apitypes.ReplayedHeader, "true")
		if known.Status != http.StatusNoContent { // as for DELETE: without content, so without a type
			w.Header().Set("Content-Type", known.ContentType)
			w.Header().Set("Content-Length", strconv.Itoa(len(known.Body)))
		}
		s.send(w, r, known.Status, known.Body)
		return
	}
	out := &bufferedResponse{ResponseWriter: w, status: http.StatusOK}
	s.next.ServeHTTP(out, r)
	s.keep(r, key, out)
	s.send(w, r, out.status, out.body.Bytes())
}

func (s *idempotency) send(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		s.log.InfoContext(r.Context(), "A client disconnected", "error", err)
	}
}

// keep stores a response before it is sent, or frees the key if nothing was done.
func (s *idempotency) keep(r *http.Request, key string, a *bufferedResponse) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), keepTimeout)
	defer cancel()
	var err error
	switch {
	case a.status < http.StatusMultipleChoices:
		err = s.Store.AnswerRequest(ctx, r.URL.Path, key, store.Answer{Status: a.status, ContentType: a.Header().Get("Content-Type"), Body: a.body.Bytes()})
	case a.status < http.StatusInternalServerError:
		err = s.Store.ForgetRequest(ctx, r.URL.Path, key)
	default: // it is unknown what was done: the key stays with this request
	}
	if err != nil {
		s.log.ErrorContext(ctx, "The response to a request with an idempotency key could not be stored", "request", RequestID(ctx), "error", err)
	}
}

// bufferedResponse holds a response back until it is stored.
type bufferedResponse struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (b *bufferedResponse) WriteHeader(status int)         { b.status = status }
func (b *bufferedResponse) Write(part []byte) (int, error) { return b.body.Write(part) }

// Unwrap lets http.ResponseController set deadlines.
func (b *bufferedResponse) Unwrap() http.ResponseWriter { return b.ResponseWriter }
