package model

import (
	"encoding/json"
	"reflect"
	"strings"
	"unicode"

	"github.com/invopop/jsonschema"
)

// Schema is a JSON schema that a response must match. Name is for the provider: at most 64 letters,
// digits, _ and -. Providers can enforce a strict schema while the model writes: every object
// requires all its properties and allows no others.
type Schema struct {
	Name   string          `json:"name"`
	JSON   json.RawMessage `json:"json"`
	Strict bool            `json:"strict"`
}

// SchemaOf returns the strict schema of a Go type. The tags of github.com/invopop/jsonschema add
// descriptions, enums and limits. A field with omitempty may be null, because a strict schema has
// no optional fields; CheckJSON also accepts its absence. For types that a strict schema cannot
// express (maps, any, json.RawMessage), the schema is not strict. T must not contain itself.
func SchemaOf[T any]() Schema {
	t := reflect.TypeFor[T]()
	r := jsonschema.Reflector{Anonymous: true, DoNotReference: true, ExpandedStruct: t.Kind() == reflect.Struct}
	root := r.ReflectFromType(t)
	root.Version = ""
	m := strictMaker{strict: true}
	m.visit(root)
	text, err := json.Marshal(root)
	if err != nil {
		panic("model: the schema of " + t.String() + ": " + err.Error()) //nolint:forbidigo // an error in the tags of a type in our own code
	}
	return Schema{Name: schemaName(t), JSON: text, Strict: m.strict}
}

// strictMaker makes every object strict, and records whether all of the schema can be strict.
type strictMaker struct{ strict bool }

func (m *strictMaker) visit(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Type == "" && len(s.AnyOf)+len(s.OneOf)+len(s.AllOf)+len(s.Enum) == 0 && s.Const == nil {
		m.strict = false // any value at all
	}
	if s.Type == "object" && s.Properties == nil {
		m.strict = false // a map
	}
	for _, list := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf, s.AllOf, {s.Items}} {
		for _, sub := range list {
			m.visit(sub)
		}
	}
	if s.Properties != nil {
		m.object(s)
	}
}

// object makes all properties required; optional ones may then be null.
func (m *strictMaker) object(s *jsonschema.Schema) {
	wasRequired := map[string]bool{}
	for _, name := range s.Required {
		wasRequired[name] = true
	}
	s.Required = nil
	s.AdditionalProperties = jsonschema.FalseSchema
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		m.visit(p.Value)
		s.Required = append(s.Required, p.Key)
		if !wasRequired[p.Key] {
			p.Value = orNull(p.Value)
		}
	}
}

// orNull returns a schema that also allows null. The description stays at the top level, where
// models look for it.
func orNull(s *jsonschema.Schema) *jsonschema.Schema {
	description := s.Description
	s.Description = ""
	return &jsonschema.Schema{Description: description, AnyOf: []*jsonschema.Schema{s, {Type: "null"}}}
}

// schemaName converts PlanAnswer to plan_answer.
func schemaName(t reflect.Type) string {
	var b strings.Builder
	for i, r := range t.Name() {
		switch {
		case unicode.IsUpper(r) && i > 0:
			b.WriteByte('_')
			fallthrough
		case r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_'):
			b.WriteRune(unicode.ToLower(r))
		default: // the brackets of a generic type
			b.WriteByte('_')
		}
	}
	if b.Len() == 0 {
		return "answer"
	}
	name := b.String()
	return name[:min(len(name), maxSchemaName)]
}

// maxSchemaName is the protocol's limit for the length of a schema's name.
const maxSchemaName = 64
