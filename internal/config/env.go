package config

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// envPrefix is the prefix of variables that are settings.
const envPrefix = "RGPT_"

// wellKnown are variables that similar tools also use. The RGPT_ form takes precedence.
var wellKnown = [][2]string{
	{"DATABASE_URL", "database.url"},
	{"TEMPORAL_ADDRESS", "temporal.address"},
	{"TEMPORAL_NAMESPACE", "temporal.namespace"},
	{"GAMMA_STUCK_THRESHOLD", "deliberation.gamma_stuck_after"},
	{"GAMMA_CONFLICT_THRESHOLD", "deliberation.gamma_conflict_at"},
	{"GAMMA_COMPLEXITY_THRESHOLD", "deliberation.gamma_complexity_over"},
	{"ORCHESTRATION_TIMEOUT", "deliberation.timeout"},
	{"AUTO_ORCHESTRATE", "deliberation.auto_continue"},
}

// ofSeconds are well-known variables in which a plain number means seconds, as in other tools.
var ofSeconds = []string{"GAMMA_STUCK_THRESHOLD", "ORCHESTRATION_TIMEOUT"}

// inSeconds appends the unit s to a plain number in such a variable.
func inSeconds(name, value string) string {
	if _, err := strconv.ParseFloat(value, 64); err == nil && slices.Contains(ofSeconds, name) {
		return value + "s"
	}
	return value
}

// environ converts the result of os.Environ into a map. The last duplicate counts, as in os/exec.
func environ(env []string) map[string]string {
	out := map[string]string{}
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok {
			out[name] = value
		}
	}
	return out
}

// environment merges the settings of the environment. An empty variable is ignored, because many
// tools can set variables but not remove them.
func (l *loader) environment(env []string) {
	vars := environ(env)
	for _, known := range wellKnown {
		if value := vars[known[0]]; value != "" {
			l.set(Origin{Source: SourceEnv, Name: known[0]}, known[1], inSeconds(known[0], value))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		rest, ok := strings.CutPrefix(name, envPrefix)
		if !ok || vars[name] == "" || !namesSection(rest) {
			continue
		}
		origin := Origin{Source: SourceEnv, Name: name}
		if key := envKey(rest); key != "" {
			l.set(origin, key, vars[name])
		} else if !fromKubernetes(rest) {
			l.report.layer(origin)
			l.report.add(origin, "", "unknown setting; docs/CONFIGURATION.md lists all settings")
		}
	}
}

// namesSection reports whether a variable is intended as a setting. Others, such as RGPT_DATA_DIR,
// are not settings.
func namesSection(rest string) bool {
	return slices.ContainsFunc(root().fields, func(f *spec) bool {
		return strings.HasPrefix(rest, strings.ToUpper(f.name)+"_")
	})
}

// kubernetes matches the variables that Kubernetes sets in every container for a service named
// rgpt-server, for example RGPT_SERVER_PORT_8080_TCP_ADDR.
var kubernetes = regexp.MustCompile(`^[A-Z]+(_SERVICE_HOST|_SERVICE_PORT(_[A-Z0-9_]+)?|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

func fromKubernetes(rest string) bool { return kubernetes.MatchString(rest) }

// envKey finds the key for a variable's name without the prefix, empty if there is
// none. Parts may be separated by one underscore or two.
func envKey(rest string) string {
	return matchEnv(root(), strings.ReplaceAll(rest, "__", "_"), "")
}

func matchEnv(s *spec, rest, key string) string {
	switch s.kind {
	case kindSection:
		// Longer names first: max_files before max.
		fields := slices.SortedFunc(slices.Values(s.fields), func(a, b *spec) int { return cmp.Compare(len(b.name), len(a.name)) })
		for _, f := range fields {
			name := strings.ToUpper(f.name)
			if rest == name && !f.plural() {
				return join(key, f.name)
			}
			if after, ok := strings.CutPrefix(rest, name+"_"); ok && f.plural() {
				if found := matchEnv(f, after, join(key, f.name)); found != "" {
					return found
				}
			}
		}
	case kindMap:
		if s.elem.kind != kindSection {
			return ""
		}
		for _, f := range s.elem.fields {
			name, ok := strings.CutSuffix(rest, "_"+strings.ToUpper(f.name))
			if ok && name != "" && !f.plural() {
				return join(join(key, strings.ToLower(name)), f.name)
			}
		}
	default: // a single value contains no keys
	}
	return ""
}

// flags merges settings by dotted key.
func (l *loader) flags(flags map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(flags)) {
		l.set(Origin{Source: SourceFlag, Name: key}, key, flags[key])
	}
}

// set merges a single value given as text.
func (l *loader) set(origin Origin, key, text string) {
	if tree, ok := l.textLayer(origin, key, text); ok {
		l.merge(tree)
	}
}

// textLayer creates a layer from a single value given as text.
func (l *loader) textLayer(origin Origin, key, text string) (tree map[string]any, ok bool) {
	l.report.layer(origin)
	s := root()
	parts := strings.Split(key, ".")
	for i, part := range parts {
		at := strings.Join(parts[:i], ".")
		var next *spec
		switch s.kind {
		case kindSection:
			next = s.field(part)
		case kindMap:
			next = s.elem
		default: // a single value contains no keys
		}
		if next == nil || part == "" {
			l.report.add(origin, key, "%s", unknown(s, at, part))
			return nil, false
		}
		s = next
	}
	if s.plural() {
		l.report.add(origin, key, "is a section; set one of its keys")
		return nil, false
	}
	d := decoder{report: &l.report, origins: l.origins, at: func(*yaml.Node) Origin { return origin }}
	v, ok := d.value(textNode(text, s), s, key)
	if !ok {
		return nil, false
	}
	for _, part := range slices.Backward(parts) {
		v = map[string]any{part: v}
	}
	tree, ok = v.(map[string]any)
	return tree, ok
}

// textNode returns the YAML node that a text would be in a file.
func textNode(text string, s *spec) *yaml.Node {
	node := func(s *spec, text string) *yaml.Node {
		if s.kind != kindText {
			var doc yaml.Node
			if yaml.Unmarshal([]byte(text), &doc) == nil && len(doc.Content) == 1 {
				return doc.Content[0]
			}
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	}
	if s.kind != kindList || strings.HasPrefix(strings.TrimSpace(text), "[") || s.ofHosts() && (text == "true" || text == "false") {
		return node(s, text)
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list.Content = append(list.Content, node(s.elem, part))
		}
	}
	return list
}
