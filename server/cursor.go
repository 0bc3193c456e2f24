package server

import (
	"encoding/base64"
	"encoding/json"
)

// place is where a list goes on.
type place interface {
	// Valid reports whether some list may have given it.
	Valid() bool
}

// writeCursor makes a place in a list a text that clients, and links of pages,
// hand back as cursor. What is in it is nobody's business but ours.
func writeCursor(p place) string {
	raw, err := json.Marshal(p)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// readCursor reads a cursor; an empty one is the beginning of the list.
func readCursor[P place](text string) (p P, err error) {
	if text == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &p) != nil || !p.Valid() {
		return p, badRequest("cursor: this is none that this list gave")
	}
	return p, nil
}
