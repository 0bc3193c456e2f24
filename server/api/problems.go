package api

import (
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/middleware"
)

func init() {
	// Errors that huma itself finds in a request become problems like all others.
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		p := apitypes.Problem{Title: http.StatusText(status), Status: status, Detail: message}
		for _, err := range errs {
			var d huma.ErrorDetailer
			if !errors.As(err, &d) {
				continue
			}
			detail := d.ErrorDetail()
			p.Errors = append(p.Errors, apitypes.Invalid{At: detail.Location, Message: detail.Message})
			switch {
			case strings.HasPrefix(detail.Location, "path."): // no such id was ever assigned
				return apitypes.Problem{Title: "Not found", Status: http.StatusNotFound, Class: contract.ClassHuman, Code: store.CodeNotFound}
			case strings.HasPrefix(detail.Location, "query."), strings.HasPrefix(detail.Location, "header."):
				p.Status = http.StatusBadRequest
			}
		}
		if len(p.Errors) > 0 {
			p.Title, p.Class, p.Code = "Invalid request", contract.ClassHuman, contract.CodeInvalidConfig
		}
		return p
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		err := huma.NewError(status, message, errs...)
		if p, ok := err.(apitypes.Problem); ok {
			p.Instance = middleware.RequestID(ctx.Context())
			return p
		}
		return err
	}
}
