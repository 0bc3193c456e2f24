package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
	"go.yaml.in/yaml/v3"
)

// decoder turns YAML nodes into values of the kinds that the schema requires, and collects errors.
type decoder struct {
	report  *report
	origins map[string]Origin
	at      func(*yaml.Node) Origin
}

// value decodes one node. It returns false if there is no value to merge because the section is
// empty or an error was found.
func (d *decoder) value(n *yaml.Node, s *spec, key string) (any, bool) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.ShortTag() == "!!null" && (s.plural() || s.kind == kindList) {
		return nil, false
	}
	d.origins[key] = d.at(n)
	switch s.kind {
	case kindSection, kindMap:
		return d.mapping(n, s, key)
	case kindList:
		return d.list(n, s, key)
	default:
		v, ok := scalar(n, s)
		if !ok {
			d.mistake(n, s, key)
			return nil, false
		}
		return v, true
	}
}

func (d *decoder) mistake(n *yaml.Node, s *spec, key string) {
	if s.ofHosts() && n.ShortTag() == "!!bool" {
		d.report.add(d.at(n), key, "must be a list of hosts: replace true with the allowed hosts, such as [packages.example.com], and false with an empty list, []")
		return
	}
	d.report.add(d.at(n), key, "expected %s, got %s", s.expectation(), s.found(n))
}

// mapping decodes a section or a map, key by key.
func (d *decoder) mapping(n *yaml.Node, s *spec, key string) (any, bool) {
	if n.Kind != yaml.MappingNode {
		d.mistake(n, s, key)
		return nil, false
	}
	out := map[string]any{}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, child := n.Content[i], n.Content[i+1]
		path := join(key, name.Value)
		if first, twice := seen[name.Value]; twice {
			d.report.add(d.at(name), path, "is set twice, first on line %d", first)
			continue
		}
		seen[name.Value] = name.Line
		next := d.next(name, s, key)
		if next == nil {
			continue
		}
		if v, ok := d.value(child, next, path); ok {
			out[name.Value] = v
			d.origins[path] = d.at(name)
		}
	}
	return out, true
}

// next finds the description of a key in a section or map.
func (d *decoder) next(name *yaml.Node, s *spec, key string) *spec {
	if name.ShortTag() == "!!merge" {
		d.report.add(d.at(name), key, "<< is not supported; write the keys out")
		return nil
	}
	if name.Kind != yaml.ScalarNode || name.Value == "" || strings.ContainsFunc(name.Value, notInName) {
		d.report.add(d.at(name), key, "invalid key; expected a name")
		return nil
	}
	if s.kind == kindMap {
		return s.elem
	}
	if f := s.field(name.Value); f != nil {
		return f
	}
	d.report.add(d.at(name), join(key, name.Value), "%s", unknown(s, key, name.Value))
	return nil
}

func notInName(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) }

// list decodes a list. It replaces the whole list of a lower layer, including the origins of its
// elements.
func (d *decoder) list(n *yaml.Node, s *spec, key string) (any, bool) {
	if n.Kind != yaml.SequenceNode {
		d.mistake(n, s, key)
		return nil, false
	}
	dropElements(d.origins, key)
	out := make([]any, 0, len(n.Content))
	for i, child := range n.Content {
		// An invalid element keeps its position, so that later elements keep their numbers; its
		// error rejects the configuration anyway.
		v, ok := d.value(child, s.elem, fmt.Sprintf("%s[%d]", key, i))
		if !ok {
			if child.ShortTag() == "!!null" && s.elem.plural() {
				d.mistake(child, s.elem, fmt.Sprintf("%s[%d]", key, i))
			}
			v = s.elem.tree(reflect.Zero(s.elem.typ))
		}
		out = append(out, v)
	}
	return out, true
}

func dropElements(origins map[string]Origin, key string) {
	for k := range origins {
		if strings.HasPrefix(k, key+"[") {
			delete(origins, k)
		}
	}
}

// scalar decodes a single value.
func scalar(n *yaml.Node, s *spec) (any, bool) {
	if n.Kind != yaml.ScalarNode {
		return nil, false
	}
	tag, text := n.ShortTag(), n.Value
	number := tag == "!!int" || tag == "!!float"
	switch s.kind {
	case kindBool:
		return text == "true", tag == "!!bool" && (text == "true" || text == "false")
	case kindToggle:
		return Toggle(text), tag == "!!bool" || tag == "!!str"
	case kindInt:
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || tag != "!!int" {
			return nil, false
		}
		if s.typ.Kind() == reflect.Int {
			return int(v), true
		}
		return v, true
	case kindFloat:
		v, err := strconv.ParseFloat(text, 64)
		return v, err == nil && number && v == v
	case kindDuration:
		if tag == "!!int" && text == "0" {
			return time.Duration(0), true
		}
		v, err := time.ParseDuration(text)
		return v, err == nil && tag == "!!str"
	case kindSize:
		v, err := ParseSize(text)
		return v, err == nil && (tag == "!!int" || tag == "!!str")
	case kindMoney:
		v, err := ParseUSD(text)
		return v, err == nil && number
	default:
		return text, tag == "!!str" && utf8.ValidString(text)
	}
}

// found describes the content of a node, for users.
func (s *spec) found(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.ShortTag() == "!!null":
		return "nothing"
	case n.ShortTag() == "!!str":
		return s.show(strconv.Quote(n.Value))
	case s.kind == kindText:
		return s.show(n.Value) + " (put it in quotes)"
	default:
		return s.show(n.Value)
	}
}

// show truncates a value, and hides it if it may be secret.
func (s *spec) show(text string) string {
	const longest = 60
	if s.secret {
		return "a value that is not shown because it may be secret"
	}
	if utf8.RuneCountInString(text) <= longest {
		return text
	}
	return string([]rune(text)[:longest]) + "…"
}

// unknown explains a key that does not exist, and suggests the intended key.
func unknown(s *spec, key, name string) string {
	var names []string
	for _, f := range s.fields {
		names = append(names, f.name)
	}
	what := "unknown key"
	if key == "" {
		what = "unknown section"
	}
	if hint, ok := misplaced[name]; ok {
		return what + "; " + hint
	}
	if near := nearest(name, names); near != "" {
		return fmt.Sprintf("%s; did you mean %s?", what, near)
	}
	return fmt.Sprintf("%s; expected one of %s", what, strings.Join(names, ", "))
}

// misplaced are keys for secrets, which do not belong in a file, with hints.
var misplaced = map[string]string{
	"api_key":        "secrets do not belong in this file; use api_key_env or api_key_file",
	"token":          "secrets do not belong in this file; use token_env or token_file for a forge, api_key_env or api_key_file for a model provider",
	"webhook_secret": "secrets do not belong in this file; use webhook_secret_env or webhook_secret_file",
	"password":       "secrets do not belong in this file; use password_env or password_file for a notification channel, DATABASE_URL for the database",
}

// nearest returns the name closest to a misspelled one, or an empty string if none is close.
func nearest(name string, names []string) string {
	best, least := "", min(3, len(name)/3+1)
	for _, candidate := range names {
		if d := levenshtein.ComputeDistance(name, candidate); d < least {
			best, least = candidate, d
		}
	}
	return best
}

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}
