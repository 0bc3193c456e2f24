package api

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Keyed is a request that is carried out once under a key (middleware.Idempotency).
type Keyed struct {
	Key string `header:"Idempotency-Key" maxLength:"200" doc:"the same key and body are one request, however often it is sent, and get one answer for 24 h"`
}

// id returns what names the thing that a request makes, the same for the same
// key; empty without one.
func (k Keyed) id(what string, of ...int64) string {
	if k.Key == "" {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %v %s", what, of, k.Key))
	return what + "/" + hex.EncodeToString(sum[:16])
}
