// Package middleware contains the handlers that every request passes through: access log, security
// headers, timeout, host check, body limits, and idempotency keys. Each file contains one; it
// either rejects a request with an apitypes.Problem or passes it on.
package middleware

import "net/http"

// Fail responds to a request with an error.
type Fail func(http.ResponseWriter, *http.Request, error)
