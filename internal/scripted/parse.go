package scripted

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// The types below are the file's format; scenario.go has its meaning. Numbers are read as text,
// because the YAML library would truncate 1.5 to 1.

type scenarioDoc struct {
	Models []modelDoc `yaml:"models"`
	Rules  []ruleDoc  `yaml:"rules"`
}

type modelDoc struct {
	Name  string   `yaml:"name"`
	Lacks []string `yaml:"lacks"`
}

type ruleDoc struct {
	When    whenDoc   `yaml:"when"`
	Times   any       `yaml:"times"`
	Latency *string   `yaml:"latency"`
	Pace    *string   `yaml:"pace"`
	Reply   *replyDoc `yaml:"reply"`
	Usage   *usageDoc `yaml:"usage"`
	Fault   *faultDoc `yaml:"fault"`
}

type whenDoc struct {
	Agent    *string `yaml:"agent"`
	Phase    *string `yaml:"phase"`
	Step     *string `yaml:"step"`
	Attempt  any     `yaml:"attempt"`
	Turn     any     `yaml:"turn"`
	Contains *string `yaml:"contains"`
	Model    *string `yaml:"model"`
	Pictures any     `yaml:"pictures"`
}

type replyDoc struct {
	JSON      any       `yaml:"json"`
	Text      *string   `yaml:"text"`
	Reasoning *string   `yaml:"reasoning"`
	ToolCalls []callDoc `yaml:"tool_calls"`
}

type callDoc struct {
	Name      string `yaml:"name"`
	Arguments any    `yaml:"arguments"`
}

type usageDoc struct {
	PromptTokens     any `yaml:"prompt_tokens"`
	CachedTokens     any `yaml:"cached_tokens"`
	CompletionTokens any `yaml:"completion_tokens"`
}

type faultDoc struct {
	Status     any     `yaml:"status"`
	Code       *string `yaml:"code"`
	RetryAfter *string `yaml:"retry_after"`
	Timeout    bool    `yaml:"timeout"`
	Truncate   bool    `yaml:"truncate"`
	Malformed  bool    `yaml:"malformed"`
	Disconnect bool    `yaml:"disconnect"`
}

// mistake is an error in a scenario and its location.
type mistake struct {
	line    int    // from 1; 0 if unknown
	key     string // rules[2].when.agent
	problem string
}

func (m mistake) in(file string) string {
	where := file
	if m.line > 0 {
		where = fmt.Sprintf("%s:%d", file, m.line)
	}
	if m.key == "" {
		return where + ": " + m.problem
	}
	return where + ": " + m.key + ": " + m.problem
}

// parse reads a scenario; it returns either its content or mistakes.
func parse(data []byte) (map[string]lacks, []rule, []mistake) {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, nil, []mistake{locate(nil, err)}
	}
	if n := documents(file); n != 1 {
		return nil, nil, []mistake{{line: 1, key: "rules", problem: fmt.Sprintf("expected one YAML document with the key \"rules\"; got %d documents", n)}}
	}
	var doc scenarioDoc
	if err := yaml.NewDecoder(strings.NewReader(string(data)), yaml.Strict(), yaml.UseOrderedMap()).Decode(&doc); err != nil {
		return nil, nil, []mistake{locate(file, err)}
	}
	c := checker{file: file}
	if doc.Rules == nil {
		c.add("rules", "is missing; expected a list of rules")
	}
	rules := make([]rule, 0, len(doc.Rules))
	for i := range doc.Rules {
		rules = append(rules, c.rule(fmt.Sprintf("rules[%d]", i), &doc.Rules[i]))
	}
	models := c.models(doc.Models)
	return models, rules, c.mistakes
}

// documents counts the non-empty documents.
func documents(file *ast.File) int {
	n := 0
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType {
			n++
		}
	}
	return n
}

// locate returns the line and key of an error of the YAML library.
func locate(file *ast.File, err error) mistake {
	var syntax yaml.Error
	if !errors.As(err, &syntax) {
		return mistake{problem: firstLine(err.Error())}
	}
	m := mistake{problem: problemOf(syntax)}
	token := syntax.GetToken()
	if token == nil {
		return m
	}
	if token.Position != nil {
		m.line = token.Position.Line
		m.key = keyAt(file, token.Position.Offset)
	}
	if m.key == "" {
		m.key = firstLine(token.Value)
	}
	return m
}

// problemOf describes an error of the YAML library without Go types.
func problemOf(err yaml.Error) string {
	var wrong *yaml.TypeError
	if errors.As(err, &wrong) {
		return fmt.Sprintf("expected %s, got %s", plainType(wrong.DstType), plainType(wrong.SrcType))
	}
	return firstLine(err.GetMessage())
}

// plainType describes a Go type in YAML terms.
func plainType(t reflect.Type) string {
	if t == nil {
		return "null"
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if t == reflect.TypeFor[yaml.MapSlice]() {
			return "a mapping"
		}
		return "a list"
	case reflect.Struct, reflect.Map:
		return "a mapping"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Pointer:
		return plainType(t.Elem())
	default:
		return "a number"
	}
}

// keyAt returns the path of the innermost key or value that starts at an offset.
func keyAt(file *ast.File, offset int) string {
	if file == nil {
		return ""
	}
	f := finder{offset: offset}
	for _, d := range file.Docs {
		if d.Body != nil {
			ast.Walk(&f, d.Body)
		}
	}
	return strings.TrimPrefix(strings.TrimPrefix(f.path, "$"), ".")
}

type finder struct {
	offset int
	path   string
}

// Visit records the deepest node that starts at the error.
func (f *finder) Visit(n ast.Node) ast.Visitor {
	if t := n.GetToken(); t != nil && t.Position != nil && t.Position.Offset == f.offset && len(n.GetPath()) > len(f.path) {
		f.path = n.GetPath()
	}
	return f
}

// firstLine returns the first line of a message, because the library appends a source excerpt.
func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	const most = 200
	if len(s) > most {
		s = s[:most] + "…"
	}
	return s
}

// lineOf returns the line of a key, or of the nearest key above that exists.
func lineOf(file *ast.File, key string) int {
	for key != "" {
		if path, err := yaml.PathString("$." + key); err == nil {
			if node, err := path.FilterFile(file); err == nil && node != nil {
				if t := node.GetToken(); t != nil && t.Position != nil {
					return t.Position.Line
				}
			}
		}
		cut := strings.LastIndexAny(key, ".[")
		if cut < 0 {
			break
		}
		key = key[:cut]
	}
	return 1
}

// duration parses 200ms, 1s, 2m.
func duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration; expected a value such as 200ms, 1s or 2m", firstLine(s))
	}
	if d < 0 {
		return 0, fmt.Errorf("%s is negative", s)
	}
	return d, nil
}
