package gitea

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// maxDelivery limits what is read of a delivery.
const maxDelivery = 8 << 20

// Delivery is a webhook's request.
type Delivery struct {
	Header http.Header
	Body   []byte
}

// Receiver receives the deliveries of webhooks.
type Receiver struct {
	URL string

	mu   sync.Mutex
	all  []Delivery
	more chan struct{} // closed when another has arrived
}

// Receive starts a receiver. It stops at the end of the test.
func Receive(tb testing.TB) *Receiver {
	tb.Helper()
	r := &Receiver{more: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(r.serve))
	tb.Cleanup(server.Close)
	r.URL = server.URL + "/hook"
	return r
}

func (r *Receiver) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, maxDelivery))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, Delivery{Header: req.Header.Clone(), Body: body})
	close(r.more)
	r.more = make(chan struct{})
}

// Await returns the first delivery that matches, and waits for it at most this long. Events are
// delivered in the background, in no particular order.
func (r *Receiver) Await(tb testing.TB, what string, most time.Duration, match func(Delivery) bool) Delivery {
	tb.Helper()
	deadline := time.NewTimer(most)
	defer deadline.Stop()
	for seen := 0; ; {
		r.mu.Lock()
		all, more := r.all, r.more
		r.mu.Unlock()
		for ; seen < len(all); seen++ {
			if match(all[seen]) {
				return all[seen]
			}
		}
		select {
		case <-more:
		case <-deadline.C:
			tb.Fatalf("waited %s for %s; %d deliveries arrived, none of them matched", most, what, seen)
		}
	}
}
