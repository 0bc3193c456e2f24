package telemetry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/interceptor"
)

func TestSpansLoseTheirSecrets(t *testing.T) {
	t.Parallel()
	memory := tracetest.NewInMemoryExporter()
	provider, err := newProvider(t.Context(), memory, Options{Service: "rgpt-worker", Version: "1.2.3", Instance: "a"})
	require.NoError(t, err)
	_, span := provider.Tracer("x").Start(t.Context(), "call password=hunter2")
	span.SetAttributes(
		attribute.String("api_key", "hunter2"), attribute.String("url", "https://u:hunter2@h"),
		attribute.StringSlice("args", []string{"--token=hunter2"}), attribute.Int("n", 5), attribute.String("model", "m"),
	)
	span.RecordError(errors.New("token=hunter2"))
	span.SetStatus(codes.Error, "secret=hunter2")
	span.End()
	require.NoError(t, provider.ForceFlush(t.Context()))

	spans := memory.GetSpans()
	require.Len(t, spans, 1)
	got := spans[0]
	require.Equal(t, "call password=[redacted]", got.Name)
	require.Equal(t, "secret=[redacted]", got.Status.Description)
	values := map[string]string{}
	for _, a := range got.Attributes {
		values[string(a.Key)] = a.Value.String()
	}
	require.Equal(t, map[string]string{
		"api_key": "[redacted]", "url": "https://u:[redacted]@h", "args": `["--token=[redacted]"]`, "n": "5", "model": "m",
	}, values)
	for _, a := range got.Events[0].Attributes {
		require.NotContains(t, a.Value.String(), "hunter2")
	}
	require.Contains(t, got.Resource.String(), "service.name=rgpt-worker")
	require.NoError(t, provider.Shutdown(t.Context()))
}

// TestTracesGoWhereTheEnvironmentSays changes the process, so it does not run
// beside others.
func TestTracesGoWhereTheEnvironmentSays(t *testing.T) {
	received := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case received <- r.URL.Path + " " + string(body):
		default:
		}
	}))
	defer server.Close()
	before := otel.GetTracerProvider()
	defer otel.SetTracerProvider(before)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")

	shutdown, err := Setup(t.Context(), Options{Service: "rgpt-worker"})
	require.NoError(t, err)
	_, span := Tracer().Start(t.Context(), "model call")
	span.End()
	require.NoError(t, shutdown(t.Context()))
	got := <-received
	require.True(t, strings.HasPrefix(got, "/v1/traces "))
	require.Contains(t, got, "model call")
	require.Contains(t, got, "deployment.environment")
}

func TestWithoutAnEndpointNothingIsTraced(t *testing.T) {
	for _, disabled := range []string{"", "true"} {
		t.Setenv("OTEL_SDK_DISABLED", disabled)
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
		if disabled != "" {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
		}
		shutdown, err := Setup(t.Context(), Options{Service: "x"})
		require.NoError(t, err)
		_, span := Tracer().Start(t.Context(), "x")
		require.False(t, span.IsRecording())
		require.NoError(t, shutdown(t.Context()))
	}
	carrier := map[string]string{"traceparent": "00-01000000000000000000000000000000-0200000000000000-01"}
	ctx := otel.GetTextMapPropagator().Extract(context.Background(), mapCarrier(carrier))
	require.True(t, trace.SpanContextFromContext(ctx).IsValid(), "ids of callers are understood all the same")
}

type mapCarrier map[string]string

func (m mapCarrier) Get(key string) string { return m[key] }
func (m mapCarrier) Set(key, value string) { m[key] = value }
func (m mapCarrier) Keys() []string        { return nil }

func TestTheInterceptorServesClientsAndWorkers(t *testing.T) {
	t.Parallel()
	i, err := TracingInterceptor()
	require.NoError(t, err)
	var _ interceptor.ClientInterceptor = i
	var _ interceptor.WorkerInterceptor = i
	require.NotNil(t, i)
}

var _ sdktrace.ReadOnlySpan = redactedSpan{}
