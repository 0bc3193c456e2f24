// Package middleware wraps the server's routes with what every request passes through:
// an access log, security headers, a timeout, a host check, limits on bodies, and
// idempotency keys. Each file holds one of them; it either refuses a request with an
// apitypes.Problem or passes it on.
package middleware

import "net/http"

// Fail answers a request with an error.
type Fail func(http.ResponseWriter, *http.Request, error)
