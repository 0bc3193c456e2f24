package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
)

// Key describes one setting.
type Key struct {
	Key        string // dotted; <name> stands for a key of a map, [] for any element of a list
	Type       string // expected value, in words
	Default    string // as YAML; empty if there is none
	Doc        string
	Env        string // variable that sets it; empty if there is none
	Repository string // what a repository's own file may do with it, in words
}

// Schema describes every setting, in the order of the sections.
func Schema() []Key {
	var out []Key
	describeKeys(root(), reflect.ValueOf(Default()).Elem(), "", "", &out)
	return out
}

func describeKeys(s *spec, defaults reflect.Value, key, trust string, out *[]Key) {
	for _, f := range s.fields {
		var value reflect.Value
		if defaults.IsValid() {
			value = defaults.FieldByIndex(f.index)
		}
		path, rights := join(key, f.name), cmp.Or(f.trust, trust)
		switch {
		case f.kind == kindSection:
			describeKeys(f, value, path, rights, out)
		case f.elem != nil && f.elem.kind == kindSection:
			if f.kind == kindList {
				*out = append(*out, f.describe(path, rights, value))
			}
			describeKeys(f.elem, reflect.Value{}, path+placeholder(f), rights, out)
		default:
			*out = append(*out, f.describe(path, rights, value))
		}
	}
}

func placeholder(s *spec) string {
	if s.kind == kindList {
		return "[]"
	}
	return ".<name>"
}

func (s *spec) describe(path, trust string, value reflect.Value) Key {
	k := Key{Key: path, Type: s.summary(), Default: s.fallback, Doc: s.doc, Repository: rights[trust]}
	if s.kind == kindList && s.elem.kind != kindSection && s.elem.rule != "" {
		k.Type = "a list, each entry " + s.elem.summary()
	}
	if value.IsValid() {
		k.Default = s.yaml(value)
	}
	if !strings.ContainsAny(path, "<[") && s.kind != kindMap {
		k.Env = envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
	}
	return k
}

// rights says in words what the repo tag allows.
var rights = map[string]string{
	"":           "no",
	"yes":        "yes",
	"lower":      "lower only",
	"limit":      "lower only",
	"cap":        "lower only",
	"add":        "may add entries",
	"remove":     "may remove entries",
	"narrow":     "entries of the operator's list",
	"stricter":   "true only",
	"raise":      "raise only",
	"tighten":    "stricter only",
	"network":    "hosts that the operator allows",
	"registries": "registries, and hosts that the operator allows",
	"images":     "images that the operator allows",
	"builds":     "if the operator allows builds",
	"models":     "models that the operator lists",
	"timeout":    "up to verification.timeout",
}

// yaml formats a value as in a file.
func (s *spec) yaml(v reflect.Value) string {
	switch s.kind {
	case kindList:
		entries := make([]string, v.Len())
		for i := range entries {
			entries[i] = s.elem.yaml(v.Index(i))
		}
		return "[" + strings.Join(entries, ", ") + "]"
	case kindMap:
		if v.Len() == 0 {
			return "{}"
		}
	case kindText:
		if v.String() == "" || strings.ContainsAny(v.String(), ":#{}[],&*!|>'%@`") || strings.HasSuffix(v.String(), "-") {
			return `"` + v.String() + `"`
		}
		return v.String()
	case kindBool, kindToggle:
		return fmt.Sprint(v.Interface())
	case kindFloat:
		if v.Kind() == reflect.Pointer {
			return ""
		}
	default:
	}
	return s.showValue(v.Interface())
}

// summary says what a value must be, for tables.
func (s *spec) summary() string {
	return strings.TrimSpace(s.noun() + " " + s.bounds())
}
