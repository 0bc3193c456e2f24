package telemetry

import (
	"context"
	"os"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	temporalotel "go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Scope is the name under which RocketGPT creates its own spans.
const Scope = "github.com/rocketgpt/orchestrator"

// Options identify the process in its traces.
type Options struct {
	Service  string // rgpt-worker
	Version  string
	Instance string // distinguishes processes of one service; empty: host and process
}

// Setup makes the process send traces according to the standard OpenTelemetry variables: to
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, over HTTP, with
// OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS and the other variables. Without an endpoint, or
// with OTEL_SDK_DISABLED=true, spans have almost no cost and are not sent; trace IDs of callers are
// still propagated. Secrets are removed from spans.
//
// The returned function sends the remaining spans and stops tracing. Call it before the process
// exits, with a context that limits the wait.
func Setup(ctx context.Context, o Options) (shutdown func(context.Context) error, err error) {
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	if !tracingWanted() {
		return func(context.Context) error { return nil }, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "cannot set up tracing; check the OTEL_EXPORTER_OTLP_ variables")
	}
	provider, err := newProvider(ctx, exporter, o)
	if err != nil {
		return nil, err
	}
	otel.SetTracerProvider(provider)
	return provider.Shutdown, nil
}

func tracingWanted() bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// newProvider returns a provider that sends spans without secrets to an exporter.
func newProvider(ctx context.Context, exporter sdktrace.SpanExporter, o Options) (*sdktrace.TracerProvider, error) {
	attrs := []attribute.KeyValue{attribute.String("service.name", o.Service), attribute.String("service.version", o.Version)}
	if o.Instance != "" {
		attrs = append(attrs, attribute.String("service.instance.id", o.Instance))
	}
	// The environment comes last, so that operators can override it.
	res, err := resource.New(ctx, resource.WithHost(), resource.WithProcessPID(), resource.WithAttributes(attrs...), resource.WithFromEnv())
	if err != nil && res == nil {
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "cannot describe this process for tracing; check OTEL_RESOURCE_ATTRIBUTES")
	}
	return sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(redactingExporter{exporter}),
		sdktrace.WithResource(res),
	), nil
}

// Tracer returns the tracer for RocketGPT's own spans.
func Tracer() trace.Tracer { return otel.Tracer(Scope) }

// TracingInterceptor returns the interceptor with which Temporal clients and workers propagate
// traces through workflows and activities. Set it in client.Options.Interceptors; workers of that
// client then use it as well.
func TracingInterceptor() (interceptor.Interceptor, error) {
	return temporalotel.NewTracingInterceptor(temporalotel.TracerOptions{Tracer: Tracer()})
}

// redactingExporter removes secrets from spans before they are sent.
type redactingExporter struct{ sdktrace.SpanExporter }

func (e redactingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	clean := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, s := range spans {
		clean[i] = redactedSpan{s}
	}
	return e.SpanExporter.ExportSpans(ctx, clean)
}

type redactedSpan struct{ sdktrace.ReadOnlySpan }

func (s redactedSpan) Name() string { return Redact(s.ReadOnlySpan.Name()) }

func (s redactedSpan) Attributes() []attribute.KeyValue {
	return redactAttributes(s.ReadOnlySpan.Attributes())
}

func (s redactedSpan) Status() sdktrace.Status {
	status := s.ReadOnlySpan.Status()
	status.Description = Redact(status.Description)
	return status
}

func (s redactedSpan) Events() []sdktrace.Event {
	events := append([]sdktrace.Event(nil), s.ReadOnlySpan.Events()...)
	for i := range events {
		events[i].Name = Redact(events[i].Name)
		events[i].Attributes = redactAttributes(events[i].Attributes)
	}
	return events
}

func redactAttributes(attrs []attribute.KeyValue) []attribute.KeyValue {
	out := make([]attribute.KeyValue, len(attrs))
	for i, a := range attrs {
		out[i] = a
		switch {
		case IsSecretName(string(a.Key)):
			out[i] = attribute.String(string(a.Key), Redacted)
		case a.Value.Type() == attribute.STRING:
			out[i] = attribute.String(string(a.Key), Redact(a.Value.AsString()))
		case a.Value.Type() == attribute.STRINGSLICE:
			texts := a.Value.AsStringSlice()
			for j := range texts {
				texts[j] = Redact(texts[j])
			}
			out[i] = attribute.StringSlice(string(a.Key), texts)
		}
	}
	return out
}
