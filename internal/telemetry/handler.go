package telemetry

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	"go.opentelemetry.io/otel/trace"
)

// NewHandler wraps a slog handler: it removes secrets from messages and attributes, and adds the
// IDs of the context's trace.
func NewHandler(next slog.Handler) slog.Handler { return &handler{next: next, plain: next} }

// handler keeps two versions of the wrapped handler: next has all added groups and attributes,
// plain only those before the first group. Trace IDs belong to the record rather than to a group.
// If there are groups, the IDs are added to plain, followed by the remaining groups and attributes.
type handler struct {
	next  slog.Handler
	plain slog.Handler
	added []func(slog.Handler) slog.Handler // since the first group
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, Redact(r.Message), r.PC)
	next := h.next
	if extra := traceOf(ctx); len(extra) > 0 {
		if len(h.added) == 0 {
			clean.AddAttrs(extra...)
		} else {
			next = h.plain.WithAttrs(extra)
			for _, add := range h.added {
				next = add(next)
			}
		}
	}
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(redactAttr(a))
		return true
	})
	return next.Handle(ctx, clean)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	attrs = redactAttrs(attrs)
	return h.with(func(s slog.Handler) slog.Handler { return s.WithAttrs(attrs) }, len(h.added) > 0)
}

func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(func(s slog.Handler) slog.Handler { return s.WithGroup(name) }, true)
}

func (h *handler) with(add func(slog.Handler) slog.Handler, grouped bool) slog.Handler {
	out := &handler{next: add(h.next), plain: h.plain}
	if grouped {
		out.added = append(slices.Clip(h.added), add)
	} else {
		out.plain = out.next
	}
	return out
}

func redactAttrs(attrs []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = redactAttr(a)
	}
	return out
}

func redactAttr(a slog.Attr) slog.Attr {
	if IsSecretName(a.Key) {
		return slog.String(a.Key, Redacted)
	}
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, Redact(v.String()))
	case slog.KindGroup:
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(redactAttrs(v.Group())...)}
	case slog.KindAny:
		return slog.Any(a.Key, redactAny(v.Any()))
	default:
		return slog.Attr{Key: a.Key, Value: v}
	}
}

// redactAny checks the output of a value, and returns the value unchanged if its output contains no
// secret.
func redactAny(v any) any {
	switch v := v.(type) {
	case nil:
		return nil
	case error:
		return Redact(v.Error())
	case []byte:
		return Redact(string(v))
	case slog.Level, *slog.Source:
		return v
	case fmt.Stringer:
		if _, ok := v.(json.Marshaler); !ok {
			return Redact(safeString(v))
		}
	case encoding.TextMarshaler:
		if text, err := v.MarshalText(); err == nil {
			return Redact(string(text))
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return Redact(fmt.Sprintf("%+v", v))
	}
	clean := Redact(string(text))
	if clean == string(text) {
		return json.RawMessage(text)
	}
	if json.Valid([]byte(clean)) {
		return json.RawMessage(clean)
	}
	return clean
}

// safeString recovers from String methods that do not handle a nil pointer.
func safeString(v fmt.Stringer) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("(%T: %v)", v, p)
		}
	}()
	return v.String()
}

// traceOf returns the IDs of the context's trace as attributes, or none if there is no trace.
func traceOf(ctx context.Context) []slog.Attr {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return nil
	}
	return []slog.Attr{slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String())}
}
