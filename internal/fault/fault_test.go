package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func TestAnyErrorHasAClass(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		class contract.Class
		code  contract.Code
	}{
		"a deadline":            {context.DeadlineExceeded, contract.ClassInfra, contract.CodeTimeout},
		"a wrapped deadline":    {fmt.Errorf("call: %w", context.DeadlineExceeded), contract.ClassInfra, contract.CodeTimeout},
		"a cancelled context":   {context.Canceled, contract.ClassInfra, contract.CodeCancelled},
		"a refused connection":  {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, contract.ClassInfra, contract.CodeUnavailable},
		"a reset connection":    {fmt.Errorf("read: %w", syscall.ECONNRESET), contract.ClassInfra, contract.CodeUnavailable},
		"an unknown host":       {&net.DNSError{Err: "no such host", Name: "nowhere"}, contract.ClassInfra, contract.CodeUnavailable},
		"a full disk":           {&fs.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC}, contract.ClassInfra, contract.CodeDiskFull},
		"a database restart":    {&pgconn.PgError{Code: "57P01"}, contract.ClassInfra, contract.CodeUnavailable},
		"a missing table":       {&pgconn.PgError{Code: "42P01"}, contract.ClassConfig, contract.CodeInvalidConfig},
		"a wrong password":      {&pgconn.PgError{Code: "28P01"}, contract.ClassConfig, contract.CodeInvalidConfig},
		"a violated constraint": {&pgconn.PgError{Code: "23505"}, contract.ClassRuntime, contract.CodeUnknown},
		"a missing file":        {&fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}, contract.ClassRuntime, contract.CodeUnknown},
		"no permission":         {os.ErrPermission, contract.ClassConfig, contract.CodeInvalidConfig},
		"anything else":         {errors.New("strange"), contract.ClassRuntime, contract.CodeUnknown},
		"a typed failure":       {fmt.Errorf("x: %w", fault.New(contract.ClassLLM, contract.CodeRefusal, "no")), contract.ClassLLM, contract.CodeRefusal},
		"a contract failure":    {&contract.Failure{Class: contract.ClassLogic, Code: contract.CodeLoop}, contract.ClassLogic, contract.CodeLoop},
		"a Temporal time-out":   {temporal.NewHeartbeatTimeoutError(), contract.ClassInfra, contract.CodeWorkerLost},
		"a cancelled activity":  {temporal.NewCanceledError(), contract.ClassInfra, contract.CodeCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fault.Of(c.err)
			require.Equal(t, c.class, f.Class)
			require.Equal(t, c.code, f.Code)
		})
	}
	require.Nil(t, fault.Of(nil))
}

func TestHTTPStatusesHaveTheirClass(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		400: "CONFIG_ERROR bad_request", 401: "CONFIG_ERROR unauthorized", 403: "CONFIG_ERROR unauthorized", 402: "INFRA_ERROR quota_exhausted",
		404: "CONFIG_ERROR model_not_found", 408: "INFRA_ERROR timeout", 409: "INFRA_ERROR unavailable", 413: "LLM_ERROR context_overflow",
		422: "CONFIG_ERROR bad_request", 429: "INFRA_ERROR rate_limited", 500: "INFRA_ERROR unavailable", 503: "INFRA_ERROR unavailable", 504: "INFRA_ERROR timeout", 529: "INFRA_ERROR unavailable",
	} {
		class, code := fault.OfHTTPStatus(status)
		require.Equal(t, want, string(class)+" "+string(code), status)
	}
}

func TestAFailureCrossesTemporalWhole(t *testing.T) {
	t.Parallel()
	sent := fault.Wrap(errors.New("root"), contract.ClassInfra, contract.CodeRateLimited, "asked too often").After(7 * time.Second)
	crossed := fault.ToTemporal(fmt.Errorf("on the way: %w", sent), 1)
	var app *temporal.ApplicationError
	require.ErrorAs(t, crossed, &app)
	require.Equal(t, "INFRA_ERROR", app.Type())
	require.False(t, app.NonRetryable())
	require.GreaterOrEqual(t, app.NextRetryDelay(), 7*time.Second, "Retry-After is honoured")
	got := fault.Of(crossed)
	require.Equal(t, &contract.Failure{Class: contract.ClassInfra, Code: contract.CodeRateLimited, Message: "asked too often", Cause: "root"}, got)
}

func TestEachClassIsRetriedAsItsRowSays(t *testing.T) {
	t.Parallel()
	for _, class := range contract.Classes() {
		row := fault.RetryOf(class)
		for attempt := 1; attempt <= row.Attempts+1; attempt++ {
			var app *temporal.ApplicationError
			require.ErrorAs(t, fault.ToTemporal(fault.New(class, contract.CodeUnknown, "x"), attempt), &app)
			require.Equal(t, attempt >= row.Attempts, app.NonRetryable(), "%s at attempt %d", class, attempt)
			if !app.NonRetryable() {
				require.LessOrEqual(t, app.NextRetryDelay(), row.Longest)
				require.Positive(t, app.NextRetryDelay())
			}
		}
	}
	require.Equal(t, 1, fault.RetryOf(contract.ClassLLM).Attempts, "a new sample comes through heal only")
	require.Equal(t, 2, fault.RetryOf(contract.ClassRuntime).Attempts, "once more")
}

func TestPermanentFailuresAreNotRetried(t *testing.T) {
	t.Parallel()
	for _, code := range []contract.Code{contract.CodeCancelled, contract.CodeDiskFull, contract.CodeQuotaExhausted} {
		_, again := fault.New(contract.ClassInfra, code, "x").RetryDelay(1)
		require.False(t, again, code)
	}
}

func TestAnOutageOfOurOwnDatabaseIsWaitedOut(t *testing.T) {
	t.Parallel()
	down := fault.New(contract.ClassInfra, contract.CodeDatabaseDown, "x")
	delay, again := down.RetryDelay(1000)
	require.True(t, again)
	require.LessOrEqual(t, delay, 30*time.Second)
}

func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 20000, 60000).Draw(t, "text")
		f := fault.Of(fault.Wrap(errors.New(text), contract.ClassRuntime, contract.CodeUnknown, "%s", text))
		if len(f.Message) > 2100 || len(f.Cause) > 2100 {
			t.Fatalf("message %d, cause %d bytes", len(f.Message), len(f.Cause))
		}
	})
	long := strings.Repeat("a", 5000) + "END"
	require.Contains(t, fault.Of(errors.New(long)).Message, "END", "the end of an output tells most")
}
