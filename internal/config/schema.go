package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

// kind is the type of a value.
type kind int

const (
	kindSection kind = iota
	kindMap
	kindList
	kindBool
	kindToggle
	kindInt
	kindFloat
	kindText
	kindDuration
	kindSize
	kindMoney
)

// spec describes one key. The struct tags of Config are its only source.
type spec struct {
	name     string // last part of the key; empty for elements
	kind     kind
	typ      reflect.Type
	index    []int   // of the field in its section's struct
	fields   []*spec // of a section, in order
	elem     *spec   // of a map or list
	doc      string
	example  string
	fallback string // default of an element's field
	trust    string // how a repository may change it; empty: as its section
	rule     string // validator tag of the value itself
	keys     string // validator tag of a map's keys
	secret   bool   // its value is never shown
}

// root returns the description of the whole configuration.
var root = sync.OnceValue(func() *spec {
	return describe(reflect.TypeFor[Config]())
})

func describe(t reflect.Type) *spec {
	s := &spec{typ: t, kind: kindOf(t)}
	switch s.kind {
	case kindSection:
		for f := range t.Fields() {
			if f.IsExported() {
				s.fields = append(s.fields, describeField(f))
			}
		}
	case kindMap, kindList:
		s.elem = describe(t.Elem())
	default: // a single value
	}
	return s
}

func describeField(f reflect.StructField) *spec {
	s := describe(f.Type)
	s.index = f.Index
	s.name, s.doc, s.example = f.Tag.Get("yaml"), f.Tag.Get("doc"), f.Tag.Get("example")
	s.fallback, s.trust, s.secret = f.Tag.Get("default"), f.Tag.Get("repo"), f.Tag.Get("secret") != ""
	own, elements, _ := strings.Cut(f.Tag.Get("validate"), "dive")
	s.rule = strings.Trim(own, ",")
	if s.elem == nil {
		return s
	}
	elements = strings.Trim(elements, ",")
	if keys, ok := strings.CutPrefix(elements, "keys,"); ok {
		s.keys, elements, _ = strings.Cut(keys, ",endkeys")
	}
	s.elem.rule = strings.Trim(elements, ",")
	s.elem.secret = s.secret
	return s
}

func kindOf(t reflect.Type) kind {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return kindDuration
	case reflect.TypeFor[Size]():
		return kindSize
	case reflect.TypeFor[MicroUSD]():
		return kindMoney
	case reflect.TypeFor[Toggle]():
		return kindToggle
	case reflect.TypeFor[*float64]():
		return kindFloat
	}
	switch t.Kind() {
	case reflect.Struct:
		return kindSection
	case reflect.Map:
		return kindMap
	case reflect.Slice:
		return kindList
	case reflect.Bool:
		return kindBool
	case reflect.Int, reflect.Int64:
		return kindInt
	case reflect.Float64:
		return kindFloat
	default:
		return kindText
	}
}

// field returns a field of a section by name, or nil if it does not exist.
func (s *spec) field(name string) *spec {
	for _, f := range s.fields {
		if f.name == name {
			return f
		}
	}
	return nil
}

// ofHosts reports whether a key is a list of hosts. Such a key used to be true or false.
func (s *spec) ofHosts() bool { return s.kind == kindList && s.elem.rule == "hostpattern" }

// plural reports whether a key contains more keys.
func (s *spec) plural() bool { return s.kind == kindSection || s.kind == kindMap }

// expectation describes the valid values, for messages.
func (s *spec) expectation() string {
	return strings.TrimSpace(s.noun() + s.sample() + " " + s.bounds())
}

func (s *spec) sample() string {
	switch s.kind {
	case kindDuration:
		return " (such as 30s, 5m or 24h)"
	case kindSize:
		return " (such as 64KiB or 10MB)"
	case kindMoney:
		return " (such as 2.50)"
	default:
		return ""
	}
}

func (s *spec) noun() string {
	switch s.kind {
	case kindSection, kindMap:
		return "a mapping"
	case kindList:
		return "a list"
	case kindBool:
		return "true or false"
	case kindToggle:
		return "auto, true or false"
	case kindInt:
		return "a whole number"
	case kindFloat:
		return "a number"
	case kindDuration:
		return "a duration"
	case kindSize:
		return "a size"
	case kindMoney:
		return "a US dollar amount"
	default:
		return s.textNoun()
	}
}

func (s *spec) textNoun() string {
	for rule := range strings.SplitSeq(s.rule, ",") {
		if options, ok := strings.CutPrefix(rule, "oneof="); ok {
			if !strings.Contains(options, " ") {
				return options
			}
			return "one of " + strings.ReplaceAll(options, " ", ", ")
		}
		if form, ok := forms[rule]; ok {
			return form.expected
		}
	}
	if s.required() {
		return "a non-empty string"
	}
	return "a string"
}

func (s *spec) required() bool { return strings.Contains(","+s.rule+",", ",required,") }

// bounds describes the range, as part of a sentence.
func (s *spec) bounds() string {
	low, high := s.bound("min"), s.bound("max")
	switch {
	case s.kind == kindList || s.kind == kindMap:
		if high != "" {
			return "of at most " + high + " entries"
		}
		return ""
	case low != "" && high != "":
		return fmt.Sprintf("from %s to %s", low, high)
	case low != "":
		return "of at least " + low
	case high != "" && s.kind == kindText:
		return "of at most " + high + " characters"
	case high != "":
		return "of at most " + high
	default:
		return ""
	}
}

func (s *spec) bound(name string) string {
	for rule := range strings.SplitSeq(s.rule, ",") {
		if value, ok := strings.CutPrefix(rule, name+"="); ok {
			return s.showBound(value)
		}
	}
	return ""
}

func (s *spec) showBound(value string) string {
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil || n == 0:
		return value
	case s.kind == kindSize:
		return Size(n).String()
	case s.kind == kindMoney:
		return MicroUSD(n).String()
	default:
		return value
	}
}

// tree converts settings into the form in which layers are merged: maps, lists and values. Nil
// pointers are omitted.
func (s *spec) tree(v reflect.Value) any {
	switch s.kind {
	case kindSection:
		out := map[string]any{}
		for _, f := range s.fields {
			if value := f.tree(v.FieldByIndex(f.index)); value != nil {
				out[f.name] = value
			}
		}
		return out
	case kindMap:
		out := map[string]any{}
		for it := v.MapRange(); it.Next(); {
			out[it.Key().String()] = s.elem.tree(it.Value())
		}
		return out
	case kindList:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = s.elem.tree(v.Index(i))
		}
		return out
	default:
		if v.Kind() != reflect.Pointer {
			return v.Interface()
		}
		if v.IsNil() {
			return nil
		}
		return v.Elem().Interface()
	}
}

// fill adds defaults to elements of maps and lists. It runs after the merge, so that a
// default never hides a lower layer.
func (s *spec) fill(value any) {
	switch s.kind {
	case kindSection:
		values, _ := value.(map[string]any)
		for _, f := range s.fields {
			if v, ok := values[f.name]; ok {
				f.fill(v)
			} else if f.fallback != "" && values != nil {
				values[f.name] = f.parseFallback()
			}
		}
	case kindMap:
		values, _ := value.(map[string]any)
		for _, v := range values {
			s.elem.fill(v)
		}
	case kindList:
		values, _ := value.([]any)
		for _, v := range values {
			s.elem.fill(v)
		}
	default: // a single value is complete
	}
}

func (s *spec) parseFallback() any {
	if n, err := strconv.Atoi(s.fallback); err == nil && s.kind == kindInt {
		return n
	}
	if d, err := time.ParseDuration(s.fallback); err == nil && s.kind == kindDuration {
		return d
	}
	return s.fallback
}
