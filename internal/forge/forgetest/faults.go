package forgetest

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
)

// Fault is what happens to a request in place of its response.
type Fault struct {
	Method string // "": any
	Path   string // part of the path; "": any
	Times  int    // how often; 0: once
	Skip   int    // requests that have no fault before it

	Before func()            // is called, and then the request is as any other
	Status int               // the response's status; the request has no effect
	Header map[string]string // of the response
	Body   string
	// AfterEffect lets the request have its effect, and then breaks the connection in place of the
	// response.
	AfterEffect bool
	Cut         bool // the response breaks off in its middle
	Hang        bool // no response comes until the client gives up
}

// Faults break requests on purpose. Each fault is used for the requests that come first.
type Faults struct {
	mu      sync.Mutex
	pending []*Fault
	met     int
}

// Add adds faults.
func (f *Faults) Add(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range faults {
		one.Times = max(one.Times, 1)
		f.pending = append(f.pending, &one)
	}
}

// Met returns how many requests had a fault.
func (f *Faults) Met() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.met
}

// Clear removes the faults that were not used.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = nil
}

// take returns the fault of a request, nil if it has none.
func (f *Faults) take(r *http.Request) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.pending {
		if one.Times > 0 && (one.Method == "" || one.Method == r.Method) && strings.Contains(r.URL.Path, one.Path) {
			if one.Skip > 0 {
				one.Skip--
				continue
			}
			one.Times--
			f.met++
			return one
		}
	}
	return nil
}

// Wrap returns a handler with faults in front of another, such as one that passes requests on to a
// real forge.
func (f *Faults) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault := f.take(r)
		switch {
		case fault == nil:
			next.ServeHTTP(w, r)
		case fault.Before != nil:
			fault.Before()
			next.ServeHTTP(w, r)
		case fault.Hang:
			_, _ = io.Copy(io.Discard, r.Body) // the server notices that the client is gone only after the body
			<-r.Context().Done()
		case fault.Status != 0:
			for name, value := range fault.Header {
				w.Header().Set(name, value)
			}
			w.WriteHeader(fault.Status)
			_, _ = w.Write([]byte(fault.Body))
		default:
			broken(w, r, next, fault.Cut)
		}
	})
}

// broken lets a request have its effect and breaks the connection, after half of the response or
// before it.
func broken(w http.ResponseWriter, r *http.Request, next http.Handler, half bool) {
	r.Header.Del("If-None-Match") // a response without a body cannot break off
	record := httptest.NewRecorder()
	next.ServeHTTP(record, r)
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	if half {
		writeHalf(buffer, record)
	}
}

func writeHalf(buffer *bufio.ReadWriter, record *httptest.ResponseRecorder) {
	body := record.Body.Bytes()
	head := "HTTP/1.1 " + strconv.Itoa(record.Code) + " " + http.StatusText(record.Code) + "\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	_, _ = buffer.WriteString(head)
	_, _ = buffer.Write(body[:len(body)/2])
	_ = buffer.Flush()
}
