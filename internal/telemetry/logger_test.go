package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

func jsonLogger(t testing.TB) (*slog.Logger, *bytes.Buffer) {
	t.Helper()
	var buf bytes.Buffer
	l, closer, err := telemetry.NewLogger(telemetry.LogOptions{Component: "worker", Level: "debug", Format: "json", Console: &buf})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, closer.Close()) })
	return l, &buf
}

func record(t testing.TB, buf *bytes.Buffer) map[string]any {
	t.Helper()
	var out map[string]any
	require.NoError(t, json.Unmarshal(buf.Bytes(), &out), buf.String())
	return out
}

type config struct {
	Name   string `json:"name"`
	APIKey string `json:"api_key"`
	Port   int    `json:"port"`
}

type valuer struct{ text string }

func (v valuer) LogValue() slog.Value { return slog.GroupValue(slog.String("password", v.text)) }

type nilStringer struct{ text string }

func (n *nilStringer) String() string { return n.text }

func TestNoSecretReachesTheOutputWhateverCarriesIt(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-canary"
	link, err := url.Parse("https://u:" + secret + "@h")
	require.NoError(t, err)
	tests := map[string]func(l *slog.Logger){
		"the message":            func(l *slog.Logger) { l.Info("password=" + secret) },
		"a secret name":          func(l *slog.Logger) { l.Info("x", "api_key", secret) },
		"a secret name's number": func(l *slog.Logger) { l.Info("x", "token", []int{1, 2}, "secret", secret) },
		"a text":                 func(l *slog.Logger) { l.Info("x", "url", "postgres://u:"+secret+"@h/d") },
		"an error":               func(l *slog.Logger) { l.Info("x", "err", errors.New("password="+secret)) },
		"a wrapped error":        func(l *slog.Logger) { l.Info("x", "err", fmt.Errorf("a: %w", errors.New("token="+secret))) },
		"bytes":                  func(l *slog.Logger) { l.Info("x", "body", []byte(`{"token":"`+secret+`"}`)) },
		"a struct":               func(l *slog.Logger) { l.Info("x", "config", config{APIKey: secret}) },
		"a pointer":              func(l *slog.Logger) { l.Info("x", "config", &config{APIKey: secret}) },
		"a map":                  func(l *slog.Logger) { l.Info("x", "env", map[string]string{"DB_PASSWORD": secret}) },
		"a list":                 func(l *slog.Logger) { l.Info("x", "args", []string{"--token=" + secret}) },
		"a group":                func(l *slog.Logger) { l.Info("x", slog.Group("g", slog.String("secret", secret))) },
		"a LogValuer":            func(l *slog.Logger) { l.Info("x", "v", valuer{secret}) },
		"a Stringer":             func(l *slog.Logger) { l.Info("x", "url", link) },
		"With":                   func(l *slog.Logger) { l.With("password", secret).Info("x") },
		"WithGroup":              func(l *slog.Logger) { l.WithGroup("g").With("a", "password="+secret).Info("x", "token", secret) },
	}
	for name, log := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, buf := jsonLogger(t)
			log(l)
			require.NotContains(t, buf.String(), secret)
			require.Contains(t, buf.String(), telemetry.Redacted)
			record(t, buf)
		})
	}
}

func TestWhatIsNotSecretKeepsItsForm(t *testing.T) {
	t.Parallel()
	l, buf := jsonLogger(t)
	l.Info("x", "n", 42, "d", 2*time.Second, "b", true, "list", []string{"a"}, "config", struct{ Port int }{8080},
		"nil", nil, "err", errors.New("boom"), "level", slog.LevelWarn, "phase", contract.PhaseBuilder)
	got := record(t, buf)
	require.EqualValues(t, 42, got["n"])
	require.EqualValues(t, 2*time.Second, got["d"])
	require.Equal(t, true, got["b"])
	require.Equal(t, []any{"a"}, got["list"])
	require.Equal(t, map[string]any{"Port": 8080.0}, got["config"])
	require.Nil(t, got["nil"])
	require.Equal(t, "boom", got["err"])
	require.Equal(t, "builder", got["phase"])
	require.Equal(t, "worker", got["component"])
}

func TestOddValuesDoNotStopTheLogger(t *testing.T) {
	t.Parallel()
	l, buf := jsonLogger(t)
	var stringer *nilStringer
	l.Info("x", "nil", stringer, "func", func() {}, "chan", make(chan int), "cycle", []any{map[string]any{"f": func() {}}})
	record(t, buf)
}

func TestAnyRecordIsOneLineOfJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var buf bytes.Buffer
		l, _, err := telemetry.NewLogger(telemetry.LogOptions{Format: "json", Console: &buf})
		require.NoError(rt, err)
		l.Info(rapid.String().Draw(rt, "message"), rapid.String().Draw(rt, "key"), rapid.String().Draw(rt, "value"),
			"any", map[string]string{rapid.String().Draw(rt, "k"): rapid.String().Draw(rt, "v")})
		require.True(rt, json.Valid(buf.Bytes()), buf.String())
		require.Equal(rt, 1, strings.Count(buf.String(), "\n"))
	})
}

func TestTheContextNamesTheTraceOfALogRecord(t *testing.T) {
	t.Parallel()
	l, buf := jsonLogger(t)
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	l.With("a", 1).WithGroup("g").With("b", 2).InfoContext(ctx, "x", "c", 3)
	got := record(t, buf)
	require.Equal(t, "01000000000000000000000000000000", got["trace_id"])
	require.Equal(t, "0200000000000000", got["span_id"])
	require.EqualValues(t, 1, got["a"])
	require.Equal(t, map[string]any{"b": 2.0, "c": 3.0}, got["g"])
}

func TestARecordWithoutContextHasNoEmptyAttributes(t *testing.T) {
	t.Parallel()
	l, buf := jsonLogger(t)
	l.InfoContext(t.Context(), "x")
	require.NotContains(t, record(t, buf), "trace_id")
}

func TestLevelsBelowTheChosenOneAreLeftOut(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	l, _, err := telemetry.NewLogger(telemetry.LogOptions{Level: "warn", Format: "text", Console: &buf})
	require.NoError(t, err)
	l.Info("no")
	l.Warn("yes")
	require.NotContains(t, buf.String(), "no")
	require.Contains(t, buf.String(), "level=WARN msg=yes")
}

func TestOptionsThatCannotBeUsedAreConfigErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, o := range []telemetry.LogOptions{{Level: "loud"}, {Format: "xml"}} {
		_, _, err := telemetry.NewLogger(o)
		require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
	}
	_, _, err := telemetry.NewLogger(telemetry.LogOptions{Dir: filepath.Join(file, "logs")})
	require.ErrorContains(t, err, "logging.dir")
}

func TestEachComponentHasItsFileWhichRotates(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "logs")
	l, closer, err := telemetry.NewLogger(telemetry.LogOptions{Component: "../worker", Dir: dir, MaxSize: 1 << 20, MaxAge: 24 * time.Hour, MaxFiles: 2})
	require.NoError(t, err)
	line := strings.Repeat("x", 100_000)
	for range 45 {
		l.Info(line, "password", "hunter2-canary")
	}
	require.NoError(t, closer.Close())
	files, err := filepath.Glob(filepath.Join(dir, "---worker*.log"))
	require.NoError(t, err)
	require.Len(t, files, 3, "the current file and two older ones")
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		require.NotContains(t, string(data), "hunter2")
		require.LessOrEqual(t, len(data), 1<<20)
		for row := range bytes.Lines(data) {
			require.True(t, json.Valid(row))
		}
	}
}

func TestTheTemporalLoggerWritesToTheSameLog(t *testing.T) {
	t.Parallel()
	l, buf := jsonLogger(t)
	telemetry.TemporalLogger(l).Error("activity failed", "Error", "password=hunter2-canary", "Attempt", 3)
	got := record(t, buf)
	require.Equal(t, "ERROR", got["level"])
	require.Equal(t, "password=[redacted]", got["Error"])
	require.EqualValues(t, 3, got["Attempt"])
}

func BenchmarkLog(b *testing.B) {
	l, buf := jsonLogger(b)
	b.ReportAllocs()
	for b.Loop() {
		l.InfoContext(b.Context(), "tool call done", "tool", "edit_file", "took", time.Second, "path", "internal/x/y.go")
		buf.Reset()
	}
}
