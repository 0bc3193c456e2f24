package trigger

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Limits of CloudEvents. Everyone can send one, so little of them is held in memory at the same time.
const (
	// MaxEvent is the size of the largest accepted body.
	MaxEvent = 1 << 20
	// maxAttribute is the number of bytes that an attribute of an event may have.
	maxAttribute = 1000
	// maxEventText is the number of bytes of an event's data that a run may get.
	maxEventText = 64 << 10
	// maxEvents is the number of events that are read at the same time; others wait.
	maxEvents = 16
	// eventTime is how long a sender may take to send one.
	eventTime = 10 * time.Second
)

// cloudEvent is a CloudEvent (1.0) with the attributes that triggers use.
type cloudEvent struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Subject     string          `json:"subject"`
	Time        string          `json:"time"`
	Data        json.RawMessage `json:"data"`
	Base64      string          `json:"data_base64"`

	text string
	at   time.Time // zero: unknown
}

// Receive is the handler of CloudEvents, at a path with the value trigger. One without the token of a
// trigger on events is not found, so that strangers learn nothing. An event that was received before
// has no effect.
func (s *Service) Receive(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("trigger")
	t, known := s.Triggers[name]
	if !known || t.On != config.OnEvent || !s.authorized(t, r) {
		answer(w, http.StatusNotFound, telemetry.HookRefused, "")
		return
	}
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	case <-r.Context().Done():
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(eventTime)) // some connections have none
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxEvent))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		answer(w, http.StatusRequestEntityTooLarge, telemetry.HookRefused, fmt.Sprintf("the event is larger than %d bytes", MaxEvent))
		return
	case err != nil:
		answer(w, http.StatusBadRequest, telemetry.HookRefused, "the event did not arrive completely")
		return
	}
	e, status, err := parseEvent(r.Header, body)
	if err != nil {
		answer(w, status, telemetry.HookRefused, err.Error())
		return
	}
	if !matches(t.Types, e.Type) {
		answer(w, http.StatusAccepted, telemetry.HookIgnored, "")
		return
	}
	fresh, err := triggers.Add(r.Context(), s.Store, e.delivery(name, time.Now()))
	switch {
	case err != nil:
		s.Log.WarnContext(r.Context(), "A CloudEvent could not be stored", "trigger", name, "error", err)
		answer(w, http.StatusServiceUnavailable, telemetry.HookRefused, "the event could not be stored; send it again")
	case fresh:
		s.Wake()
		answer(w, http.StatusAccepted, telemetry.HookAccepted, "")
	default:
		answer(w, http.StatusAccepted, telemetry.HookDuplicate, "")
	}
}

// authorized reports whether a request has the token of a trigger, in a time that does not depend on how
// much of the token is right.
func (s *Service) authorized(t config.Trigger, r *http.Request) bool {
	token, err := t.Token(s.Getenv)
	if err != nil {
		s.Log.WarnContext(r.Context(), "A CloudEvent was refused, because the token of its trigger cannot be read", "trigger", r.PathValue("trigger"), "error", err)
		return false
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(strings.TrimSpace(given)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// answer counts the outcome of a request, and says it to the sender.
func answer(w http.ResponseWriter, status int, outcome, why string) {
	telemetry.CountTriggerEvent(outcome)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, why)
}

// parseEvent reads an event in structured or binary mode. With an error, it returns the status of the
// response.
func parseEvent(h http.Header, body []byte) (e cloudEvent, status int, err error) {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	switch {
	case kind == "application/cloudevents+json":
		if err := json.Unmarshal(body, &e); err != nil {
			return e, http.StatusBadRequest, fmt.Errorf("the body is not a CloudEvent in JSON: %w", err)
		}
		e.text, err = e.structuredText()
	case strings.HasPrefix(kind, "application/cloudevents"):
		return e, http.StatusUnsupportedMediaType, fmt.Errorf("%s is not supported; send each event by itself, as application/cloudevents+json or in binary mode", kind)
	default:
		e.text = plainText(body)
		err = e.fromHeaders(h)
	}
	if err == nil {
		err = e.check()
	}
	return e, http.StatusBadRequest, err
}

// fromHeaders reads the attributes of an event in binary mode.
func (e *cloudEvent) fromHeaders(h http.Header) error {
	for name, to := range map[string]*string{
		"Ce-Specversion": &e.SpecVersion, "Ce-Id": &e.ID, "Ce-Source": &e.Source, "Ce-Type": &e.Type, "Ce-Subject": &e.Subject, "Ce-Time": &e.Time,
	} {
		value, err := url.PathUnescape(h.Get(name))
		if err != nil {
			return fmt.Errorf("the header %s is not percent-encoded correctly", name)
		}
		*to = value
	}
	return nil
}

// structuredText returns the data of an event in structured mode: a text as such, anything else as JSON.
func (e *cloudEvent) structuredText() (string, error) {
	if e.Base64 != "" {
		raw, err := base64.StdEncoding.DecodeString(e.Base64)
		if err != nil {
			return "", errors.New("data_base64 is not base64")
		}
		return plainText(raw), nil
	}
	var text string
	if json.Unmarshal(e.Data, &text) == nil {
		return text, nil
	}
	return plainText(e.Data), nil
}

// plainText returns data as text, as it came: indented JSON may be thousands of times as long.
func plainText(data []byte) string {
	if !utf8.Valid(data) {
		return fmt.Sprintf("(%d bytes of other data than text)", len(data))
	}
	return string(data)
}

// check reports what an event lacks.
func (e *cloudEvent) check() error {
	if e.SpecVersion != "1.0" {
		return fmt.Errorf("expected a CloudEvent with specversion 1.0, got %.20q", e.SpecVersion)
	}
	for name, value := range map[string]string{"id": e.ID, "source": e.Source, "type": e.Type, "subject": e.Subject} {
		switch {
		case value == "" && name != "subject":
			return fmt.Errorf("the CloudEvent has no %s", name)
		case len(value) > maxAttribute || !utf8.ValidString(value):
			return fmt.Errorf("the attribute %s of the CloudEvent must be valid UTF-8 of at most %d bytes", name, maxAttribute)
		}
	}
	if e.Time == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339, e.Time)
	e.at = at
	if err != nil {
		return errors.New("the attribute time of the CloudEvent is not a time as in RFC 3339")
	}
	return nil
}

// delivery returns an event for the queue of a trigger. Events with the same source and id are one.
func (e *cloudEvent) delivery(trigger string, now time.Time) triggers.Delivery {
	sum := sha256.Sum256([]byte(e.Source + "\x00" + e.ID))
	title := fmt.Sprintf("The CloudEvent %s from %s", e.Type, e.Source)
	if e.Subject != "" {
		title += " about " + e.Subject
	}
	at := now
	if !e.at.IsZero() && e.at.Before(now) {
		at = e.at
	}
	return triggers.Delivery{
		Trigger: trigger, Key: "event:" + hex.EncodeToString(sum[:16]), OccurredAt: at,
		Payload: triggers.Payload{Title: telemetry.Redact(title), Text: fault.Clip(telemetry.Redact(e.text), maxEventText), Author: telemetry.Redact(e.Source)},
	}
}

// matches reports whether a text matches one of some patterns, in which * stands for any text. Without
// patterns, every text does.
func matches(patterns []string, text string) bool {
	for _, p := range patterns {
		if like(p, text) {
			return true
		}
	}
	return len(patterns) == 0
}

func like(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	for _, p := range parts[1 : len(parts)-1] {
		if !ok {
			return false
		}
		_, rest, ok = strings.Cut(rest, p)
	}
	return ok && strings.HasSuffix(rest, parts[len(parts)-1])
}
