package param

import (
	"encoding/base64"
	"encoding/json"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
)

// Position is a place in a list from which the next page starts.
type Position interface {
	// Valid reports whether a list may have returned it.
	Valid() bool
}

// WriteCursor encodes a position as the opaque text that clients, and links of
// pages, send back as cursor.
func WriteCursor(p Position) string {
	raw, err := json.Marshal(p)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// ReadCursor decodes a cursor; an empty one is the beginning of the list.
func ReadCursor[P Position](text string) (p P, err error) {
	if text == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &p) != nil || !p.Valid() {
		return p, apitypes.BadRequest("cursor: must be a cursor returned by this list")
	}
	return p, nil
}
