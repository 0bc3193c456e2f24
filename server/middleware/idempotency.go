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
	// maxKeyedPath is the maximum length in bytes of a path stored with a key. A longer one would
	// not fit into an index; our paths are less than half as long.
	maxKeyedPath = 1000
	// keyWait is how long a request waits for another one with the same key.
	keyWait = 10 * time.Second
	// keyRetryAfter is the number of seconds after which the client may then retry.
	keyRetryAfter = "2"
	// keepTimeout limits the time for storing a response, even if the client has disconnected.
	keepTimeout = 10 * time.Second
)

// idempotency carries out each keyed request once.
type idempotency struct {
	next  http.Handler
	Store *store.Store
	log   *slog.Logger
	fail  Fail
}

// Idempotency carries out a POST, PUT or DELETE with an idempotency key once, and repeats its response
// for store.KeepRequests. It stores only the responses of requests that changed something; the key
// of a rejected request may be used again. A request interrupted by a crash of the server has no
// response and is carried out again. The ids of its commands are derived from the key, so nothing
// is done twice.
func Idempotency(next http.Handler, requests *store.Store, log *slog.Logger, fail Fail) http.Handler {
	return &idempotency{next, requests, log, fail}
}

func (s *idempotency) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get(apitypes.KeyHeader)
	if key == "" || (r.Method != http.MethodPost && r.Method != http.MethodPut && r.Method != http.MethodDelete) || !strings.HasPrefix(r.URL.Path, "/api/") {
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
		s.fail(w, r, apitypes.Problem{Title: "The same request is already in progress", Status: http.StatusConflict, Detail: "Retry shortly to get the response.", Code: store.CodeConflict})
		return
	}
	s.serveOnce(w, r, key)
}

// requestDigest returns a digest that distinguishes requests to the same path.
func requestDigest(r *http.Request, body []byte) string {
	text := fmt.Appendf(nil, "%s\n%s", r.URL.RawQuery, body)
	if r.Method != http.MethodPost { // POST is not part of the digest, so that keys from before other methods were supported stay valid
		text = fmt.Appendf(nil, "%s %s", r.Method, text)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// serveOnce carries out a request whose key no other request is using, or repeats the response
// stored for the key.
func (s *idempotency) serveOnce(w http.ResponseWriter, r *http.Request, key string) {
	body, err := readBody(w, r, false)
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

// keep stores a response before it is sent, or frees the key if nothing was changed.
func (s *idempotency) keep(r *http.Request, key string, a *bufferedResponse) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), keepTimeout)
	defer cancel()
	var err error
	switch {
	case a.status < http.StatusMultipleChoices:
		err = s.Store.AnswerRequest(ctx, r.URL.Path, key, store.Answer{Status: a.status, ContentType: a.Header().Get("Content-Type"), Body: a.body.Bytes()})
	case a.status < http.StatusInternalServerError:
		err = s.Store.ForgetRequest(ctx, r.URL.Path, key)
	default: // the effect is unknown, so the key stays bound to this request
	}
	if err != nil {
		s.log.ErrorContext(ctx, "The response to a request with an idempotency key could not be stored", "request", RequestID(ctx), "error", err)
	}
}

// bufferedResponse buffers a response until it is stored.
type bufferedResponse struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (b *bufferedResponse) WriteHeader(status int)         { b.status = status }
func (b *bufferedResponse) Write(part []byte) (int, error) { return b.body.Write(part) }

// Unwrap lets http.ResponseController set deadlines.
func (b *bufferedResponse) Unwrap() http.ResponseWriter { return b.ResponseWriter }
