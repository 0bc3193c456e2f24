package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/param"
)

const (
	// KeyHeader carries the key under which a request is done once.
	KeyHeader = apitypes.KeyHeader
	// ReplayedHeader says that an answer was given before.
	ReplayedHeader = apitypes.ReplayedHeader

	maxKey = 200 // bytes
	// maxKeyedPath is the longest path that a key is kept with, in bytes: more would
	// fit into no index, and no path of ours is half as long.
	maxKeyedPath = 1000
	// oncePatience is how long a request waits for another one under the same key.
	oncePatience = 10 * time.Second
	// onceRetry is after how many seconds it may ask again then.
	onceRetry = "2"
	// onceStore bounds the time for keeping an answer: the client may be gone.
	onceStore = 10 * time.Second
)

// once does what is asked for with POST or DELETE under an idempotency key one time,
// and gives the same answer ever after, for store.KeepRequests. Only what did
// something is kept: a refusal changed nothing, so its key may be used again.
// Who dies in between leaves a request without an answer. It is done again then,
// by commands whose ids come from the key, so that they do nothing twice.
func (s *server) once(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get(KeyHeader)
		if key == "" || !changes(r.Method) || !strings.HasPrefix(r.URL.Path, "/api/") {
			next.ServeHTTP(w, r)
			return
		}
		if !param.IsText(key) || len(key) > maxKey {
			s.fail(w, r, apitypes.BadRequest(fmt.Sprintf("header.%s: this is no text of at most %d bytes", KeyHeader, maxKey)))
			return
		}
		if len(r.URL.Path) > maxKeyedPath {
			s.fail(w, r, store.ErrNotFound)
			return
		}
		release, owned, err := s.Store.OwnRequest(r.Context(), r.URL.Path, key, oncePatience)
		defer release()
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if !owned {
			w.Header().Set("Retry-After", onceRetry)
			s.answer(w, r, apitypes.Problem{Title: "The same request is being carried out", Status: http.StatusConflict, Detail: "Ask again shortly; you get its answer then.", Code: store.CodeConflict})
			return
		}
		s.keyed(w, r, next, key)
	})
}

// changes reports whether what is asked for with a method is done once under a key.
func changes(method string) bool { return method == http.MethodPost || method == http.MethodDelete }

// requestDigest tells the requests to one path apart.
func requestDigest(r *http.Request, body []byte) string {
	text := fmt.Appendf(nil, "%s\n%s", r.URL.RawQuery, body)
	if r.Method != http.MethodPost { // POST is not named: keys that were used before this are still known
		text = fmt.Appendf(nil, "%s %s", r.Method, text)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// keyed does a request under a key that nobody else has now.
func (s *server) keyed(w http.ResponseWriter, r *http.Request, next http.Handler, key string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.unread(w, r, err)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	known, err := s.Store.BeginRequest(r.Context(), r.URL.Path, key, requestDigest(r, body))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if known != nil {
		s.answerAgain(w, *known)
		return
	}
	held := &heldAnswer{ResponseWriter: w, status: http.StatusOK}
	next.ServeHTTP(held, r)
	s.keep(r, key, held)
	w.WriteHeader(held.status)
	if _, err := w.Write(held.body.Bytes()); err != nil {
		s.Log.InfoContext(r.Context(), "A client went away", "error", err)
	}
}

// answerAgain gives an answer again. One without content, as to DELETE, has no type either.
func (s *server) answerAgain(w http.ResponseWriter, a store.Answer) {
	w.Header().Set(ReplayedHeader, "true")
	if a.Status == http.StatusNoContent {
		w.WriteHeader(a.Status)
		return
	}
	s.write(w, a.Status, a.ContentType, a.Body)
}

// keep keeps an answer before it is sent, or frees the key where nothing was done.
func (s *server) keep(r *http.Request, key string, a *heldAnswer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), onceStore)
	defer cancel()
	var err error
	switch {
	case a.status < http.StatusMultipleChoices:
		err = s.Store.AnswerRequest(ctx, r.URL.Path, key, store.Answer{Status: a.status, ContentType: a.Header().Get("Content-Type"), Body: a.body.Bytes()})
	case a.status < http.StatusInternalServerError:
		err = s.Store.ForgetRequest(ctx, r.URL.Path, key)
	default: // nobody knows what was done: the key stays with this request
	}
	if err != nil {
		s.Log.ErrorContext(ctx, "The answer to a request under a key could not be kept", "request", requestID(ctx), "error", err)
	}
}

// heldAnswer holds an answer back until it is kept.
type heldAnswer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (h *heldAnswer) WriteHeader(status int)      { h.status = status }
func (h *heldAnswer) Write(b []byte) (int, error) { return h.body.Write(b) }

// Unwrap lets http.ResponseController set deadlines.
func (h *heldAnswer) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// Keyed is a request that is done once under a key.
type Keyed struct {
	Key string `header:"Idempotency-Key" maxLength:"200" doc:"the same key and body are one request, however often it is sent, and get one answer for 24 h"`
}

// id returns what names the thing that a request makes, the same for the same
// key; empty without one.
func (k Keyed) id(what string, of ...int64) string {
	if k.Key == "" {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %v %s", what, of, k.Key))
	return what + "/" + hex.EncodeToString(sum[:16])
}
