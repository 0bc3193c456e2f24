package scripted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"github.com/goccy/go-yaml"
)

// toJSON encodes a YAML value as compact JSON with the keys in the file's order.
func toJSON(v any) (string, error) {
	var b bytes.Buffer
	if err := appendJSON(&b, v); err != nil {
		return "", err
	}
	return b.String(), nil
}

func appendJSON(b *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case yaml.MapSlice:
		return appendObject(b, v)
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := appendJSON(b, e); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%v cannot be written as JSON", v)
		}
	}
	return appendScalar(b, v)
}

func appendObject(b *bytes.Buffer, m yaml.MapSlice) error {
	b.WriteByte('{')
	for i, item := range m {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := appendScalar(b, fmt.Sprint(item.Key)); err != nil {
			return err
		}
		b.WriteByte(':')
		if err := appendJSON(b, item.Value); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func appendScalar(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("cannot be written as JSON: %w", err)
	}
	b.Truncate(b.Len() - 1) // the encoder's newline
	return nil
}
