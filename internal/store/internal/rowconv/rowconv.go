// Package rowconv converts between Go values and what rows hold: text and JSON
// that PostgreSQL can store, columns that may be NULL, and lists of rows.
package rowconv

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/db"
)

// Statuses of model calls.
const (
	CallReserved = "reserved"
	CallDone     = "done"
	CallFailed   = "failed"
)

// ToolResults is the index at which the results of a turn's tool calls begin in a conversation:
// after all messages of the model, however many there are.
const ToolResults = 1000

// MessagesAdded is the index at which the messages added before the next turn begin: after the
// results of all tool calls.
const MessagesAdded = 100_000

// PostgreSQL stores neither NUL nor invalid UTF-8 nor half a surrogate pair, all of
// which occur in the output of repositories, commands and models. What it cannot store
// is replaced by U+FFFD instead of losing the whole text.

// Text returns a string that a TEXT column can store.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Encode returns a value as JSON that a JSONB column can store.
func Encode(v any) (json.RawMessage, error) {
	raw, err := marshal(v)
	if err != nil {
		return nil, err
	}
	return Document(raw)
}

// Document returns JSON that a JSONB column can store; empty becomes NULL.
func Document(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if !json.Valid(raw) {
		return nil, fault.New(contract.ClassRuntime, contract.CodeUnknown, "cannot store invalid JSON")
	}
	if utf8.Valid(raw) && !suspicious(raw) {
		return raw, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw)) // replaces invalid UTF-8 and half pairs
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, "cannot store the JSON")
	}
	return marshal(storable(v))
}

// suspicious reports whether JSON may hold NUL or a surrogate.
func suspicious(raw []byte) bool {
	return bytes.Contains(raw, []byte(`\u0000`)) || bytes.Contains(raw, []byte(`\ud`)) || bytes.Contains(raw, []byte(`\uD`))
}

func marshal(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, "cannot encode a %T as JSON", v)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// storable applies Text to all strings of a decoded JSON value.
func storable(v any) any {
	switch v := v.(type) {
	case string:
		return Text(v)
	case []any:
		for i := range v {
			v[i] = storable(v[i])
		}
		return v
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[Text(key)] = storable(value)
		}
		return out
	}
	return v
}

// Decode reads JSON that the store has written.
func Decode[T any](raw json.RawMessage) (T, error) {
	var v T
	if len(raw) == 0 {
		return v, nil
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, "cannot read a stored %T", v)
	}
	return v, nil
}

// EncodeSome is like Encode, but nil becomes NULL.
func EncodeSome[T any](v *T) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	return Encode(v)
}

// Convert applies a function to each element of a list.
func Convert[A, B any](in []A, f func(A) B) []B {
	out := make([]B, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

// ConvertAll is like Convert, for a function that may fail.
func ConvertAll[A, B any](in []A, f func(A) (B, error)) ([]B, error) {
	out := make([]B, len(in))
	for i, v := range in {
		var err error
		if out[i], err = f(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Optional returns a value for a column that may be NULL, which represents the zero value.
func Optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Deref reads a column that may be NULL.
func Deref[T any](v *T) (value T) {
	if v != nil {
		value = *v
	}
	return value
}

// Limit returns the row limit of a call: otherwise if none was requested, and at most 1000 if one
// was.
func Limit(asked, otherwise int) int32 {
	const most = 1000
	if asked <= 0 {
		return int32(otherwise)
	}
	return int32(min(asked, most))
}

// Failure returns the failure stored in columns, or nil if there was none.
func Failure(class, code, message, cause string) *contract.Failure {
	if class == "" {
		return nil
	}
	return &contract.Failure{Class: contract.Class(class), Code: contract.Code(code), Message: message, Cause: cause}
}

// Artifact reads an artifact.
func Artifact(r db.ArtifactsRow) contract.Artifact {
	return contract.Artifact{
		ID: r.ID, RunID: r.RunID, ExecutionID: r.ExecutionID, Name: r.Name, Type: contract.ArtifactType(r.Type),
		Size: r.Size, Digest: r.Hash, CreatedAt: r.CreatedAt, LeftOut: r.LeftOut, DeletedAt: r.DeletedAt,
	}
}

// Finding reads a finding.
func Finding(r db.Finding) contract.Finding {
	return contract.Finding{
		ID: r.ID, Severity: contract.Severity(r.Severity), Category: contract.Category(r.Category), Message: r.Message,
		Location: r.Location, Rule: r.Rule, Status: contract.FindingStatus(r.Status), Resolved: r.Resolved, ResolvedAt: r.ResolvedAt,
	}
}
