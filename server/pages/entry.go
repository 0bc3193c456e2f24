package pages

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/respond"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// keyField is the field of a form for the key of its request.
const keyField = "key"

// maxName is the number of characters that the name of a person can have, as in the API.
const maxName = 200

// againTimeout limits the time for showing a form again whose request was rejected.
const againTimeout = 5 * time.Second

// newEntry returns an empty form. Sending it several times creates only one thing.
func newEntry() ui.Entry { return ui.Entry{Key: uuid.NewString(), Values: url.Values{}} }

// entryOf reads a form. The error is about values that cannot be used at all; what was entered is
// returned even then.
func entryOf(r *http.Request, names []string) (ui.Entry, error) {
	if err := r.ParseForm(); err != nil {
		return ui.Entry{}, apitypes.BadRequest("the form cannot be read: " + err.Error())
	}
	e := ui.Entry{Key: r.PostFormValue(keyField), Values: url.Values{}}
	var problem error
	for _, name := range names {
		value := strings.ReplaceAll(r.PostFormValue(name), "\r\n", "\n")
		if problem == nil && !param.IsText(value) {
			problem = control.WrongInput(name, "this must be valid UTF-8 without NUL bytes")
		}
		e.Values.Set(name, strings.ToValidUTF8(strings.ReplaceAll(value, "\x00", ""), "\uFFFD"))
	}
	if problem == nil && uuid.Validate(e.Key) != nil {
		problem = fault.New(contract.ClassHuman, contract.CodeInvalidConfig, "the form has no valid key, so it could create the same thing twice; send it again")
	}
	return e, problem
}

// senderOf returns the name that a person entered into a form, or that of the dashboard.
func senderOf(entered string) (string, error) {
	name := strings.TrimSpace(entered)
	if utf8.RuneCountInString(name) > maxName {
		return "", control.WrongInput(control.FieldBy, "the name has more than %d characters; shorten it", maxName)
	}
	return cmp.Or(name, contract.ByDashboard), nil
}

// rejected adds to a form why its request was rejected, and returns the status of the response. A form
// whose key cannot be used again gets another one.
func (s *Server) rejected(ctx context.Context, e *ui.Entry, err error) int {
	p := s.Problem(ctx, err)
	e.Title, e.Problem = p.Title, p.Detail
	if e.Field, _ = control.FieldOf(err); e.Field != "" {
		_, e.Problem = control.FieldOf(err)
	}
	if fault.Is(err, store.CodeConflict) {
		e.Title, e.Problem = "This form was sent before", "It had other values then, and what it describes was created. Send it again to create another one with the values below."
	}
	if fault.Is(err, store.CodeConflict) || uuid.Validate(e.Key) != nil {
		e.Key = uuid.NewString()
	}
	return p.Status
}

// again returns the request and the frame of a page that shows a form again. Both are independent of
// the end of the request and of the database, which may be why it failed: nothing that was entered may
// be lost.
func (s *Server) again(r *http.Request) (*http.Request, ui.Shell, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), againTimeout)
	r = r.WithContext(ctx)
	shell, err := s.shell(r)
	if err != nil {
		s.Log.WarnContext(ctx, "A form is shown without the numbers of waiting runs and pipelines", "error", err)
		shell = respond.Shell(r)
	}
	return r, shell, cancel
}

// Limits of the notes about what a form created, which its page shows once.
const (
	notesCookie = "notes"
	maxNotes    = 3000 // bytes; browsers keep about 4,000 with the rest of the cookie
	notesFor    = time.Minute
)

// keepNotes gives the browser notes about what was created, for the page that it is redirected to.
func keepNotes(w http.ResponseWriter, page string, notes []string) error {
	if len(notes) == 0 {
		return nil
	}
	raw, err := json.Marshal(notes)
	if err != nil {
		return fmt.Errorf("encode the notes for %s: %w", page, err)
	}
	value := base64.RawURLEncoding.EncodeToString(raw)
	if len(value) > maxNotes { // the first ones matter most
		return keepNotes(w, page, notes[:len(notes)-1])
	}
	http.SetCookie(w, &http.Cookie{Name: notesCookie, Value: value, Path: page, MaxAge: int(notesFor / time.Second), HttpOnly: true, SameSite: http.SameSiteStrictMode})
	return nil
}

// keptNotes returns the notes that keepNotes gave the browser.
func keptNotes(r *http.Request) (notes []string) {
	c, err := r.Cookie(notesCookie)
	if err != nil || len(c.Value) > maxNotes {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || json.Unmarshal(raw, &notes) != nil {
		return nil // not ours
	}
	return slices.DeleteFunc(notes, func(n string) bool { return !param.IsText(n) })
}
