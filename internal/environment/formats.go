package environment

import (
	"maps"
	"slices"
	"strings"
)

// table is a TOML table of unknown shape. Its methods take a path of keys and find
// nothing if the shape differs.
type table map[string]any

func (t *tree) table(p string) table {
	found := table{}
	if !t.toml(p, (*map[string]any)(&found)) {
		return nil
	}
	return found
}

func (t table) get(keys ...string) any {
	var v any = map[string]any(t)
	for _, key := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

func (t table) has(keys ...string) bool { return t.get(keys...) != nil }

func (t table) str(keys ...string) string {
	s, _ := t.get(keys...).(string)
	return s
}

func (t table) table(keys ...string) table {
	m, _ := t.get(keys...).(map[string]any)
	return m
}

// names returns the keys of a table that are valid names of extras or groups, sorted.
func (t table) names(keys ...string) []string {
	names := slices.Sorted(maps.Keys(t.table(keys...)))
	names = slices.DeleteFunc(names, func(name string) bool { return !groupName.MatchString(name) })
	return names[:min(len(names), maxWords)]
}

// list returns the strings of an array, or a single string as a list.
func (t table) list(keys ...string) []string {
	switch v := t.get(keys...).(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, item := range v {
			if s, ok := item.(string); ok && len(out) < 500 {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// ini is a file in the format of Python's configparser: sections of names and values. A value
// continues on indented lines.
type ini map[string]map[string]string

func (t *tree) ini(p string) ini { return parseINI(t.text(p)) }

func (i ini) value(section, name string) string { return i[section][name] }

func parseINI(text string) ini {
	out := ini{}
	section, name := "", ""
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || trimmed[0] == '#' || trimmed[0] == ';':
		case (line[0] == ' ' || line[0] == '\t') && name != "":
			out[section][name] += "\n" + trimmed
		case trimmed[0] == '[' && strings.HasSuffix(trimmed, "]"):
			section, name = trimmed[1:len(trimmed)-1], ""
			if out[section] == nil {
				out[section] = map[string]string{}
			}
		default:
			at := strings.IndexAny(trimmed, "=:")
			if at < 0 || section == "" {
				name = ""
				continue
			}
			name = strings.ToLower(strings.TrimSpace(trimmed[:at]))
			out[section][name] = strings.TrimSpace(trimmed[at+1:])
		}
	}
	return out
}
