package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/webhook"
	"github.com/rocketgpt/orchestrator/server/param"
)

// OfWebhook is a request about one webhook.
type OfWebhook struct {
	ID int64 `path:"id" minimum:"1" doc:"ID of the webhook"`
}

type webhooks struct {
	Webhooks []store.Webhook `json:"webhooks"`
}

// madeWebhook is a new webhook with its secret, which no other response contains.
type madeWebhook struct {
	store.Webhook
	Secret string `json:"secret" doc:"signing secret for deliveries; shown only in this response"`
}

// deliveryPlace is a position in the list of deliveries.
type deliveryPlace struct {
	ID int64 `json:"delivery"`
}

// Valid reports whether it can be the position of a delivery.
func (p deliveryPlace) Valid() bool { return p.ID > 0 }

type deliveryList struct {
	Deliveries []store.Delivery `json:"deliveries"`
	Next       string           `json:"next,omitempty" doc:"cursor of the next page; absent on the last page"`
}

func (s *Server) webhookOperations(api huma.API) {
	op := func(method, path, id, summary string, more ...int) huma.Operation {
		return operation(method, "/api/webhooks"+path, id, "webhooks", summary, more...)
	}
	handle(s, api, op(http.MethodGet, "", "list-webhooks", "List webhooks and their status"), func(ctx context.Context, _ *struct{}) (*body[webhooks], error) {
		list, err := s.Store.Webhooks(ctx)
		return answered(webhooks{store.NotNil(list)}, err)
	})
	create := op(http.MethodPost, "", "create-webhook", "Register a URL for future events", http.StatusConflict, http.StatusUnprocessableEntity)
	create.DefaultStatus = http.StatusCreated
	handle(s, api, create, s.createWebhook)
	handle(s, api, op(http.MethodGet, "/{id}", "get-webhook", "Get a webhook and its status"), func(ctx context.Context, in *OfWebhook) (*body[store.Webhook], error) {
		return answered(s.Store.Webhook(ctx, in.ID))
	})
	handle(s, api, op(http.MethodPatch, "/{id}", "change-webhook", "Change the given fields of a webhook, or re-enable a disabled one", http.StatusConflict, http.StatusUnprocessableEntity), s.changeWebhook)
	handle(s, api, op(http.MethodDelete, "/{id}", "delete-webhook", "Remove a webhook and its delivery log"), func(ctx context.Context, in *struct {
		OfWebhook
		Keyed
		RemovedBy
	}) (*struct{}, error) {
		return nil, s.Store.DeleteWebhook(ctx, in.ID, cmp.Or(in.By, contract.ByAPI))
	})
	handle(s, api, op(http.MethodPost, "/{id}/test", "test-webhook", "Send a test event once and return the result", http.StatusConflict), func(ctx context.Context, in *struct {
		OfWebhook
		Keyed
	}) (*body[store.Delivery], error) {
		return answered(s.Hooks.Test(ctx, in.ID, in.id("test", in.ID)))
	})
	handle(s, api, op(http.MethodGet, "/{id}/deliveries", "list-deliveries", "List deliveries with their attempts, newest first"), s.listDeliveries)
	again := op(http.MethodPost, "/{id}/deliveries/{delivery}/redeliver", "redeliver", "Resend a delivery, allowing the full number of attempts again", http.StatusConflict)
	again.DefaultStatus = http.StatusAccepted
	handle(s, api, again, func(ctx context.Context, in *struct {
		OfWebhook
		Keyed
		Delivery int64 `path:"delivery" minimum:"1" doc:"ID of the delivery"`
	}) (*body[store.Delivery], error) {
		return answered(s.Store.Redeliver(ctx, in.ID, in.Delivery, in.id("redeliver", in.ID, in.Delivery)))
	})
}

func (s *Server) createWebhook(ctx context.Context, in *struct {
	Keyed
	Body struct {
		URL         string   `json:"url" minLength:"1" doc:"http or https URL without a user or password"`
		Events      []string `json:"events,omitempty" doc:"event types, or patterns such as run.* and *.failed; default: all"`
		Project     string   `json:"project,omitempty" doc:"only events from this project's runs"`
		Description string   `json:"description,omitempty"`
		Name        string   `json:"name,omitempty" doc:"by which reminders name the webhook as a receiver (execution.approval.reminders); unique"`
		Secret      string   `json:"secret,omitempty" doc:"whsec_ followed by 24 to 64 random bytes in base64; default: generated"`
		Enabled     *bool    `json:"enabled,omitempty" doc:"default: true"`
		By          string   `json:"by,omitempty" maxLength:"200" doc:"who registers it; default: api"`
	}
}) (*body[madeWebhook], error) {
	b := in.Body
	made, err := s.Hooks.Register(ctx, webhook.Registration{
		URL: b.URL, Events: b.Events, Project: b.Project, Description: b.Description, Name: b.Name, Secret: store.Secret(b.Secret),
		Disabled: b.Enabled != nil && !*b.Enabled, Key: in.id("webhook"), By: cmp.Or(b.By, contract.ByAPI),
	})
	return answered(madeWebhook{made.Webhook, made.Secret.Reveal()}, err)
}

func (s *Server) changeWebhook(ctx context.Context, in *struct {
	OfWebhook
	Body struct {
		URL         *string       `json:"url,omitempty"`
		Events      []string      `json:"events,omitempty" doc:"replaces the current list; [] or [\"*\"] selects all events"`
		Project     *string       `json:"project,omitempty" doc:"empty: all projects"`
		Description *string       `json:"description,omitempty"`
		Name        *string       `json:"name,omitempty" doc:"by which reminders name the webhook as a receiver; empty: none"`
		Secret      *store.Secret `json:"secret,omitempty" doc:"new signing secret, effective immediately"`
		Enabled     *bool         `json:"enabled,omitempty" doc:"true re-enables a disabled webhook"`
		By          string        `json:"by,omitempty" maxLength:"200" doc:"who changes it; default: api"`
	}
}) (*body[store.Webhook], error) {
	b := in.Body
	return answered(s.Hooks.Change(ctx, in.ID, store.WebhookChange{
		URL: b.URL, Events: b.Events, Project: b.Project, Description: b.Description, Name: b.Name, Secret: b.Secret, Enabled: b.Enabled,
		By: cmp.Or(b.By, contract.ByAPI),
	}))
}

func (s *Server) listDeliveries(ctx context.Context, in *struct {
	OfWebhook
	Status string `query:"status" enum:"pending,sending,delivered,failed" doc:"only deliveries with this status"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"maximum number of results"`
	Before int64  `query:"before" minimum:"0" doc:"only deliveries with a lower ID than this; cursor takes precedence"`
	Cursor string `query:"cursor" doc:"value of next from the previous page"`
}) (*body[deliveryList], error) {
	from, err := param.ReadCursor[deliveryPlace](in.Cursor)
	if err != nil {
		return nil, err
	}
	from.ID = cmp.Or(from.ID, in.Before)
	list, err := s.Store.Deliveries(ctx, in.ID, store.DeliveryFilter{Status: store.DeliveryStatus(in.Status), Before: from.ID, Limit: in.Limit})
	page := deliveryList{Deliveries: store.NotNil(list)}
	if err == nil && len(list) == in.Limit {
		page.Next = param.WriteCursor(deliveryPlace{list[len(list)-1].ID})
	}
	return answered(page, err)
}
