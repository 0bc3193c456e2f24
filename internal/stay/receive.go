package stay

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/webhook"
	"github.com/rocketgpt/orchestrator/internal/store/forgeevents"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Limits of webhooks. Everyone can send one, so little of them is held in memory at the same time.
const (
	// MaxHook is the size of the largest accepted body.
	MaxHook = 5 << 20
	// maxSmallHooks is the number of webhooks of which the first smallHook bytes are read at the same time:
	// most have only some kilobytes. The rest of maxHooks is.
	maxSmallHooks = 256
	smallHook     = 64 << 10
	maxHooks      = 16
	// hookTime is how long a forge may take to send one.
	hookTime = 10 * time.Second
	// hookGrace is how long it may take at least: if others wait, one that takes longer is cut off.
	hookGrace = 250 * time.Millisecond
)

// Receive is the handler of the webhooks of forges, at a path with the value forge. A webhook only
// makes the pull request that it concerns due for a look: what happened is read from the forge. One
// that is not from the forge, and one for a forge that is not configured, is not found, so that
// strangers learn nothing. A webhook that was received before has no effect.
func (s *Service) Receive(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("forge")
	settings, known := s.Settings[name]
	secret := ""
	if known {
		secret, _ = settings.WebhookSecret(s.Getenv)
	}
	if secret == "" {
		refuse(w, http.StatusNotFound, "")
		return
	}
	body, status := s.readHook(w, r)
	if status != 0 {
		refuse(w, status, "")
		return
	}
	event, err := webhook.Parse(forge.Kind(settings.Kind), r.Header, body, secret)
	switch {
	case fault.Is(err, contract.CodeUnauthorized):
		refuse(w, http.StatusNotFound, "")
		return
	case err != nil: // the forge sent it
		refuse(w, http.StatusBadRequest, fault.Of(err).Message)
		return
	}
	s.pass(w, r, name, event)
}

// pass passes a webhook of a forge to what it concerns.
func (s *Service) pass(w http.ResponseWriter, r *http.Request, name string, event webhook.Event) {
	asked := false
	if s.Ask != nil {
		var err error
		if asked, err = s.Ask(r.Context(), name, event); err != nil {
			s.Log.WarnContext(r.Context(), "A webhook of a forge could not be passed to the triggers", "forge", name, "error", err)
			w.WriteHeader(http.StatusServiceUnavailable) // it is sent again, or polling finds what it said
			return
		}
	}
	d, concerns := deliveryOf(name, event)
	if !concerns {
		outcome := telemetry.HookIgnored
		if asked {
			outcome = telemetry.HookAccepted
		}
		telemetry.CountForgeWebhook(outcome)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	fresh, err := forgeevents.Receive(r.Context(), s.Store, d)
	switch {
	case err != nil:
		s.Log.WarnContext(r.Context(), "A webhook of a forge could not be stored", "forge", name, "error", err)
		w.WriteHeader(http.StatusServiceUnavailable) // it is sent again, or polling finds what it said
		return
	case fresh:
		telemetry.CountForgeWebhook(telemetry.HookAccepted)
	default:
		telemetry.CountForgeWebhook(telemetry.HookDuplicate)
	}
	w.WriteHeader(http.StatusAccepted)
}

// readHook reads the body of a webhook. Otherwise, it returns the status of the refusal. What exceeds a
// small body takes one of fewer slots: who announces a large body, but sends little, holds none of them.
func (s *Service) readHook(w http.ResponseWriter, r *http.Request) (body []byte, status int) {
	rest := http.MaxBytesReader(w, r.Body, MaxHook)
	body, status = readPart(w, r, s.small, io.LimitReader(rest, smallHook+1))
	if status != 0 || len(body) <= smallHook {
		return body, status
	}
	more, status := readPart(w, r, s.large, rest)
	return append(body, more...), status
}

// readPart reads a part of the body of a webhook with one of the slots.
func readPart(w http.ResponseWriter, r *http.Request, slots *readers, from io.Reader) (part []byte, status int) {
	connection := http.NewResponseController(w) // some have no deadline
	end, ok := slots.begin(r.Context(),
		func() { _ = connection.SetReadDeadline(time.Now()) }, func() { _ = connection.SetReadDeadline(time.Now().Add(hookTime)) })
	if !ok {
		return nil, http.StatusServiceUnavailable
	}
	defer end()
	part, err := io.ReadAll(from)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, http.StatusRequestEntityTooLarge
	case err != nil:
		return nil, http.StatusBadRequest
	}
	return part, 0
}

// refuse counts a webhook that is not accepted, and says why to a forge.
func refuse(w http.ResponseWriter, status int, why string) {
	telemetry.CountForgeWebhook(telemetry.HookRefused)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, why)
}

// deliveryOf returns a webhook for the inbox; false if it concerns no pull request that may be watched.
func deliveryOf(name string, e webhook.Event) (forgeevents.Delivery, bool) {
	d := forgeevents.Delivery{Forge: name, ID: e.Delivery, Repo: e.Repo, Key: "delivery:" + e.Delivery, Branch: e.Branch, Commit: e.Commit}
	if e.Subject.Number != 0 {
		if !e.Subject.PullRequest {
			return d, false
		}
		d.Number = e.Subject.Number
	}
	switch e.Kind {
	case webhook.Comment:
		d.Key = fmt.Sprintf("comment:%s:%d", e.Comment.ID, e.Comment.UpdatedAt.Unix())
	case webhook.Check:
		if e.Check.State == forge.CheckPending {
			return d, false
		}
		if e.Check.ID == "" {
			break // only the delivery says which check of the commit it is
		}
		d.Key = fmt.Sprintf("check:%s:%s:%s", e.Check.ID, e.Check.State, e.Commit)
	case webhook.Pushed, webhook.Updated, webhook.Closed, webhook.Merged, webhook.Reopened, webhook.Reviewed:
	default:
		return d, false
	}
	return d, d.Number != 0 || d.Branch != "" || d.Commit != ""
}
