package param

import (
	"encoding/base64"
	"encoding/json"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
)

// Position is the position in a list at which the next page starts.
type Position interface {
	// Valid reports whether a list can have returned the position.
	Valid() bool
}

// WriteCursor encodes a position as the opaque text that clients and links in pages send back as
// cursor.
func WriteCursor(p Position) string {
	raw, err := json.Marshal(p)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// ReadCursor decodes a cursor; an empty one stands for the beginning of the list.
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
