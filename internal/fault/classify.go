package fault

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rocketgpt/orchestrator/contract"
)

// classify returns the failure for an error without a class.
func classify(err error) *contract.Failure {
	explain := func(class contract.Class, code contract.Code) *contract.Failure {
		return &contract.Failure{Class: class, Code: code, Message: shorten(err.Error())}
	}
	var pg *pgconn.PgError
	var dns *net.DNSError
	var netErr net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return explain(contract.ClassInfra, contract.CodeTimeout)
	case errors.Is(err, context.Canceled):
		return explain(contract.ClassInfra, contract.CodeCancelled)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return explain(contract.ClassInfra, contract.CodeDiskFull)
	case errors.As(err, &pg):
		return explain(postgresClass(pg.Code))
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &dns), pgconn.SafeToRetry(err):
		return explain(contract.ClassInfra, contract.CodeUnavailable)
	case errors.As(err, &netErr) && !isErrno(err):
		if netErr.Timeout() {
			return explain(contract.ClassInfra, contract.CodeTimeout)
		}
		return explain(contract.ClassInfra, contract.CodeUnavailable)
	case errors.Is(err, os.ErrPermission):
		return explain(contract.ClassConfig, contract.CodeInvalidConfig)
	default:
		return explain(contract.ClassRuntime, contract.CodeUnknown)
	}
}

// isErrno reports whether an error is only a system error number. These implement net.Error,
// although most are unrelated to the network.
func isErrno(err error) bool {
	var op *net.OpError
	var number syscall.Errno
	return errors.As(err, &number) && !errors.As(err, &op)
}

// postgresClass returns the class and code for an SQLSTATE (PostgreSQL manual, appendix A).
func postgresClass(state string) (contract.Class, contract.Code) {
	switch {
	case strings.HasPrefix(state, "08"), strings.HasPrefix(state, "57P"), state == "53300", state == "40001", state == "40P01", state == "55P03":
		return contract.ClassInfra, contract.CodeUnavailable
	case state == "53100":
		return contract.ClassInfra, contract.CodeDiskFull
	case state == "57014":
		return contract.ClassInfra, contract.CodeTimeout
	case strings.HasPrefix(state, "28"), state == "3D000", state == "3F000", state == "42P01", state == "42703":
		return contract.ClassConfig, contract.CodeInvalidConfig
	default:
		return contract.ClassRuntime, contract.CodeUnknown
	}
}

// OfHTTPStatus returns the class and code of a failed HTTP request to a model
// provider or another service.
func OfHTTPStatus(status int) (contract.Class, contract.Code) {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return contract.ClassConfig, contract.CodeUnauthorized
	case http.StatusPaymentRequired:
		return contract.ClassInfra, contract.CodeQuotaExhausted
	case http.StatusNotFound:
		return contract.ClassConfig, contract.CodeModelNotFound
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return contract.ClassInfra, contract.CodeTimeout
	case http.StatusTooManyRequests:
		return contract.ClassInfra, contract.CodeRateLimited
	case http.StatusRequestEntityTooLarge:
		return contract.ClassLLM, contract.CodeContextOverflow
	case http.StatusConflict, http.StatusTooEarly, http.StatusFailedDependency: // the last is AWS's for an error of the model
		return contract.ClassInfra, contract.CodeUnavailable
	}
	if status >= 500 {
		return contract.ClassInfra, contract.CodeUnavailable
	}
	return contract.ClassConfig, contract.CodeBadRequest
}
