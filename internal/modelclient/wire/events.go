package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/openai/openai-go/v3/packages/ssestream"
)

// maxValues limits the JSON values of one event, or of a response in one piece. Text counts as one value
// however long it is. An SDK allocates up to 4 KB for an empty item of two bytes.
const maxValues = 1 << 15

// readEvents decodes the events of a stream and passes them on until the stream, or take, ends it.
// reported makes the error of an event that consists of one.
//
// The SDKs' own streams would decode any number of items, and take "error": null for an error.
func readEvents[T any](r *http.Response, reported func(data []byte) error, take func(*T) (ended bool, err error)) error {
	events := ssestream.NewDecoder(r)
	for events.Next() {
		data := events.Event().Data
		switch {
		case bytes.HasPrefix(data, []byte("[DONE]")):
			return nil
		case hasError(data):
			return reported(data)
		}
		var event T
		if err := unmarshal(data, &event); err != nil {
			return err
		}
		if ended, err := take(&event); ended || err != nil {
			return err
		}
	}
	if err := events.Err(); err != nil {
		return &MalformedError{err}
	}
	return nil
}

// hasError reports whether a document has an error at its top.
func hasError(data []byte) bool {
	var doc struct {
		Error json.RawMessage `json:"error"`
	}
	return bytes.Contains(data, []byte(`"error"`)) && json.Unmarshal(data, &doc) == nil && isSet(doc.Error)
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// unmarshal decodes a response, or an event, that has a limited number of values.
func unmarshal(data []byte, into any) error {
	if values(data) > maxValues {
		return &MalformedError{fmt.Errorf("it has more than %d JSON values", maxValues)}
	}
	if err := json.Unmarshal(data, into); err != nil {
		return &MalformedError{err}
	}
	return nil
}

// values counts what begins or separates values in JSON, outside of texts.
func values(data []byte) int {
	n, inText := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			inText = !inText
		case inText && c == '\\':
			i++
		case !inText && (c == ',' || c == '{' || c == '['):
			n++
		}
	}
	return n
}
